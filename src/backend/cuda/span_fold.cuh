// Sums of a span's splits become one in shared memory, where the warps of a thread block take turns at its splits: so
// one is written where there would be kSpanSplits, which costs more time than its bytes (bench/RESULTS.md).
//
// Warp after warp, each folds the sums of its split into those of the splits before it: in their order, as
// merge_splits.cu would. A warp that is done too early waits for the one before it; its next keys are on their way.
#pragma once

#include "backend/cuda/attention_math.cuh"
#include "backend/cuda/warpgroup.cuh"

namespace kvasir::cuda {

// Of a thread block, in shared memory.
template <int kDim>
struct SpanRoom {
  static constexpr int kMostWarps = 16;
  float o[kDim / 16][4][32];  // each lane's, as in Sums
  float m[2][32];
  float d[2][32];
  std::uint64_t folded[kMostWarps];  // how often each warp has
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// REQUIRES: all warps of the block have their splits from SpanWalk, and fold each of them.
template <int kDim>
class SpanFold {
 public:
  // By all threads of the block.
  __device__ explicit SpanFold(SpanRoom<kDim>& room) : room_(room) {
    if (threadIdx.x == 0) {
      for (auto& barrier : room.folded) hopper::barrier_init(hopper::shared_address(&barrier), 1);
      hopper::fence_barrier_init();
    }
    __syncthreads();
  }

  // True: the sums are now those of the span.
  __device__ bool fold(bool opens, bool closes, Sums<kDim>& sums) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int before = (warp == 0 ? static_cast<int>(blockDim.x) / 32 : warp) - 1;
    const unsigned parity = turns_++ % 2;
    hopper::wait(hopper::shared_address(&room_.folded[before]), warp == 0 ? parity ^ 1U : parity);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      SoftmaxState sum;
      if (!opens) sum = {room_.m[i][lane], room_.d[i][lane]};
      const Fold by = cuda::fold(sum, {sums.m[i], sums.d[i]});
      sums.m[i] = by.state.m;
      sums.d[i] = by.state.d;
#pragma unroll
      for (int j = 0; j < kDim / 8; ++j) {
        float& one = sums.o[j / 2][j % 2 * 2 + i];
        one = cuda::fold(by, opens ? 0.0F : room_.o[j / 2][j % 2 * 2 + i][lane], one);
      }
    }
    if (!closes) keep(sums);
    __syncwarp();
    if (lane == 0) hopper::arrive(hopper::shared_address(&room_.folded[warp]));
    return closes;
  }

 private:
  __device__ void keep(const Sums<kDim>& sums) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      room_.m[i][lane] = sums.m[i];
      room_.d[i][lane] = sums.d[i];
    }
#pragma unroll
    for (int tile = 0; tile < kDim / 16; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) room_.o[tile][i][lane] = sums.o[tile][i];
    }
  }

  SpanRoom<kDim>& room_;
  unsigned turns_ = 0;  // this warp's
};

#endif

}  // namespace kvasir::cuda
