#include "backend/cuda/gemm/w8/w8_convert.cuh"
#include "backend/cuda/gemm/w8/w8_dequantize.h"
#include "backend/cuda/runtime/pdl_launch.h"
#include "backend/cuda/sample/token_of_row.cuh"
#include "layout/codec_fp8.h"

namespace kvasir::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kAtOnce = 8;  // outputs that a thread dequantizes, rows that it scales

// A thread has 8 k of each of its outputs: a word of each of four lanes' shares. Neighbouring threads have the next
// k, so a warp writes contiguous rows.
template <class Convert>
__global__ void dequantize_kernel(const std::byte* codes, const __grid_constant__ DequantRows rows, int along) {
  pdl_wait();
  const int k = static_cast<int>(blockIdx.y * kThreads + threadIdx.x) * 8;
  if (k >= rows.ld) return;
  const int first = static_cast<int>(blockIdx.x) * kAtOnce;
#pragma unroll
  for (int i = 0; i < kAtOnce; ++i) {
    if (first + i >= rows.count) return;
    const int output = rows.first + first + i;
    const std::int64_t atom = static_cast<std::int64_t>(output / kAtomOutputs) * along + k / kAtomDepth;
    const std::byte* from = codes + atom * kAtomBytes + output % kAtomOutputs * 64 + k % kAtomDepth / 16 * 4;
    std::uint32_t numbers[4];
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      const Bf16Pairs pairs = Convert::to_bf16(*reinterpret_cast<const std::uint32_t*>(from + lane * 16));
      numbers[lane] = k % 16 == 0 ? pairs.low : pairs.high;
    }
    *reinterpret_cast<uint4*>(static_cast<__nv_bfloat16*>(rows.to) + (first + i) * rows.ld + k) = {
        numbers[0], numbers[1], numbers[2], numbers[3]};
  }
}

__global__ void scale_kernel(const float* scales, const float* bias, Matrix out) {
  pdl_wait();
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

__global__ void gather_kernel(const __grid_constant__ W8Weights table, const RowTokens tokens, Matrix out) {
  const int token = token_of(tokens, blockIdx.x);
  const auto* atoms = static_cast<const std::uint8_t*>(table.codes) +
                      static_cast<std::int64_t>(token / kAtomOutputs) * atoms_along(table.inputs) * kAtomBytes;
  const float scale = table.scales[token];
  for (int c = static_cast<int>(blockIdx.y * kThreads + threadIdx.x); c < out.cols;
       c += static_cast<int>(gridDim.y) * kThreads) {
    const std::uint8_t code = atoms[w8_offset(token % kAtomOutputs, c)];
    const float value = table.form == WeightQuantization::kFp8 ? CodecE4M3::decode(code)
                                                               : static_cast<float>(static_cast<std::int8_t>(code));
    out.data[blockIdx.x * out.stride + c] = __fmul_rn(value, scale);
  }
}

unsigned ctas_for(std::int64_t count, int per_cta) { return static_cast<unsigned>((count + per_cta - 1) / per_cta); }

}  // namespace

void dequantize_w8(const W8Weights& weights, const DequantRows& rows, cudaStream_t stream) {
  const dim3 grid(ctas_for(rows.count, kAtOnce), ctas_for(rows.ld, kThreads * 8));
  const auto kernel =
      weights.form == WeightQuantization::kFp8 ? dequantize_kernel<Fp8ToBf16> : dequantize_kernel<Int8ToBf16>;
  launch_pdl("dequantize_w8", kernel, {grid, dim3(kThreads)}, stream, static_cast<const std::byte*>(weights.codes),
             rows, atoms_along(weights.inputs));
}

void scale_outputs(const float* scales, const float* bias, Matrix out, cudaStream_t stream) {
  if (out.rows == 0) return;
  const dim3 grid(ctas_for(out.rows, kAtOnce), ctas_for(out.cols, kThreads));
  launch_pdl("scale_outputs", scale_kernel, {grid, dim3(kThreads)}, stream, scales, bias, out);
}

void gather_w8(const W8Weights& table, RowTokens tokens, Matrix out, cudaStream_t stream) {
  if (out.rows == 0) return;
  const dim3 grid(static_cast<unsigned>(out.rows), ctas_for(out.cols, kThreads * 4));
  gather_kernel<<<grid, kThreads, 0, stream>>>(table, tokens, out);
  check_launch("gather_w8");
}

}  // namespace kvasir::cuda
