#include "backend/cuda/arch/tensor_core.cuh"
#include "backend/cuda/attention/attention_kernels.h"
#include "backend/cuda/ops/warp_rows.cuh"
#include "backend/cuda/runtime/pdl_launch.h"
#include "layout/codec.h"
#include "layout/row_numbers.h"

namespace kvasir::cuda {
namespace {

constexpr int kManyRows = 256;  // from here on a CTA takes several heads

// round_query() of a row in shared memory, by one warp.
__device__ float round_row(float* q, int dim) {
  const int lane = threadIdx.x % 32;
  float largest = 0;
  for (int i = lane; i < dim; i += 32) {
    q[i] = held(q[i]);
    largest = fmaxf(largest, fabsf(q[i]));
  }
  largest = warp_max(largest);
  constexpr auto kMost = static_cast<float>(kQueryLevels);
  const float inverse = __fdiv_rn(kMost, largest);
  for (int i = lane; i < dim; i += 32) {
    q[i] = largest < kTiniestHeld ? 0.0F : __fsub_rn(__fadd_rn(__fmul_rn(q[i], inverse), kRounder), kRounder);
  }
  __syncwarp();
  return largest < kTiniestHeld ? 0.0F : __fdiv_rn(largest, kMost);
}

// The same for a row of kHadamardDim, four neighbours a lane.
__device__ float round_lanes(float (&own)[4]) {
  float largest = 0;
#pragma unroll
  for (float& one : own) {
    one = held(one);
    largest = fmaxf(largest, fabsf(one));
  }
  largest = warp_max(largest);
  constexpr auto kMost = static_cast<float>(kQueryLevels);
  const float inverse = __fdiv_rn(kMost, largest);
#pragma unroll
  for (float& one : own) {
    one = largest < kTiniestHeld ? 0.0F : __fsub_rn(__fadd_rn(__fmul_rn(one, inverse), kRounder), kRounder);
  }
  return largest < kTiniestHeld ? 0.0F : __fdiv_rn(largest, kMost);
}

// Prepares rows of kHadamardDim for integer keys, in registers.
__global__ void prepare_int_queries(const QueryRows rows) {
  pdl_trigger();
  const int lane = static_cast<int>(threadIdx.x);
  const int head = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  if (head >= rows.heads) return;
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * rows.heads + head;
  const auto* from =
      reinterpret_cast<const float2*>(rows.q.data + blockIdx.x * rows.q.stride + head * rows.k_dim + lane * 4);
  pdl_wait();
  const float2 low = from[0];
  const float2 high = from[1];
  float own[4] = {low.x, low.y, high.x, high.y};
  hadamard_lanes(own);
  const float scale = round_lanes(own);
  if (lane == 0) rows.scales[at] = scale;
  const uint2 codes{HalfF16::pack(own[0], own[1]), HalfF16::pack(own[2], own[3])};
  *reinterpret_cast<uint2*>(rows.halves + at * rows.stride + lane * 4) = codes;
}

// A warp for each row and head.
template <bool kPacked, class Half>
__global__ void prepare(const QueryRows rows) {
  extern __shared__ float row[];
  const int lane = threadIdx.x;
  const int head = blockIdx.y;
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * rows.heads + head;
  const float* from = rows.q.data + blockIdx.x * rows.q.stride + head * rows.k_dim;
  for (int i = lane; i < rows.k_dim; i += 32) row[i] = from[i];
  __syncwarp();
  float scale = 1.0F;
  if constexpr (kPacked) {
    hadamard_row(row, rows.k_dim);
    scale = round_row(row, rows.k_dim);
    if (lane == 0 && rows.scales != nullptr) rows.scales[at] = scale;
  }
  if (rows.floats != nullptr) {
    for (int i = lane; i < rows.k_dim; i += 32) rows.floats[at * rows.k_dim + i] = __fmul_rn(row[i], scale);
  }
  if (rows.halves != nullptr) {
    for (int i = lane; i < rows.stride; i += 32) {
      rows.halves[at * rows.stride + i] = i < rows.k_dim ? Half::encode(held(row[i])) : 0;
    }
  }
}

}  // namespace

void prepare_queries(const QueryRows& rows, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(rows.q.rows), static_cast<unsigned>(rows.heads));
  const size_t shared = sizeof(float) * static_cast<size_t>(rows.k_dim);
  if (is_packed(rows.k_format) && rows.k_dim == kHadamardDim && rows.floats == nullptr) {
    const unsigned at_once = rows.q.rows >= kManyRows ? 8 : 1;
    const dim3 ctas(grid.x, (grid.y + at_once - 1) / at_once);
    return launch_pdl("prepare_queries", prepare_int_queries, {ctas, dim3(32, at_once)}, stream, rows);
  }
  if (is_packed(rows.k_format)) {
    prepare<true, HalfF16><<<grid, 32, shared, stream>>>(rows);
  } else if (multiplies_bf16_keys(rows.k_format)) {
    prepare<false, HalfBF16><<<grid, 32, shared, stream>>>(rows);
  } else {
    prepare<false, HalfF16><<<grid, 32, shared, stream>>>(rows);
  }
  check_launch("prepare_queries");
}

}  // namespace kvasir::cuda
