// Whole rows by one CTA, whose warps share their chunk groups (RowScheduler): no partials are written. A warp merges
// the chunks of a group alone. Groups merge into the row in order, as merge_states.cu would; the warp with the last
// group has the result. Neighbouring rows do not wait for each other.
#pragma once

#include "backend/cuda/arch/warpgroup.cuh"
#include "backend/cuda/attention/decode/partial_sums.cuh"
#include "backend/cuda/attention/decode/row_schedule.cuh"

namespace kvasir::cuda {

// Shared memory of a CTA.
template <int kDim, int kWarps>
struct RowMergeSmem {
  PartialSums<kDim> chunk_groups[kWarps];
  PartialSums<kDim> rows[rows_at_once(kWarps)];
  int merged[rows_at_once(kWarps)];          // groups merged in each slot, by which a warp knows its turn ...
  std::uint64_t done[rows_at_once(kWarps)];  // ... and barriers that make the sums before it visible
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// REQUIRES: all warps of the CTA take their chunks from RowScheduler and merge each of them.
template <int kDim, int kWarps>
class RowMerge {
 public:
  // Called by all threads of the CTA.
  __device__ explicit RowMerge(RowMergeSmem<kDim, kWarps>& smem) : smem_(smem) {
    if (threadIdx.x < rows_at_once(kWarps)) {
      smem.merged[threadIdx.x] = 0;
      hopper::barrier_init(hopper::shared_address(&smem.done[threadIdx.x]), 32);
      hopper::fence_barrier_init();
    }
    __syncthreads();
  }
  __device__ void begin() const {}

  // `Item`: RowItem or ScaledItem<RowItem>. True: `sums` are now those of the row.
  template <class Item>
  __device__ bool merge(const Item& item, Sums<kDim>& sums) {
    merge_onto(own(), item.first_of_group, sums);
    if (!item.last_of_group) {
      keep(sums, own());
      return false;
    }
    const RowOrder& at = item.row_order;
    wait_for(at);
    merge_onto(smem_.rows[at.slot], at.first, sums);
    if (!at.last) keep(sums, smem_.rows[at.slot]);
    hopper::arrive(hopper::shared_address(&smem_.done[at.slot]));
    __syncwarp();
    if (threadIdx.x % 32 == 0) atomicAdd(&smem_.merged[at.slot], 1);
    return at.last;
  }

  // The warp's own partials, free between two merges.
  __device__ PartialSums<kDim>& own() { return smem_.chunk_groups[threadIdx.x / 32]; }

 private:
  // Waits rarely for long, since groups start in order. The barrier alone is not enough: it tells neighbouring phases
  // apart, and warps may be further apart.
  __device__ void wait_for(const RowOrder& at) {
    if (at.index == 0) return;
    if (threadIdx.x % 32 == 0) {
      while (atomicAdd(&smem_.merged[at.slot], 0) != at.index) continue;
    }
    __syncwarp();
    hopper::wait(hopper::shared_address(&smem_.done[at.slot]), static_cast<unsigned>(at.index - 1) % 2);
  }

  RowMergeSmem<kDim, kWarps>& smem_;
};

template <int kDim, int kWarps>
struct MergeIn<RowMergeSmem<kDim, kWarps>> {
  using Merge = RowMerge<kDim, kWarps>;
  using Scheduler = RowScheduler;
};

#endif

}  // namespace kvasir::cuda
