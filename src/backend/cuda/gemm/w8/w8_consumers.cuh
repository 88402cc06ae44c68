// The consumers of weight_pipeline.cuh for 8-bit weights.
#pragma once

#include "backend/cuda/arch/warpgroup.cuh"
#include "backend/cuda/gemm/w8/w8_convert.cuh"
#include "backend/cuda/gemm/w8/w8_gemm.h"
#include "backend/cuda/gemm/weight_pipeline.cuh"

namespace kvasir::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

inline constexpr int kSteps = kAtomDepth / 16;
static_assert(kAtomDepth == kBoxCols);

// Loads a tile's atoms: those of the first 8 outputs, then of the next 8.
template <int kOfStage>
struct W8TileLoad {
  static constexpr int kBoxes = kOfStage;
  static __device__ int tile(const PipelinePlan& plan) { return plan.tile; }
  static __device__ int bytes(const PipelinePlan& plan) { return kBoxes * plan.tile * kAtomDepth; }
  static __device__ void issue(hopper::TmaBox from, std::uint32_t to, std::uint32_t barrier) {
    hopper::tma_load_3d(to, {from.map, {0, from.col / kAtomDepth, from.row / kAtomOutputs}}, barrier,
                        hopper::kEvictFirst);
  }
};

// Loads a lane's share of an atom.
__device__ __forceinline__ uint4 load_w8(std::uint32_t atom) {
  uint4 codes;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(codes.x), "=r"(codes.y), "=r"(codes.z), "=r"(codes.w)
               : "r"(atom + threadIdx.x % 32 * 16)
               : "memory");
  return codes;
}
__device__ __forceinline__ std::uint32_t word_of(const uint4& codes, int step) {
  return step == 0 ? codes.x : step == 1 ? codes.y : step == 2 ? codes.z : codes.w;
}

__device__ __forceinline__ void store_scaled(const W8GemmArgs& p, int row, int output, float sum) {
  if (row >= p.of.rows || output >= p.of.outputs) return;
  const float scaled = __fmul_rn(sum, p.scales[output]);
  p.of.out[row * p.of.ld_out + output] = p.of.bias == nullptr ? scaled : __fadd_rn(scaled, p.of.bias[output]);
}

// Few rows: a warp has one atom, the n8 of mma.sync, and up to 16 rows as m16. A step takes the latency of one mma,
// which other warps hide.
template <class Convert, int kRows, int kBoxes>
struct MmaConsumer {
  static constexpr int kLoads = kRows == 8 ? kSteps / 2 : kSteps;  // of four 8 x 8 tiles of a box's rows
  struct Operands {
    uint4 codes[kBoxes];
    std::uint32_t rows[kBoxes][kLoads][4];
  };
  const W8GemmArgs& p;
  const PipelinePlan& plan;
  const CtaStages& cta;

  static __device__ int atom() { return static_cast<int>(threadIdx.x / 32); }

  // With 16 rows both halves of a step's k; with 8 those of two steps, lower halves first. Vectors of 16 bytes are
  // permuted by their row.
  static __device__ std::uint32_t tile_row() {
    const std::uint32_t lane = threadIdx.x % 32;
    const std::uint32_t row = kRows == 8 ? lane % 8 : lane % 16;
    const std::uint32_t vec = kRows == 8 ? lane / 8 % 2 * 2 + lane / 16 : lane / 16;
    return row * kBoxRowBytes + (vec ^ row % 8) * 16;
  }

  __device__ void load(std::uint32_t stage, Operands& to) const {
    const std::uint32_t rows = stage + W8TileLoad<kBoxes>::bytes(plan);
    const std::uint32_t offset = tile_row();
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      to.codes[box] = load_w8(stage + (atom() * kBoxes + box) * kAtomBytes);
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        constexpr std::uint32_t kNext = kAtomDepth * 2 / kLoads;
        load_tiles(to.rows[box][i], rows + box * plan.region_rows * kBoxRowBytes + (offset ^ i * kNext));
      }
    }
  }

  static __device__ void multiply(const Operands& operands, float (&sums)[4]) {
#pragma unroll
    for (int i = 0; i < kBoxes * kSteps; ++i) {
      const int step = i % kSteps;
      const Bf16Pairs weights = Convert::to_bf16(word_of(operands.codes[i / kSteps], step));
      if constexpr (kRows == 8) {  // the other 8 rows may be anything
        const std::uint32_t(&two)[4] = operands.rows[i / kSteps][step / 2];
        const std::uint32_t rows[4] = {two[step % 2], two[1], two[2 + step % 2], two[3]};
        HalfBF16::multiply(sums, rows, weights.low, weights.high);
      } else {
        HalfBF16::multiply(sums, operands.rows[i / kSteps][step], weights.low, weights.high);
      }
    }
  }

  // The next stage is loaded before this one is multiplied.
  __device__ void multiply_tile(Cursor& cursor, float (&sums)[4]) const {
    Operands now;
    hopper::wait(cta.barriers.full + cursor.barrier, cursor.parity);
    load(cta.base + cursor.at, now);
    for (int k_tile = 1; k_tile < plan.k_tiles; ++k_tile) {
      const std::uint32_t last = cursor.barrier;
      cursor.next_stage(plan);
      Operands next;
      hopper::wait(cta.barriers.full + cursor.barrier, cursor.parity);
      load(cta.base + cursor.at, next);
      multiply(now, sums);
      cta.give_back(last, plan);
      now = next;
    }
    multiply(now, sums);
    cta.give_back(cursor.barrier, plan);
    cursor.next_stage(plan);
  }

  __device__ void run() const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    Cursor cursor{.tile_group = cta.first_tile_group};
    for (; cursor.tile_group < plan.tile_groups * plan.passes; cursor.tile_group += cta.step) {
      float sums[4] = {};
      multiply_tile(cursor, sums);
      const int tile = cursor.tile_group % plan.tile_groups * plan.cluster + cta.rank;
      const int output = tile * plan.tile + atom() * kAtomOutputs + lane % 4 * 2;
      const int row = cursor.tile_group / plan.tile_groups * kRows + lane / 4;
#pragma unroll
      for (int i = 0; i < kRows / 4; ++i) store_scaled(p, row + i / 2 * 8, output + i % 2, sums[i]);
    }
  }
};

// More rows: atoms are the m64 of wgmma, in registers, and rows are n. A warp has one or two atoms, as rows g and g +
// 8 of its 16.
template <class Convert, int kRows, int kBoxes, int kAtoms>
struct WarpgroupConsumer {
  const W8GemmArgs& p;
  const PipelinePlan& plan;
  const CtaStages& cta;

  // The tile's atom that is the warp's i-th.
  static __device__ int atom(int i) {
    const int warp = static_cast<int>(threadIdx.x / 32);
    return warp / kWarpgroupWarps * kWarpgroupWarps * kAtoms + i * kWarpgroupWarps + warp % kWarpgroupWarps;
  }
  __device__ bool has(int i) const { return atom(i) * kAtomOutputs < plan.tile; }

  // Zeros if a warp has no atom.
  __device__ void load(std::uint32_t stage, uint4 (&codes)[kBoxes][kAtoms]) const {
#pragma unroll
    for (int i = 0; i < kAtoms; ++i) {
      const std::uint32_t from = stage + atom(i) * kBoxes * kAtomBytes;
#pragma unroll
      for (int box = 0; box < kBoxes; ++box) {
        codes[box][i] = has(i) ? load_w8(from + box * kAtomBytes) : uint4{0, 0, 0, 0};
      }
    }
  }

  static __device__ void to_bf16(const uint4 (&codes)[kAtoms], std::uint32_t (&to)[kSteps][4]) {
#pragma unroll
    for (int i = 0; i < kAtoms; ++i) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const Bf16Pairs pairs = Convert::to_bf16(word_of(codes[i], step));
        to[step][i] = pairs.low;
        to[step][i + 2] = pairs.high;
      }
    }
  }

  // Double-buffered operands: one set is filled while wgmma reads the other.
  __device__ void multiply_tile(Cursor& cursor, float (&sums)[kRows / 2]) const {
    const std::uint64_t rows = hopper::matrix_descriptor(cta.base + W8TileLoad<kBoxes>::bytes(plan));
    const int rows_box = plan.region_rows * kBoxRowBytes / 16;
    std::uint32_t operands[2][kSteps][4] = {};
    std::uint32_t last = 0;
    for (int k_tile = 0; k_tile < plan.k_tiles; ++k_tile) {
      hopper::wait(cta.barriers.full + cursor.barrier, cursor.parity);
      uint4 codes[kBoxes][kAtoms];
      load(cta.base + cursor.at, codes);
#pragma unroll
      for (int box = 0; box < kBoxes; ++box) {
        hopper::wgmma_wait<1>();
        hopper::hold(operands[box % 2]);
        if (box == 1 && k_tile > 0) cta.give_back(last, plan);
        to_bf16(codes[box], operands[box % 2]);
        hopper::wgmma_fence();
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          hopper::multiply_by_columns<HalfBF16>(sums, operands[box % 2][step],
                                                rows + cursor.at / 16 + box * rows_box + 2 * step, 1);
        }
        hopper::wgmma_commit();
      }
      last = cursor.barrier;
      cursor.next_stage(plan);
    }
    hopper::wgmma_wait<0>();
    hopper::hold(operands[0]);
    hopper::hold(operands[1]);
    cta.give_back(last, plan);
  }

  __device__ void run() const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    Cursor cursor{.tile_group = cta.first_tile_group};
    for (; cursor.tile_group < plan.tile_groups * plan.passes; cursor.tile_group += cta.step) {
      float sums[kRows / 2] = {};
      multiply_tile(cursor, sums);
      const int tile = cursor.tile_group % plan.tile_groups * plan.cluster + cta.rank;
      const int row = cursor.tile_group / plan.tile_groups * kRows + lane % 4 * 2;
#pragma unroll
      for (int i = 0; i < kRows / 2; ++i) {
        const int half = i % 4 / 2;
        if (half >= kAtoms || !has(half)) continue;
        const int output = tile * plan.tile + atom(half) * kAtomOutputs + lane / 4;
        store_scaled(p, row + i / 4 * 8 + i % 2, output, sums[i]);
      }
    }
  }
};

#endif

}  // namespace kvasir::cuda
