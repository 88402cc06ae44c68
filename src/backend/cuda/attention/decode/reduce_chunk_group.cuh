// Merges the partials of a chunk group in shared memory, where a CTA's warps share its chunks. One partial is written
// instead of kGroupChunks: writing partials costs more than their bytes (bench/notes/decode-attention.md).
//
// Warps merge in the order of their chunks, as merge_states.cu would. A warp that is early waits for the one before
// it, while its next keys are in flight.
#pragma once

#include "backend/cuda/arch/warpgroup.cuh"
#include "backend/cuda/attention/decode/partial_sums.cuh"

namespace kvasir::cuda {

// Shared memory of a CTA's WarpOrder.
struct WarpOrderSmem {
  static constexpr int kMostWarps = 16;
  std::uint64_t done[kMostWarps];  // arrivals of each warp
};
template <int kDim>
struct GroupMergeSmem {
  PartialSums<kDim> sums;
  WarpOrderSmem order;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Lets the warps of a CTA through one after the other, round-robin.
class WarpOrder {
 public:
  // Called by all threads of the CTA.
  __device__ explicit WarpOrder(WarpOrderSmem& smem) : smem_(smem) {
    if (threadIdx.x == 0) {
      for (auto& barrier : smem.done) hopper::barrier_init(hopper::shared_address(&barrier), 32);
      hopper::fence_barrier_init();
    }
    __syncthreads();
  }

  __device__ void begin() {
    const int before = (warp() == 0 ? static_cast<int>(blockDim.x) / 32 : warp()) - 1;
    const unsigned parity = passes_++ % 2;
    hopper::wait(hopper::shared_address(&smem_.done[before]), warp() == 0 ? parity ^ 1U : parity);
  }
  // Every lane arrives itself, for racecheck.
  __device__ void end() const { hopper::arrive(hopper::shared_address(&smem_.done[warp()])); }

 private:
  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32; }

  WarpOrderSmem& smem_;
  unsigned passes_ = 0;  // of this warp
};

// REQUIRES: all warps of the CTA take their chunks from GroupScheduler and merge each of them.
template <int kDim>
class GroupMerge {
 public:
  // Called by all threads of the CTA.
  __device__ explicit GroupMerge(GroupMergeSmem<kDim>& smem) : smem_(smem), order_(smem.order) {}

  // True: `sums` are now those of the chunk group.
  __device__ bool merge(bool first_of_group, bool last_of_group, Sums<kDim>& sums) {
    order_.begin();
    merge_onto(smem_.sums, first_of_group, sums);
    if (!last_of_group) keep(sums, smem_.sums);
    order_.end();
    return last_of_group;
  }

 private:
  GroupMergeSmem<kDim>& smem_;
  WarpOrder order_;
};

#endif

}  // namespace kvasir::cuda
