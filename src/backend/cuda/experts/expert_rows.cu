#include "backend/cuda/arch/numbers.cuh"
#include "backend/cuda/experts/expert_args.h"
#include "backend/cuda/ops/activation.cuh"
#include "backend/cuda/runtime/pdl_launch.h"

namespace kvasir::cuda {
namespace {

constexpr int kThreads = 256;

__device__ int column() { return static_cast<int>(blockIdx.y * kThreads + threadIdx.x); }

// Writes a number of a place's row as its expert's matrix wants it.
__device__ void put(const ExpertRows& rows, int place, int expert, int c, float value) {
  std::byte* to = rows.to + place * rows.row_bytes;
  switch (rows.matrices[expert].number) {
    case Number::kBF16:
      reinterpret_cast<__nv_bfloat16*>(to)[c] = to_number(value, __nv_bfloat16());
      return;
    case Number::kF16:
      reinterpret_cast<__half*>(to)[c] = to_number(value, __half());
      return;
    case Number::kF32:
      reinterpret_cast<float*>(to)[c] = value;
      return;
  }
}

__global__ void gather(const __grid_constant__ ExpertRows rows, Matrix x, RouterRule::Weighs weighs) {
  pdl_trigger();
  pdl_wait();
  const int c = column();
  if (c >= rows.ld) return;
  const auto place = static_cast<int>(blockIdx.x);
  const int pair = rows.pairs.pair_at[place];
  float value = c < x.cols ? x.data[pair / rows.pairs.used * x.stride + c] : 0.0F;
  if (weighs == RouterRule::Weighs::kInputs && c < x.cols) value = __fmul_rn(value, rows.pairs.weight_of[pair]);
  put(rows, place, rows.pairs.expert_of[pair], c, value);
}

__global__ void activate(const __grid_constant__ ExpertRows rows, const __grid_constant__ GateUps from) {
  pdl_trigger();
  pdl_wait();
  const int c = column();
  if (c >= rows.ld) return;
  const auto place = static_cast<int>(blockIdx.x);
  const float* gate_up = from.at + static_cast<std::int64_t>(place) * from.stride;
  float value = 0.0F;
  if (c < from.width && from.stride == from.width) {
    value = activated(from.activation, gate_up[c]);
  } else if (c < from.width) {
    value = gated(from.activation, gate_up[c], gate_up[from.width + c], from.limit);
  }
  put(rows, place, rows.pairs.expert_of[rows.pairs.pair_at[place]], c, value);
}

__global__ void sum(const __grid_constant__ RoutedPairs pairs, const float* y, RouterRule::Weighs weighs,
                    Matrix out) {
  pdl_trigger();
  pdl_wait();
  const int c = column();
  if (c >= out.cols) return;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * pairs.used;
  float total = 0;
  for (int k = 0; k < pairs.used; ++k) {
    const float weight = weighs == RouterRule::Weighs::kInputs ? 1.0F : pairs.weight_of[first + k];
    total = __fmaf_rn(weight, y[static_cast<std::int64_t>(pairs.place_of[first + k]) * out.cols + c], total);
  }
  out.data[blockIdx.x * out.stride + c] = total;
}

LaunchShape over(int rows, int columns) {
  return {dim3(static_cast<unsigned>(rows), static_cast<unsigned>((columns + kThreads - 1) / kThreads)),
          dim3(kThreads)};
}

}  // namespace

void gather_expert_rows(const ExpertRows& rows, Matrix x, RouterRule::Weighs weighs, cudaStream_t stream) {
  launch_pdl("rows of experts", gather, over(rows.pairs.pairs, rows.ld), stream, rows, x, weighs);
}

void activate_expert_rows(const ExpertRows& rows, const GateUps& from, cudaStream_t stream) {
  launch_pdl("activations of experts", activate, over(rows.pairs.pairs, rows.ld), stream, rows, from);
}

void sum_expert_rows(const RoutedPairs& pairs, const float* y, RouterRule::Weighs weighs, Matrix out,
                     cudaStream_t stream) {
  launch_pdl("sum of experts", sum, over(out.rows, out.cols), stream, pairs, y, weighs, out);
}

}  // namespace kvasir::cuda
