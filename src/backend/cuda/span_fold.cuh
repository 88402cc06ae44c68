// Sums of a span's splits become one in shared memory, where the warps of a thread block take turns at its splits: so
// one is written where there would be kSpanSplits, which costs more time than its bytes (bench/RESULTS.md).
//
// Warp after warp, each folds the sums of its split into those of the splits before it: in their order, as
// merge_splits.cu would. A warp that is done too early waits for the one before it; its next keys are on their way.
#pragma once

#include "backend/cuda/folded_sums.cuh"
#include "backend/cuda/warpgroup.cuh"

namespace kvasir::cuda {

// Of a thread block, in shared memory.
struct TurnRoom {
  static constexpr int kMostWarps = 16;
  std::uint64_t done[kMostWarps];  // how often each warp has
};
template <int kDim>
struct SpanRoom {
  FoldedSums<kDim> sums;
  TurnRoom turns;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Warps of a block, one after the other, around and around.
class WarpTurns {
 public:
  // By all threads of the block.
  __device__ explicit WarpTurns(TurnRoom& room) : room_(room) {
    if (threadIdx.x == 0) {
      for (auto& barrier : room.done) hopper::barrier_init(hopper::shared_address(&barrier), 32);
      hopper::fence_barrier_init();
    }
    __syncthreads();
  }

  __device__ void begin() {
    const int before = (warp() == 0 ? static_cast<int>(blockDim.x) / 32 : warp()) - 1;
    const unsigned parity = turns_++ % 2;
    hopper::wait(hopper::shared_address(&room_.done[before]), warp() == 0 ? parity ^ 1U : parity);
  }
  // Every lane for itself, as racecheck wants it.
  __device__ void end() const { hopper::arrive(hopper::shared_address(&room_.done[warp()])); }

 private:
  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32; }

  TurnRoom& room_;
  unsigned turns_ = 0;  // this warp's
};

// REQUIRES: all warps of the block have their splits from SpanWalk, and fold each of them.
template <int kDim>
class SpanFold {
 public:
  // By all threads of the block.
  __device__ explicit SpanFold(SpanRoom<kDim>& room) : room_(room), turns_(room.turns) {}

  // True: the sums are now those of the span.
  __device__ bool fold(bool opens, bool closes, Sums<kDim>& sums) {
    turns_.begin();
    fold_onto(room_.sums, opens, sums);
    if (!closes) keep(sums, room_.sums);
    turns_.end();
    return closes;
  }

 private:
  SpanRoom<kDim>& room_;
  WarpTurns turns_;
};

#endif

}  // namespace kvasir::cuda
