#include "backend/cuda/arch/numbers.cuh"
#include "backend/cuda/ops/cast_rows.h"
#include "backend/cuda/runtime/pdl_launch.h"
#include "backend/cuda/sample/token_of_row.cuh"

namespace kvasir::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kPerThread = 8;

__device__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ float to_float(__half value) { return __half2float(value); }
__device__ float to_float(float value) { return value; }

template <class T>
__global__ void convert_kernel(Matrix x, T* to, std::int64_t ld) {
  pdl_trigger();
  pdl_wait();
  const int at = static_cast<int>(blockIdx.y * kThreads + threadIdx.x) * kPerThread;
  if (at >= ld) return;
  const float* from = x.data + blockIdx.x * x.stride;
  alignas(16) T out[kPerThread];
  if (at + kPerThread <= x.cols && reinterpret_cast<std::uintptr_t>(from) % 16 == 0) {
    const float4 a = *reinterpret_cast<const float4*>(from + at);
    const float4 b = *reinterpret_cast<const float4*>(from + at + 4);
    const float values[kPerThread] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) out[i] = to_number(values[i], T());
  } else {
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) out[i] = to_number(at + i < x.cols ? from[at + i] : 0.0F, T());
  }
  T* row = to + blockIdx.x * ld + at;
#pragma unroll
  for (int i = 0; i < kPerThread; i += static_cast<int>(16 / sizeof(T))) {
    if (at + i < ld) *reinterpret_cast<uint4*>(row + i) = *reinterpret_cast<const uint4*>(out + i);
  }
}

template <class T>
__global__ void gather_kernel(const T* table, std::int64_t ld, const RowTokens tokens, Matrix out) {
  const T* from = table + token_of(tokens, blockIdx.x) * ld;
  float* to = out.data + blockIdx.x * out.stride;
  for (int c = static_cast<int>(blockIdx.y * kThreads + threadIdx.x); c < out.cols;
       c += static_cast<int>(gridDim.y) * kThreads) {
    to[c] = to_float(from[c]);
  }
}

__global__ void bias_kernel(const float* bias, Matrix out) {
  const int c = static_cast<int>(blockIdx.y * kThreads + threadIdx.x);
  if (c < out.cols) out.data[blockIdx.x * out.stride + c] += bias[c];
}

dim3 grid_of(int rows, std::int64_t cols, int per_cta) {
  return {static_cast<unsigned>(rows), static_cast<unsigned>((cols + per_cta - 1) / per_cta)};
}

template <class T>
void convert_to(Matrix x, void* to, std::int64_t ld, cudaStream_t stream) {
  launch_pdl("convert_rows", convert_kernel<T>, {grid_of(x.rows, ld, kThreads * kPerThread), dim3(kThreads)}, stream,
             x, static_cast<T*>(to), ld);
}

template <class T>
void gather_from(Table table, RowTokens tokens, Matrix out, cudaStream_t stream) {
  const dim3 grid = grid_of(out.rows, out.cols, kThreads * 4);
  gather_kernel<T><<<grid, kThreads, 0, stream>>>(static_cast<const T*>(table.data), table.ld, tokens, out);
  check_launch("gather_rows");
}

}  // namespace

void convert_rows(Matrix x, Number number, void* to, std::int64_t ld, cudaStream_t stream) {
  if (x.rows == 0) return;
  if (number == Number::kBF16) return convert_to<__nv_bfloat16>(x, to, ld, stream);
  if (number == Number::kF16) return convert_to<__half>(x, to, ld, stream);
  convert_to<float>(x, to, ld, stream);
}

void gather_rows(Table table, RowTokens tokens, Matrix out, cudaStream_t stream) {
  if (out.rows == 0) return;
  if (table.number == Number::kBF16) return gather_from<__nv_bfloat16>(table, tokens, out, stream);
  if (table.number == Number::kF16) return gather_from<__half>(table, tokens, out, stream);
  gather_from<float>(table, tokens, out, stream);
}

void add_bias(const float* bias, Matrix out, cudaStream_t stream) {
  if (out.rows == 0) return;
  bias_kernel<<<grid_of(out.rows, out.cols, kThreads), kThreads, 0, stream>>>(bias, out);
  check_launch("add_bias");
}

}  // namespace kvasir::cuda
