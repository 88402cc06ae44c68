// Whole rows by one thread block, whose warps take turns at their spans (RowWalk): nothing is left to merge. Each warp
// folds the splits of its spans alone. Span after span, warps fold these into the sums of the row, in their order, as
// merge_splits.cu would; whoever has the last one has all. Neighbouring rows do not wait for each other.
#pragma once

#include "backend/cuda/folded_sums.cuh"
#include "backend/cuda/warpgroup.cuh"
#include "backend/cuda/whole_rows.cuh"

namespace kvasir::cuda {

// Of a thread block, in shared memory.
template <int kDim, int kWarps>
struct RowRoom {
  FoldedSums<kDim> spans[kWarps];
  FoldedSums<kDim> rows[rows_at_once(kWarps)];
  int folded[rows_at_once(kWarps)];          // spans into each of the latter, by which a warp knows its turn …
  std::uint64_t done[rows_at_once(kWarps)];  // … and by which it sees what the one before it wrote
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// REQUIRES: all warps of the block have their splits from RowWalk, and fold each of them.
template <int kDim, int kWarps>
class RowFold {
 public:
  // By all threads of the block.
  __device__ explicit RowFold(RowRoom<kDim, kWarps>& room) : room_(room) {
    if (threadIdx.x < rows_at_once(kWarps)) {
      room.folded[threadIdx.x] = 0;
      hopper::barrier_init(hopper::shared_address(&room.done[threadIdx.x]), 32);
      hopper::fence_barrier_init();
    }
    __syncthreads();
  }
  __device__ void begin() const {}

  // `Item`: RowItem, or what is kept of one. True: the sums are now those of the row.
  template <class Item>
  __device__ bool fold(const Item& item, Sums<kDim>& sums) {
    fold_onto(own(), item.opens, sums);
    if (!item.closes) {
      keep(sums, own());
      return false;
    }
    const RowTurn& at = item.row_turn;
    wait_for(at);
    fold_onto(room_.rows[at.room], at.first, sums);
    if (!at.last) keep(sums, room_.rows[at.room]);
    hopper::arrive(hopper::shared_address(&room_.done[at.room]));
    __syncwarp();
    if (threadIdx.x % 32 == 0) atomicAdd(&room_.folded[at.room], 1);
    return at.last;
  }

  // The warp's own, between two folds.
  __device__ FoldedSums<kDim>& own() { return room_.spans[threadIdx.x / 32]; }

 private:
  // Rarely for long: spans begin in their order. A barrier alone would not do, since it tells one phase from the next,
  // and warps may be further apart than that.
  __device__ void wait_for(const RowTurn& at) {
    if (at.turn == 0) return;
    if (threadIdx.x % 32 == 0) {
      while (atomicAdd(&room_.folded[at.room], 0) != at.turn) continue;
    }
    __syncwarp();
    hopper::wait(hopper::shared_address(&room_.done[at.room]), static_cast<unsigned>(at.turn - 1) % 2);
  }

  RowRoom<kDim, kWarps>& room_;
};

template <int kDim, int kWarps>
struct FoldIn<RowRoom<kDim, kWarps>> {
  using Fold = RowFold<kDim, kWarps>;
  using Walk = RowWalk;
};

#endif

}  // namespace kvasir::cuda
