#include "backend/cuda/row_ops.h"

#include <algorithm>

#include "backend/cuda/gates.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/numbers.cuh"
#include "backend/cuda/row_walk.cuh"

namespace kvasir::cuda {
namespace {

constexpr int kNormThreads = 256;
constexpr int kMostHeld = 32;  // numbers of a thread
constexpr int kThreads = 256;

// Of a whole thread block, the same in all threads: a thread's sum in the order of its numbers, then warps, then all.
__device__ float block_sum(float value, float* shared) {
  value = warp_sum(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < kNormThreads / 32; ++i) sum = __fadd_rn(sum, shared[i]);
  return sum;
}

// A row of one thread block. The sum of squares is about the mean, which RMS norms take as 0.
template <bool kCentered>
__global__ void normalize(const NormRows rows) {
  __shared__ float shared[kNormThreads / 32];
  let_followers_start();
  wait_for_forerunners();
  const float* x = rows.x.data + blockIdx.x * rows.x.stride;
  float* out = rows.out.data + blockIdx.x * rows.out.stride;
  const int cols = rows.x.cols;
  float mean = 0;
  if constexpr (kCentered) {
    float sum = 0;
    for (int c = threadIdx.x; c < cols; c += kNormThreads) sum += x[c];
    mean = __fdiv_rn(block_sum(sum, shared), static_cast<float>(cols));
  }
  float squares = 0;
  for (int c = threadIdx.x; c < cols; c += kNormThreads) squares = __fmaf_rn(x[c] - mean, x[c] - mean, squares);
  const float scale = __frsqrt_rn(__fdiv_rn(block_sum(squares, shared), static_cast<float>(cols)) + rows.eps);
  for (int c = threadIdx.x; c < cols; c += kNormThreads) {
    const float value = __fmul_rn(__fmul_rn(x[c] - mean, scale), rows.weight[c]);
    out[c] = rows.bias != nullptr ? __fadd_rn(value, rows.bias[c]) : value;
  }
}

// The same in one, for rows that a thread block can hold in registers, kHeld numbers of a thread: the fewer, the more
// thread blocks have theirs on the way at once.
template <class T, int kHeld>
__global__ void __launch_bounds__(kNormThreads) add_and_normalize(Matrix y, const NormRows rows, RowsRoom also) {
  __shared__ float shared[kNormThreads / 32];
  let_followers_start();
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
  wait_for_forerunners();
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int c = static_cast<int>(threadIdx.x) + i * kNormThreads;
    held[i] = c < cols ? __fadd_rn(x[c], more[c]) : 0.0F;
  }
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) squares = __fmaf_rn(held[i], held[i], squares);
  const float scale = __frsqrt_rn(__fdiv_rn(block_sum(squares, shared), static_cast<float>(cols)) + rows.eps);
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
  let_followers_start();
  wait_for_forerunners();
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

__global__ void gate(Matrix gates, Matrix up, Matrix out) {
  let_followers_start();
  wait_for_forerunners();
  const int c = blockIdx.y * blockDim.x + threadIdx.x;
  if (c >= out.cols) return;
  out.data[blockIdx.x * out.stride + c] =
      gated(gates.data[blockIdx.x * gates.stride + c], up.data[blockIdx.x * up.stride + c]);
}

constexpr int kGated = 4;  // numbers of a thread

// For the next product.
template <class T>
__device__ T gated_number(float gate, float up) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return gated_rounded(gate, up);
  } else {
    return to_number(gated(gate, up), T());
  }
}

template <class T>
__global__ void gate_to(Matrix gates, Matrix up, RowsRoom to) {
  let_followers_start();
  wait_for_forerunners();
  const int at = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) * kGated;
  if (at >= to.ld) return;
  const float* a = gates.data + blockIdx.x * gates.stride + at;
  const float* b = up.data + blockIdx.x * up.stride + at;
  alignas(8) T out[kGated];
  const auto places = reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b);
  if (at + kGated <= gates.cols && places % sizeof(float4) == 0) {
    const float4 x = *reinterpret_cast<const float4*>(a);
    const float4 y = *reinterpret_cast<const float4*>(b);
    out[0] = gated_number<T>(x.x, y.x);
    out[1] = gated_number<T>(x.y, y.y);
    out[2] = gated_number<T>(x.z, y.z);
    out[3] = gated_number<T>(x.w, y.w);
  } else {
#pragma unroll
    for (int i = 0; i < kGated; ++i) out[i] = at + i < gates.cols ? gated_number<T>(a[i], b[i]) : T(0.0F);
  }
  *reinterpret_cast<uint2*>(static_cast<T*>(to.to) + blockIdx.x * to.ld + at) = *reinterpret_cast<const uint2*>(out);
}

constexpr int kGatedRounded = 8;  // numbers of a thread: 16 bytes

__global__ void gate_outputs(const __grid_constant__ Product p) {
  let_followers_start();
  wait_for_forerunners();
  const int at = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) * kGatedRounded;
  if (at >= p.ld_gated) return;
  const int count = p.outputs / 2;
  const __nv_bfloat16* a = static_cast<const __nv_bfloat16*>(p.rounded_out) + blockIdx.x * p.ld_out + at;
  const __nv_bfloat16* b = a + count;
  alignas(16) __nv_bfloat16 gates[kGatedRounded], ups[kGatedRounded], out[kGatedRounded];
  const auto places = reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b);
  if (at + kGatedRounded <= count && places % sizeof(uint4) == 0) {
    *reinterpret_cast<uint4*>(gates) = *reinterpret_cast<const uint4*>(a);
    *reinterpret_cast<uint4*>(ups) = *reinterpret_cast<const uint4*>(b);
  } else {
#pragma unroll
    for (int i = 0; i < kGatedRounded; ++i) {
      gates[i] = at + i < count ? a[i] : __nv_bfloat16(0.0F);
      ups[i] = at + i < count ? b[i] : __nv_bfloat16(0.0F);
    }
  }
#pragma unroll
  for (int i = 0; i < kGatedRounded; ++i) out[i] = gated(gates[i], ups[i]);
  *reinterpret_cast<uint4*>(static_cast<__nv_bfloat16*>(p.gated_out) + blockIdx.x * p.ld_gated + at) =
      *reinterpret_cast<const uint4*>(out);
}

__global__ void sum(Matrix x, Matrix y) {
  let_followers_start();
  wait_for_forerunners();
  const int c = blockIdx.y * blockDim.x + threadIdx.x;
  if (c >= x.cols) return;
  x.data[blockIdx.x * x.stride + c] = __fadd_rn(x.data[blockIdx.x * x.stride + c], y.data[blockIdx.x * y.stride + c]);
}

// A thread for each output of each head.
__global__ void project_heads(const ProjectedRows rows) {
  const int i = blockIdx.y * blockDim.x + threadIdx.x;
  if (i >= rows.heads * rows.by.outputs) return;
  const RowOfBatch place = row_of_batch(rows.sequences, blockIdx.x);
  const int row = rows.sequences[place.sequence].first_row + place.row;
  const int head = i / rows.by.outputs;
  const int output = i % rows.by.outputs;
  const float* from = rows.x.data + row * rows.x.stride + head * rows.by.inputs;
  const float* column = rows.by.at + head / (rows.heads / rows.by.heads) * rows.by.head_stride + output;
  float total = 0;
  for (int j = 0; j < rows.by.inputs; ++j) total = __fmaf_rn(from[j], column[j * rows.by.stride], total);
  rows.out.data[row * rows.out.stride + i] = total;
}

// A grid of rows and, in the other direction, columns.
dim3 over(int rows, int columns) {
  return {static_cast<unsigned>(rows), static_cast<unsigned>((columns + kThreads - 1) / kThreads)};
}

}  // namespace

void rms_norm(const NormRows& rows, cudaStream_t stream) {
  launch_early("rms_norm", normalize<false>, {dim3(static_cast<unsigned>(rows.x.rows)), dim3(kNormThreads)}, stream,
               rows);
}

void layer_norm(const NormRows& rows, cudaStream_t stream) {
  launch_early("layer_norm", normalize<true>, {dim3(static_cast<unsigned>(rows.x.rows)), dim3(kNormThreads)}, stream,
               rows);
}

bool fits_add_rms_norm(int cols) { return cols <= kMostHeld * kNormThreads; }

void add_rms_norm(Matrix y, const NormRows& rows, RowsRoom also, cudaStream_t stream) {
  const bool half = rows.x.cols <= kMostHeld / 2 * kNormThreads;
  const auto f16 = half ? add_and_normalize<__half, kMostHeld / 2> : add_and_normalize<__half, kMostHeld>;
  const auto bf16 =
      half ? add_and_normalize<__nv_bfloat16, kMostHeld / 2> : add_and_normalize<__nv_bfloat16, kMostHeld>;
  launch_early("add_rms_norm", also.number == Number::kF16 ? f16 : bf16,
               {dim3(static_cast<unsigned>(rows.x.rows)), dim3(kNormThreads)}, stream, y, rows, also);
}

void rope(Matrix x, int heads, const RopeTable& table, cudaStream_t stream) {
  launch_early("rope", rotate, {over(x.rows, heads * table.pairs), dim3(kThreads)}, stream, x, x.cols / heads, table);
}

void swiglu(Matrix gates, Matrix up, Matrix out, cudaStream_t stream) {
  launch_early("swiglu", gate, {over(out.rows, out.cols), dim3(kThreads)}, stream, gates, up, out);
}

void swiglu(Matrix gates, Matrix up, RowsRoom to, cudaStream_t stream) {
  const auto kernel = to.number == Number::kF16 ? gate_to<__half> : gate_to<__nv_bfloat16>;
  const auto columns = static_cast<int>((to.ld + kGated - 1) / kGated);
  launch_early("swiglu", kernel, {over(gates.rows, columns), dim3(kThreads)}, stream, gates, up, to);
}

void gate_rounded(const Product& product, cudaStream_t stream) {
  const auto columns = static_cast<int>((product.ld_gated + kGatedRounded - 1) / kGatedRounded);
  launch_early("gates", gate_outputs, {over(product.rows, columns), dim3(kThreads)}, stream, product);
}

void add(Matrix x, Matrix y, cudaStream_t stream) {
  launch_early("add", sum, {over(x.rows, x.cols), dim3(kThreads)}, stream, x, y);
}

void project(const ProjectedRows& rows, cudaStream_t stream) {
  project_heads<<<over(rows.rows, rows.heads * rows.by.outputs), kThreads, 0, stream>>>(rows);
  check_launch("project");
}

}  // namespace kvasir::cuda
