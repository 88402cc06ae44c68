#include "backend/cuda/code_numbers.cuh"
#include "backend/cuda/code_rows.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/row_tokens.cuh"
#include "layout/codec_fp8.h"

namespace kvasir::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kAtOnce = 8;  // outputs that a thread widens, rows that it scales

// A thread has 8 k, half of an operand's 16, of each of its outputs: in a word of each of four lanes. Other threads
// of a warp have the next ones, so that they write rows without gaps.
template <class Codes>
__global__ void widen_kernel(const std::byte* codes, const __grid_constant__ WideRows rows, int along) {
  wait_for_forerunners();
  const int k = static_cast<int>(blockIdx.y * kThreads + threadIdx.x) * 8;
  if (k >= rows.ld) return;
  const int first = static_cast<int>(blockIdx.x) * kAtOnce;
#pragma unroll
  for (int i = 0; i < kAtOnce; ++i) {
    if (first + i >= rows.count) return;
    const int output = rows.first + first + i;
    const std::int64_t unit = static_cast<std::int64_t>(output / kUnitOutputs) * along + k / kUnitDepth;
    const std::byte* from = codes + unit * kUnitBytes + output % kUnitOutputs * 64 + k % kUnitDepth / 16 * 4;
    std::uint32_t numbers[4];
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      const WidePairs pairs = Codes::widen(*reinterpret_cast<const std::uint32_t*>(from + lane * 16));
      numbers[lane] = k % 16 == 0 ? pairs.low : pairs.high;
    }
    *reinterpret_cast<uint4*>(static_cast<__nv_bfloat16*>(rows.to) + (first + i) * rows.ld + k) = {
        numbers[0], numbers[1], numbers[2], numbers[3]};
  }
}

__global__ void scale_kernel(const float* scales, const float* bias, Matrix out) {
  wait_for_forerunners();
  const int c = static_cast<int>(blockIdx.y * kThreads + threadIdx.x);
  if (c >= out.cols) return;
  const float scale = scales[c];
  const float offset = bias == nullptr ? 0.0F : bias[c];
  const int first = static_cast<int>(blockIdx.x) * kAtOnce;
  float* at = out.data + first * out.stride + c;
  float sums[kAtOnce];
#pragma unroll
  for (int i = 0; i < kAtOnce; ++i) sums[i] = first + i < out.rows ? at[i * out.stride] : 0.0F;
#pragma unroll
  for (int i = 0; i < kAtOnce; ++i) {
    const float scaled = __fmul_rn(sums[i], scale);
    if (first + i < out.rows) at[i * out.stride] = bias == nullptr ? scaled : __fadd_rn(scaled, offset);
  }
}

__global__ void gather_kernel(const __grid_constant__ CodedWeights table, const RowTokens tokens, Matrix out) {
  const int token = token_of(tokens, blockIdx.x);
  const auto* units = static_cast<const std::uint8_t*>(table.codes) +
                      static_cast<std::int64_t>(token / kUnitOutputs) * units_along(table.inputs) * kUnitBytes;
  const float scale = table.scales[token];
  for (int c = static_cast<int>(blockIdx.y * kThreads + threadIdx.x); c < out.cols;
       c += static_cast<int>(gridDim.y) * kThreads) {
    const std::uint8_t code = units[code_in_row(token % kUnitOutputs, c)];
    const float value =
        table.form == WeightForm::kFp8 ? CodecE4M3::decode(code) : static_cast<float>(static_cast<std::int8_t>(code));
    out.data[blockIdx.x * out.stride + c] = __fmul_rn(value, scale);
  }
}

unsigned blocks_for(std::int64_t count, int per_block) {
  return static_cast<unsigned>((count + per_block - 1) / per_block);
}

}  // namespace

void widen_codes(const CodedWeights& weights, const WideRows& rows, cudaStream_t stream) {
  const dim3 grid(blocks_for(rows.count, kAtOnce), blocks_for(rows.ld, kThreads * 8));
  const auto kernel = weights.form == WeightForm::kFp8 ? widen_kernel<Fp8Codes> : widen_kernel<Int8Codes>;
  launch_early("widen_codes", kernel, {grid, dim3(kThreads)}, stream, static_cast<const std::byte*>(weights.codes),
               rows, units_along(weights.inputs));
}

void scale_outputs(const float* scales, const float* bias, Matrix out, cudaStream_t stream) {
  if (out.rows == 0) return;
  const dim3 grid(blocks_for(out.rows, kAtOnce), blocks_for(out.cols, kThreads));
  launch_early("scale_outputs", scale_kernel, {grid, dim3(kThreads)}, stream, scales, bias, out);
}

void gather_codes(const CodedWeights& table, RowTokens tokens, Matrix out, cudaStream_t stream) {
  if (out.rows == 0) return;
  const dim3 grid(static_cast<unsigned>(out.rows), blocks_for(out.cols, kThreads * 4));
  gather_kernel<<<grid, kThreads, 0, stream>>>(table, tokens, out);
  check_launch("gather_codes");
}

}  // namespace kvasir::cuda
