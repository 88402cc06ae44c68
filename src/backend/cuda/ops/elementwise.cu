#include "backend/cuda/ops/elementwise.h"

#include <algorithm>

#include "backend/cuda/arch/numbers.cuh"
#include "backend/cuda/gemm/swiglu.cuh"
#include "backend/cuda/ops/warp_rows.cuh"
#include "backend/cuda/runtime/pdl_launch.h"

namespace kvasir::cuda {
namespace {

constexpr int kNormThreads = 256;
constexpr int kNormWarps = kNormThreads / 32;
constexpr int kMostHeld = 32;  // numbers of a thread
constexpr int kThreads = 256;

// The sum over a CTA, in all threads: a thread's numbers in order, then warps, then all.
__device__ float cta_sum(float value, float* shared) {
  value = warp_sum(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < kNormThreads / 32; ++i) sum = __fadd_rn(sum, shared[i]);
  return sum;
}

// A CTA for each row. Squares are about the mean, which is 0 for RMS norms.
template <bool kCentered>
__global__ void normalize_rows(const NormRows rows) {
  __shared__ float shared[kNormThreads / 32];
  pdl_trigger();
  pdl_wait();
  const float* x = rows.x.data + blockIdx.x * rows.x.stride;
  float* out = rows.out.data + blockIdx.x * rows.out.stride;
  const int cols = rows.x.cols;
  float mean = 0;
  if constexpr (kCentered) {
    float sum = 0;
    for (int c = threadIdx.x; c < cols; c += kNormThreads) sum += x[c];
    mean = __fdiv_rn(cta_sum(sum, shared), static_cast<float>(cols));
  }
  float squares = 0;
  for (int c = threadIdx.x; c < cols; c += kNormThreads) squares = __fmaf_rn(x[c] - mean, x[c] - mean, squares);
  const float scale = __frsqrt_rn(__fdiv_rn(cta_sum(squares, shared), static_cast<float>(cols)) + rows.eps);
  for (int c = threadIdx.x; c < cols; c += kNormThreads) {
    const float value = __fmul_rn(__fmul_rn(x[c] - mean, scale), rows.weight[c]);
    out[c] = rows.bias != nullptr ? __fadd_rn(value, rows.bias[c]) : value;
  }
}

// A warp for each head of a row: a thread's numbers in order, then the warp.
template <bool kCentered>
__global__ void normalize_heads(const NormRows rows, int heads) {
  pdl_trigger();
  pdl_wait();
  const int item = static_cast<int>(blockIdx.x) * kNormWarps + static_cast<int>(threadIdx.x) / 32;
  if (item >= rows.x.rows * heads) return;
  const int dim = rows.x.cols / heads;
  const int first = item % heads * dim;
  const float* weight = rows.weight + item % heads * rows.weights_step;
  const float* bias = rows.bias == nullptr ? nullptr : rows.bias + item % heads * rows.weights_step;
  const float* x = rows.x.data + item / heads * rows.x.stride + first;
  float* out = rows.out.data + item / heads * rows.out.stride + first;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float mean = 0;
  if constexpr (kCentered) {
    float sum = 0;
    for (int c = lane; c < dim; c += 32) sum += x[c];
    mean = __fdiv_rn(warp_sum(sum), static_cast<float>(dim));
  }
  float squares = 0;
  for (int c = lane; c < dim; c += 32) squares = __fmaf_rn(x[c] - mean, x[c] - mean, squares);
  const float scale = __frsqrt_rn(__fdiv_rn(warp_sum(squares), static_cast<float>(dim)) + rows.eps);
  for (int c = lane; c < dim; c += 32) {
    const float value = __fmul_rn(__fmul_rn(x[c] - mean, scale), weight[c]);
    out[c] = bias != nullptr ? __fadd_rn(value, bias[c]) : value;
  }
}

// Adds and normalizes in one pass, for rows that fit into registers, kHeld numbers a thread. With fewer of them, more
// CTAs run at once.
template <class T, int kHeld>
__global__ void __launch_bounds__(kNormThreads) add_and_normalize(Matrix y, const NormRows rows, GemmInput also) {
  __shared__ float shared[kNormThreads / 32];
  pdl_trigger();
  float* x = rows.x.data + blockIdx.x * rows.x.stride;
  const float* more = y.data + blockIdx.x * y.stride;
  float* out = rows.out.data == nullptr ? nullptr : rows.out.data + blockIdx.x * rows.out.stride;
  const int cols = rows.x.cols;
  float held[kHeld];
  float weights[kHeld];
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int c = static_cast<int>(threadIdx.x) + i * kNormThreads;
    weights[i] = c < cols ? rows.weight[c] : 0.0F;
  }
  pdl_wait();
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int c = static_cast<int>(threadIdx.x) + i * kNormThreads;
    held[i] = c < cols ? __fadd_rn(x[c], more[c]) : 0.0F;
  }
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) squares = __fmaf_rn(held[i], held[i], squares);
  const float scale = __frsqrt_rn(__fdiv_rn(cta_sum(squares, shared), static_cast<float>(cols)) + rows.eps);
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int c = static_cast<int>(threadIdx.x) + i * kNormThreads;
    if (c >= cols) break;
    const float value = __fmul_rn(__fmul_rn(held[i], scale), weights[i]);
    x[c] = held[i];
    if (out != nullptr) out[c] = value;
    if (also.to != nullptr) static_cast<T*>(also.to)[blockIdx.x * also.ld + c] = to_number(value, T());
  }
  const int padding = cols + static_cast<int>(threadIdx.x);
  if (also.to != nullptr && padding < also.ld) static_cast<T*>(also.to)[blockIdx.x * also.ld + padding] = T(0.0F);
}

// A thread for each pair of each head.
__global__ void rotate(Matrix x, int head_dim, RopeTable table) {
  pdl_trigger();
  pdl_wait();
  const int i = blockIdx.y * blockDim.x + threadIdx.x;
  const int heads = x.cols / head_dim;
  if (i >= heads * table.pairs) return;
  const int row = blockIdx.x;
  const int pair = i % table.pairs;
  float* first = x.data + row * x.stride + i / table.pairs * head_dim + pair;
  float* second = first + table.pairs;
  const std::int64_t angle = table.first(row) + pair;
  const float cos = table.cos[angle];
  const float sin = table.sin[angle];
  const float a = *first;
  const float b = *second;
  *first = __fsub_rn(__fmul_rn(a, cos), __fmul_rn(b, sin));
  *second = __fadd_rn(__fmul_rn(b, cos), __fmul_rn(a, sin));
}

__global__ void swiglu_kernel(Matrix gates, Matrix up, Matrix out) {
  pdl_trigger();
  pdl_wait();
  const int c = blockIdx.y * blockDim.x + threadIdx.x;
  if (c >= out.cols) return;
  out.data[blockIdx.x * out.stride + c] =
      silu_mul(gates.data[blockIdx.x * gates.stride + c], up.data[blockIdx.x * up.stride + c]);
}

constexpr int kSwiglu = 4;  // numbers of a thread

// Cast for the next GEMM.
template <class T>
__device__ T silu_mul_number(float gate, float up) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return silu_mul_rounded(gate, up);
  } else {
    return to_number(silu_mul(gate, up), T());
  }
}

template <class T>
__global__ void swiglu_cast_kernel(Matrix gates, Matrix up, GemmInput to) {
  pdl_trigger();
  pdl_wait();
  const int at = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) * kSwiglu;
  if (at >= to.ld) return;
  const float* a = gates.data + blockIdx.x * gates.stride + at;
  const float* b = up.data + blockIdx.x * up.stride + at;
  alignas(8) T out[kSwiglu];
  const auto addresses = reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b);
  if (at + kSwiglu <= gates.cols && addresses % sizeof(float4) == 0) {
    const float4 x = *reinterpret_cast<const float4*>(a);
    const float4 y = *reinterpret_cast<const float4*>(b);
    out[0] = silu_mul_number<T>(x.x, y.x);
    out[1] = silu_mul_number<T>(x.y, y.y);
    out[2] = silu_mul_number<T>(x.z, y.z);
    out[3] = silu_mul_number<T>(x.w, y.w);
  } else {
#pragma unroll
    for (int i = 0; i < kSwiglu; ++i) out[i] = at + i < gates.cols ? silu_mul_number<T>(a[i], b[i]) : T(0.0F);
  }
  *reinterpret_cast<uint2*>(static_cast<T*>(to.to) + blockIdx.x * to.ld + at) = *reinterpret_cast<const uint2*>(out);
}

constexpr int kSwigluRounded = 8;  // numbers of a thread: 16 bytes

__global__ void swiglu_rounded_kernel(const __grid_constant__ GemmArgs p) {
  pdl_trigger();
  pdl_wait();
  const int at = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) * kSwigluRounded;
  if (at >= p.ld_swiglu) return;
  const int count = p.outputs / 2;
  const __nv_bfloat16* a = static_cast<const __nv_bfloat16*>(p.gate_up_out) + blockIdx.x * p.ld_out + at;
  const __nv_bfloat16* b = a + count;
  alignas(16) __nv_bfloat16 gates[kSwigluRounded], ups[kSwigluRounded], out[kSwigluRounded];
  const auto addresses = reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b);
  if (at + kSwigluRounded <= count && addresses % sizeof(uint4) == 0) {
    *reinterpret_cast<uint4*>(gates) = *reinterpret_cast<const uint4*>(a);
    *reinterpret_cast<uint4*>(ups) = *reinterpret_cast<const uint4*>(b);
  } else {
#pragma unroll
    for (int i = 0; i < kSwigluRounded; ++i) {
      gates[i] = at + i < count ? a[i] : __nv_bfloat16(0.0F);
      ups[i] = at + i < count ? b[i] : __nv_bfloat16(0.0F);
    }
  }
#pragma unroll
  for (int i = 0; i < kSwigluRounded; ++i) out[i] = silu_mul(gates[i], ups[i]);
  *reinterpret_cast<uint4*>(static_cast<__nv_bfloat16*>(p.swiglu_out) + blockIdx.x * p.ld_swiglu + at) =
      *reinterpret_cast<const uint4*>(out);
}

__global__ void sum(Matrix x, Matrix y) {
  pdl_trigger();
  pdl_wait();
  const int c = blockIdx.y * blockDim.x + threadIdx.x;
  if (c >= x.cols) return;
  x.data[blockIdx.x * x.stride + c] = __fadd_rn(x.data[blockIdx.x * x.stride + c], y.data[blockIdx.x * y.stride + c]);
}

// A thread for each output of each head.
__global__ void project_heads(const ProjectedRows rows) {
  pdl_trigger();
  pdl_wait();
  const int i = blockIdx.y * blockDim.x + threadIdx.x;
  if (i >= rows.heads * rows.by.outputs) return;
  const auto row = static_cast<std::int64_t>(blockIdx.x);
  const int head = i / rows.by.outputs;
  const int output = i % rows.by.outputs;
  const float* from = rows.x.data + row * rows.x.stride + head * rows.by.inputs;
  const float* column = rows.by.at + head / (rows.heads / rows.by.heads) * rows.by.head_stride + output;
  float total = 0;
  for (int j = 0; j < rows.by.inputs; ++j) total = __fmaf_rn(from[j], column[j * rows.by.stride], total);
  rows.out.data[row * rows.out.stride + i] = total;
}

// A grid of rows by columns.
dim3 over(int rows, int columns) {
  return {static_cast<unsigned>(rows), static_cast<unsigned>((columns + kThreads - 1) / kThreads)};
}

}  // namespace

void normalize(NormRule::Kind kind, const NormRows& rows, int heads, cudaStream_t stream) {
  const bool centered = kind == NormRule::Kind::kLayer;
  if (heads == 1) {
    launch_pdl("norm", centered ? normalize_rows<true> : normalize_rows<false>,
               {dim3(static_cast<unsigned>(rows.x.rows)), dim3(kNormThreads)}, stream, rows);
    return;
  }
  const int warps = rows.x.rows * heads;
  launch_pdl("norm of heads", centered ? normalize_heads<true> : normalize_heads<false>,
             {dim3(static_cast<unsigned>((warps + kNormWarps - 1) / kNormWarps)), dim3(kNormThreads)}, stream, rows,
             heads);
}

bool fits_add_rms_norm(int cols) { return cols <= kMostHeld * kNormThreads; }

void add_rms_norm(Matrix y, const NormRows& rows, GemmInput also, cudaStream_t stream) {
  const bool half = rows.x.cols <= kMostHeld / 2 * kNormThreads;
  const auto f16 = half ? add_and_normalize<__half, kMostHeld / 2> : add_and_normalize<__half, kMostHeld>;
  const auto bf16 =
      half ? add_and_normalize<__nv_bfloat16, kMostHeld / 2> : add_and_normalize<__nv_bfloat16, kMostHeld>;
  launch_pdl("add_rms_norm", also.number == Number::kF16 ? f16 : bf16,
             {dim3(static_cast<unsigned>(rows.x.rows)), dim3(kNormThreads)}, stream, y, rows, also);
}

void rope(Matrix x, int heads, const RopeTable& table, cudaStream_t stream) {
  launch_pdl("rope", rotate, {over(x.rows, heads * table.pairs), dim3(kThreads)}, stream, x, x.cols / heads, table);
}

void swiglu(Matrix gates, Matrix up, Matrix out, cudaStream_t stream) {
  launch_pdl("swiglu", swiglu_kernel, {over(out.rows, out.cols), dim3(kThreads)}, stream, gates, up, out);
}

void swiglu(Matrix gates, Matrix up, GemmInput to, cudaStream_t stream) {
  const auto kernel = to.number == Number::kF16 ? swiglu_cast_kernel<__half> : swiglu_cast_kernel<__nv_bfloat16>;
  const auto columns = static_cast<int>((to.ld + kSwiglu - 1) / kSwiglu);
  launch_pdl("swiglu", kernel, {over(gates.rows, columns), dim3(kThreads)}, stream, gates, up, to);
}

void swiglu_rounded(const GemmArgs& gemm, cudaStream_t stream) {
  const auto columns = static_cast<int>((gemm.ld_swiglu + kSwigluRounded - 1) / kSwigluRounded);
  launch_pdl("swiglu", swiglu_rounded_kernel, {over(gemm.rows, columns), dim3(kThreads)}, stream, gemm);
}

void add(Matrix x, Matrix y, cudaStream_t stream) {
  launch_pdl("add", sum, {over(x.rows, x.cols), dim3(kThreads)}, stream, x, y);
}

void project(const ProjectedRows& rows, cudaStream_t stream) {
  if (rows.x.rows == 0) return;
  launch_pdl("project", project_heads, {over(rows.x.rows, rows.heads * rows.by.outputs), dim3(kThreads)}, stream,
             rows);
}

}  // namespace kvasir::cuda
