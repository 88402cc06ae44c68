// A tile of a GEMM by mma.sync, on any device.
//
// A warp has 16 outputs (m16) and 8 * kTiles rows (n8), and loops over all of k. Two warps share a CTA's rows. Stages
// of 64 k come by cp.async, kMmaStages ahead; 16-byte vectors of a row are permuted by the row's number, so that
// ldmatrix has no bank conflicts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/arch/numbers.cuh"
#include "backend/cuda/arch/tensor_core.cuh"
#include "backend/cuda/gemm/gemm.h"

namespace kvasir::cuda {

inline constexpr int kMmaWarps = 2;
inline constexpr int kMmaThreads = 32 * kMmaWarps;
inline constexpr int kMmaOutputs = 16 * kMmaWarps;
inline constexpr int kMmaDepth = 64;  // k of a stage: rows of 128 bytes
inline constexpr int kMmaVecs = kMmaDepth / 8;

template <int kTiles>
inline constexpr int kMmaStages = kTiles == 1 ? 16 : 8;
template <int kTiles>
inline constexpr int kMmaStageBytes = (kMmaOutputs + 8 * kTiles) * kMmaDepth * 2;
template <int kTiles>
inline constexpr int kMmaBytes = kMmaStages<kTiles>* kMmaStageBytes<kTiles>;

// A thread's share of the copies of kRows rows: the same 16-byte vector of every eighth row.
template <int kRows>
struct MmaCopier {
  static constexpr int kCopies = kRows * kMmaVecs / kMmaThreads;
  const std::byte* from;  // its first row's vector of the first stage
  std::int64_t step;      // bytes to its next row
  std::uint32_t to;       // in a stage
  int rows;               // its rows that exist
  int k;                  // of its vector

  __device__ MmaCopier(const void* data, std::int64_t ld, int first, int all_rows) {
    const int row = static_cast<int>(threadIdx.x) / kMmaVecs;
    const int vec = static_cast<int>(threadIdx.x) % kMmaVecs;
    k = vec * 8;
    from = static_cast<const std::byte*>(data) + ((first + row) * ld + k) * 2;
    step = kMmaThreads / kMmaVecs * ld * 2;
    to = static_cast<std::uint32_t>(row * kMmaDepth * 2 + ((vec ^ (row % 8)) * 16));
    rows = (all_rows - first - row + kMmaThreads / kMmaVecs - 1) / (kMmaThreads / kMmaVecs);
  }

  // Copies a stage; zeros beyond the matrix.
  __device__ void copy(const void* any, int stage, int inputs, std::uint32_t base) const {
    const bool inside_k = k + stage * kMmaDepth < inputs;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const bool inside = inside_k && i < rows;
      const void* at = inside ? from + i * step + stage * (kMmaDepth * 2) : any;
      const std::uint32_t to_smem =
          base + to + static_cast<std::uint32_t>(i * kMmaThreads / kMmaVecs * kMmaDepth * 2);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to_smem), "l"(at), "r"(inside ? 16 : 0));
    }
  }
};
static_assert(kMmaThreads / kMmaVecs == 8, "a thread's rows have one permutation");

// The address of a vector of a stage's row.
__device__ inline std::uint32_t mma_vec_at(std::uint32_t base, int row, int vec) {
  return base + static_cast<std::uint32_t>(row * kMmaDepth * 2 + ((vec ^ (row % 8)) * 16));
}

template <class Half, int kTiles>
__device__ void multiply_stage(std::uint32_t w, std::uint32_t x, float (&sums)[kTiles][4]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
#pragma unroll
  for (int step = 0; step < kMmaDepth / 16; step += 2) {
    std::uint32_t a[2][4];
    // Rows 0..7 and 8..15 of the first 8 k, then of the other 8.
#pragma unroll
    for (int i = 0; i < 2; ++i) load_tiles(a[i], mma_vec_at(w, warp * 16 + lane % 16, (step + i) * 2 + lane / 16));
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      std::uint32_t b[4];  // 8 rows, 32 k
      load_tiles(b, mma_vec_at(x, tile * 8 + lane % 8, step * 2 + lane / 8));
      Half::multiply(sums[tile], a[0], b[0], b[1]);
      Half::multiply(sums[tile], a[1], b[2], b[3]);
    }
  }
}

template <int kTiles>
__device__ void store(const GemmArgs& p, int first_output, int first_row, const float (&sums)[kTiles][4]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int output = first_output + lane / 4 + (i / 2) * 8;
      const int row = first_row + tile * 8 + (lane % 4) * 2 + i % 2;
      if (output >= p.outputs || row >= p.rows) continue;
      const float sum = sums[tile][i];
      if (p.has_swiglu()) {
        static_cast<__nv_bfloat16*>(p.gate_up_out)[row * p.ld_out + output] = to_number(sum, __nv_bfloat16());
        continue;
      }
      p.out[row * p.ld_out + output] = p.bias == nullptr ? sum : sum + p.bias[output];
    }
  }
}

// The outputs from first_output on, of the rows from first_row on, by a CTA of kMmaThreads threads. `memory` holds
// kMmaBytes<kTiles>, aligned to 16 bytes.
template <class Half, int kTiles>
__device__ void multiply_mma_tile(const GemmArgs& p, int first_output, int first_row, const void* memory) {
  const std::uint32_t base = shared_address(memory);
  const MmaCopier<kMmaOutputs> weights(p.w, p.ld_w, first_output, p.outputs);
  const MmaCopier<kTiles * 8> rows(p.x, p.ld_x, first_row, p.rows);
  const int stages = (p.inputs + kMmaDepth - 1) / kMmaDepth;
  const auto weights_at = [&](int stage) {
    return base + static_cast<std::uint32_t>(stage % kMmaStages<kTiles> * kMmaStageBytes<kTiles>);
  };
  const auto rows_at = [&](int stage) { return weights_at(stage) + kMmaOutputs * kMmaDepth * 2; };
  const auto copy = [&](int stage) {
    if (stage < stages) {
      weights.copy(p.w, stage, p.inputs, weights_at(stage));
      rows.copy(p.x, stage, p.inputs, rows_at(stage));
    }
    asm volatile("cp.async.commit_group;");
  };

  for (int stage = 0; stage < kMmaStages<kTiles> - 1; ++stage) copy(stage);
  float sums[kTiles][4] = {};
  for (int stage = 0; stage < stages; ++stage) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kMmaStages<kTiles> - 2));
    __syncthreads();
    copy(stage + kMmaStages<kTiles> - 1);
    multiply_stage<Half, kTiles>(weights_at(stage), rows_at(stage), sums);
  }
  asm volatile("cp.async.wait_group 0;");
  store<kTiles>(p, first_output + static_cast<int>(threadIdx.x / 32) * 16, first_row, sums);
}

}  // namespace kvasir::cuda
