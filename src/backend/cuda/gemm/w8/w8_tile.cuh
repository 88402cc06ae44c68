// A tile of a GEMM with 8-bit weights by mma.sync, on any device: codes go from memory to registers, as their layout
// has them.
#pragma once

#include "backend/cuda/arch/tensor_core.cuh"
#include "backend/cuda/gemm/gemm.h"
#include "backend/cuda/gemm/w8/w8_convert.cuh"

namespace kvasir::cuda {

inline constexpr int kW8TileOutputs = 16;  // of a warp

// Two numbers of a row that a lane multiplies, zeros beyond it.
__device__ inline std::uint32_t two_inputs(const GemmArgs& p, int row, int k) {
  if (row >= p.rows || k >= p.inputs) return 0;
  return *reinterpret_cast<const std::uint32_t*>(static_cast<const __nv_bfloat16*>(p.x) + row * p.ld_x + k);
}

// The outputs from first_output on, a multiple of kW8TileOutputs, of 8 * kTiles rows, by a warp. p.w is codes.
template <class Convert, int kTiles>
__device__ void multiply_w8_tile(const GemmArgs& p, const float* scales, int first_output, int first_row) {
  if (first_output >= p.outputs) return;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int along = atoms_along(p.inputs);
  const auto* codes = static_cast<const std::byte*>(p.w) +
                      static_cast<std::int64_t>(first_output / kAtomOutputs) * along * kAtomBytes + lane * 16;
  // The last outputs may have one atom across: what it gives twice is not stored.
  const std::int64_t next = first_output + kAtomOutputs < p.outputs ? std::int64_t{along} * kAtomBytes : 0;
  float sums[kTiles][4] = {};
  for (int atom = 0; atom < along; ++atom, codes += kAtomBytes) {
    const uint4 low = *reinterpret_cast<const uint4*>(codes);
    const uint4 high = *reinterpret_cast<const uint4*>(codes + next);
    const std::uint32_t lows[4] = {low.x, low.y, low.z, low.w};
    const std::uint32_t highs[4] = {high.x, high.y, high.z, high.w};
#pragma unroll
    for (int step = 0; step < kAtomDepth / 16; ++step) {
      const Bf16Pairs first = Convert::to_bf16(lows[step]);
      const Bf16Pairs second = Convert::to_bf16(highs[step]);
      const std::uint32_t a[4] = {first.low, second.low, first.high, second.high};
      const int k = atom * kAtomDepth + step * 16 + lane % 4 * 2;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const int row = first_row + tile * 8 + lane / 4;
        HalfBF16::multiply(sums[tile], a, two_inputs(p, row, k), two_inputs(p, row, k + 8));
      }
    }
  }
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int output = first_output + lane / 4 + i / 2 * 8;
      const int row = first_row + tile * 8 + lane % 4 * 2 + i % 2;
      if (output >= p.outputs || row >= p.rows) continue;
      const float scaled = __fmul_rn(sums[tile][i], scales[output]);
      p.out[row * p.ld_out + output] = p.bias == nullptr ? scaled : __fadd_rn(scaled, p.bias[output]);
    }
  }
}

}  // namespace kvasir::cuda
