#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/gemm/compare_outputs.h"
#include "backend/cuda/runtime/cuda_check.h"

namespace kvasir::cuda {
namespace {

constexpr int kBlocks = 1024;
constexpr int kThreads = 256;

__device__ float random_number(std::uint64_t i) {
  i = (i ^ i >> 33) * 0xff51afd7ed558ccdULL;
  i = (i ^ i >> 33) * 0xc4ceb9fe1a85ec53ULL;
  return static_cast<float>(static_cast<std::int32_t>(i ^ i >> 33)) * 0x1p-31F;
}

template <class T>
__global__ void random_kernel(const __grid_constant__ Numbers to, float scale, std::uint64_t seed) {
  const std::int64_t count = static_cast<std::int64_t>(to.rows) * to.cols;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const float value = scale * random_number(static_cast<std::uint64_t>(i) + 1 + (seed << 40));
    static_cast<T*>(to.data)[i / to.cols * to.ld + i % to.cols] = static_cast<T>(value);
  }
}

__global__ void compare_kernel(Matrix a, Matrix b, Tally* tally) {
  Tally mine;
  const std::int64_t count = static_cast<std::int64_t>(a.rows) * a.cols;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const std::int64_t r = i / a.cols;
    const std::int64_t c = i % a.cols;
    const float x = a.data[r * a.stride + c];
    const float y = b.data[r * b.stride + c];
    mine.different += __float_as_uint(x) != __float_as_uint(y);
    mine.nonzero += x != 0;
  }
  if (mine.different != 0) atomicAdd(&tally->different, mine.different);
  if (mine.nonzero != 0) atomicAdd(&tally->nonzero, mine.nonzero);
}

}  // namespace

void fill_random(const Numbers& to, float scale, std::uint64_t seed, cudaStream_t stream) {
  if (to.number == Number::kF16) {
    random_kernel<__half><<<kBlocks, kThreads, 0, stream>>>(to, scale, seed);
  } else if (to.number == Number::kBF16) {
    random_kernel<__nv_bfloat16><<<kBlocks, kThreads, 0, stream>>>(to, scale, seed);
  } else {
    random_kernel<float><<<kBlocks, kThreads, 0, stream>>>(to, scale, seed);
  }
  check_launch("random_kernel");
}

void compare_outputs(Matrix a, Matrix b, Tally* tally, cudaStream_t stream) {
  compare_kernel<<<kBlocks, kThreads, 0, stream>>>(a, b, tally);
  check_launch("compare_kernel");
}

}  // namespace kvasir::cuda
