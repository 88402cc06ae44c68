// What multiplies codes of 8 bits by the rows that stream_stages.cuh brings.
#pragma once

#include "backend/cuda/code_numbers.cuh"
#include "backend/cuda/coded_product.h"
#include "backend/cuda/stream_stages.cuh"
#include "backend/cuda/warpgroup.cuh"

namespace kvasir::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

inline constexpr int kSteps = kUnitDepth / 16;
static_assert(kUnitDepth == kBoxCols);

// A tile's units: those of the first 8 outputs, of the next 8, and so on.
template <int kOfStage>
struct CodeFeed {
  static constexpr int kBoxes = kOfStage;
  static __device__ int tile(const StreamPlan& plan) { return plan.tile; }
  static __device__ int bytes(const StreamPlan& plan) { return kBoxes * plan.tile * kUnitDepth; }
  static __device__ void ask(hopper::BoxAt from, std::uint32_t to, std::uint32_t barrier) {
    hopper::copy_box_in_3d(to, {from.map, {0, from.col / kUnitDepth, from.row / kUnitOutputs}}, barrier,
                           hopper::kEvictFirst);
  }
};

// A lane's share of a unit.
__device__ __forceinline__ uint4 load_codes(std::uint32_t unit) {
  uint4 codes;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(codes.x), "=r"(codes.y), "=r"(codes.z), "=r"(codes.w)
               : "r"(unit + threadIdx.x % 32 * 16)
               : "memory");
  return codes;
}
__device__ __forceinline__ std::uint32_t word_of(const uint4& codes, int step) {
  return step == 0 ? codes.x : step == 1 ? codes.y : step == 2 ? codes.z : codes.w;
}

__device__ __forceinline__ void store_scaled(const CodedProduct& p, int row, int output, float sum) {
  if (row >= p.of.rows || output >= p.of.outputs) return;
  const float scaled = __fmul_rn(sum, p.scales[output]);
  p.of.out[row * p.of.ld_out + output] = p.of.bias == nullptr ? scaled : __fadd_rn(scaled, p.of.bias[output]);
}

// Few rows: a warp has one unit, the n8 operand of mma.sync, and up to 16 rows as the m16 one. What a step takes is
// the time of one product until the next may be added to it: many warps do theirs meanwhile.
template <class Codes, int kRows, int kBoxes>
struct MmaConsumer {
  static constexpr int kLoads = kRows == 8 ? kSteps / 2 : kSteps;  // of four 8 x 8 tiles of a box's rows
  struct Operands {
    uint4 codes[kBoxes];
    std::uint32_t rows[kBoxes][kLoads][4];
  };
  const CodedProduct& p;
  const StreamPlan& plan;
  const BlockStages& block;

  static __device__ int unit() { return static_cast<int>(threadIdx.x / 32); }

  // Of 16 rows, both halves of a step's k; of 8, those of two steps, the lower halves first. Chunks of 16 bytes are
  // permuted by their row.
  static __device__ std::uint32_t tile_row() {
    const std::uint32_t lane = threadIdx.x % 32;
    const std::uint32_t row = kRows == 8 ? lane % 8 : lane % 16;
    const std::uint32_t chunk = kRows == 8 ? lane / 8 % 2 * 2 + lane / 16 : lane / 16;
    return row * kBoxRowBytes + (chunk ^ row % 8) * 16;
  }

  __device__ void load(std::uint32_t stage, Operands& to) const {
    const std::uint32_t rows = stage + CodeFeed<kBoxes>::bytes(plan);
    const std::uint32_t place = tile_row();
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      to.codes[box] = load_codes(stage + (unit() * kBoxes + box) * kUnitBytes);
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        constexpr std::uint32_t kNext = kUnitDepth * 2 / kLoads;
        load_tiles(to.rows[box][i], rows + box * plan.region_rows * kBoxRowBytes + (place ^ i * kNext));
      }
    }
  }

  static __device__ void multiply(const Operands& operands, float (&sums)[4]) {
#pragma unroll
    for (int i = 0; i < kBoxes * kSteps; ++i) {
      const int step = i % kSteps;
      const WidePairs weights = Codes::widen(word_of(operands.codes[i / kSteps], step));
      if constexpr (kRows == 8) {  // the other 8 rows are anything
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
    hopper::wait(block.barriers.full + cursor.barrier, cursor.parity);
    load(block.base + cursor.at, now);
    for (int chunk = 1; chunk < plan.chunks; ++chunk) {
      const std::uint32_t last = cursor.barrier;
      cursor.next_stage(plan);
      Operands next;
      hopper::wait(block.barriers.full + cursor.barrier, cursor.parity);
      load(block.base + cursor.at, next);
      multiply(now, sums);
      block.give_back(last, plan);
      now = next;
    }
    multiply(now, sums);
    block.give_back(cursor.barrier, plan);
    cursor.next_stage(plan);
  }

  __device__ void run() const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    Cursor cursor{.group = block.first_group};
    for (; cursor.group < plan.groups * plan.passes; cursor.group += block.step) {
      float sums[4] = {};
      multiply_tile(cursor, sums);
      const int tile = cursor.group % plan.groups * plan.cluster + block.rank;
      const int output = tile * plan.tile + unit() * kUnitOutputs + lane % 4 * 2;
      const int row = cursor.group / plan.groups * kRows + lane / 4;
#pragma unroll
      for (int i = 0; i < kRows / 4; ++i) store_scaled(p, row + i / 2 * 8, output + i % 2, sums[i]);
    }
  }
};

// More rows: a warpgroup has units as the m64 operand of wgmma, which may come from registers, and rows as the n one.
// A warp has one or two units, as rows g and g + 8 of its 16.
template <class Codes, int kRows, int kBoxes, int kUnits>
struct WarpgroupConsumer {
  const CodedProduct& p;
  const StreamPlan& plan;
  const BlockStages& block;

  // Of a tile.
  static __device__ int unit(int i) {
    const int warp = static_cast<int>(threadIdx.x / 32);
    return warp / kGroupWarps * kGroupWarps * kUnits + i * kGroupWarps + warp % kGroupWarps;
  }
  __device__ bool has(int i) const { return unit(i) * kUnitOutputs < plan.tile; }

  // Zeros where a warp has no unit.
  __device__ void load(std::uint32_t stage, uint4 (&codes)[kBoxes][kUnits]) const {
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const std::uint32_t from = stage + unit(i) * kBoxes * kUnitBytes;
#pragma unroll
      for (int box = 0; box < kBoxes; ++box) {
        codes[box][i] = has(i) ? load_codes(from + box * kUnitBytes) : uint4{0, 0, 0, 0};
      }
    }
  }

  static __device__ void widen(const uint4 (&codes)[kUnits], std::uint32_t (&to)[kSteps][4]) {
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const WidePairs pairs = Codes::widen(word_of(codes[i], step));
        to[step][i] = pairs.low;
        to[step][i + 2] = pairs.high;
      }
    }
  }

  // Operands are in two sets of registers: one is filled while the tensor cores read the other.
  __device__ void multiply_tile(Cursor& cursor, float (&sums)[kRows / 2]) const {
    const std::uint64_t rows = hopper::matrix_descriptor(block.base + CodeFeed<kBoxes>::bytes(plan));
    const int rows_box = plan.region_rows * kBoxRowBytes / 16;
    std::uint32_t operands[2][kSteps][4] = {};
    std::uint32_t last = 0;
    for (int chunk = 0; chunk < plan.chunks; ++chunk) {
      hopper::wait(block.barriers.full + cursor.barrier, cursor.parity);
      uint4 codes[kBoxes][kUnits];
      load(block.base + cursor.at, codes);
#pragma unroll
      for (int box = 0; box < kBoxes; ++box) {
        hopper::wgmma_wait<1>();
        hopper::hold(operands[box % 2]);
        if (box == 1 && chunk > 0) block.give_back(last, plan);
        widen(codes[box], operands[box % 2]);
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
    block.give_back(last, plan);
  }

  __device__ void run() const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    Cursor cursor{.group = block.first_group};
    for (; cursor.group < plan.groups * plan.passes; cursor.group += block.step) {
      float sums[kRows / 2] = {};
      multiply_tile(cursor, sums);
      const int tile = cursor.group % plan.groups * plan.cluster + block.rank;
      const int row = cursor.group / plan.groups * kRows + lane % 4 * 2;
#pragma unroll
      for (int i = 0; i < kRows / 2; ++i) {
        const int half = i % 4 / 2;
        if (half >= kUnits || !has(half)) continue;
        const int output = tile * plan.tile + unit(half) * kUnitOutputs + lane / 4;
        store_scaled(p, row + i / 4 * 8 + i % 2, output, sums[i]);
      }
    }
  }
};

#endif

}  // namespace kvasir::cuda
