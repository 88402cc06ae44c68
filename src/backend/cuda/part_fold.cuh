// A row by a cluster of thread blocks, each of which takes a part of its spans: nothing is left to merge, and nothing is
// written that another kernel reads.
//
// A block's warps take turns at the splits of its part and fold them as span_fold.cuh does. Blocks fold their spans
// into the sums of the row, one block behind the other: each waits for what the one before it sends into its shared
// memory, and the last one has all.
#pragma once

#include "backend/cuda/folded_sums.cuh"
#include "backend/cuda/hopper.cuh"
#include "backend/cuda/item_walk.cuh"
#include "backend/cuda/span_fold.cuh"

namespace kvasir::cuda {

// Of a thread block, in shared memory.
template <int kDim>
struct PartRoom {
  FoldedSums<kDim> span;                        // that is being folded
  FoldedSums<kDim> complete[kMostSpansOfPart];  // those of this part, until what is before them is known
  FoldedSums<kDim> row;                         // up to this part, and then of some of its spans too
  std::uint64_t sent;                           // by the block before this one
  TurnRoom turns;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// A split of a row's part.
struct PartItem : WalkItem {
  int span = 0;            // of those of the part
  bool ends_part = false;  // the last split of it
  bool ends_row = false;
};

// A warp's splits of its block's part. Clusters have a row each, KV heads fastest. No more than the host sent is read.
class PartWalk {
 public:
  using Item = PartItem;
  static constexpr bool kReadsItems = false;

  __device__ explicit PartWalk(const AttentionArgs& args)
      : args_(args), turn_(static_cast<int>(threadIdx.x) / 32) {
    const int blocks = static_cast<int>(hopper::blocks_of_cluster());
    row_ = static_cast<int>(blockIdx.x) / blocks;
    const int splits = args.rows[row_ / heads()].first_key;
    const int of_part = spans_of_part(splits, blocks) * kSpanSplits;
    first_ = min(static_cast<int>(hopper::block_in_cluster()) * of_part, splits);
    end_ = min(first_ + of_part, splits);
  }
  __device__ PartItem given() { return next(); }
  __device__ void begin() {}
  __device__ PartItem take() { return next(); }

 private:
  __device__ int heads() const { return args_.view.layout.shape.heads; }
  __device__ PartItem next() {
    const int split = first_ + turn_;
    PartItem out;
    if (split >= end_) return out;
    out.item = args_.rows[row_ / heads()];
    out.index = split * heads() + row_ % heads();
    out.span = turn_ / kSpanSplits;
    out.ends_part = split + 1 == end_;
    out.ends_row = split + 1 == out.item.first_key;
    out.item.first_key = split;
    out.opens = turn_ % kSpanSplits == 0;
    out.closes = turn_ % kSpanSplits == kSpanSplits - 1 || out.ends_part;
    turn_ += static_cast<int>(blockDim.x) / 32;
    return out;
  }

  const AttentionArgs& args_;
  int row_;
  int first_, end_;  // splits of the part
  int turn_;         // of this warp: splits of the part before its next one
};

// REQUIRES: all warps of the block have their splits from PartWalk, and fold each of them.
template <int kDim>
class PartFold {
 public:
  // By all threads of the cluster, and begin() before the first fold().
  __device__ explicit PartFold(PartRoom<kDim>& room)
      : room_(room), turns_(room.turns), rank_(static_cast<int>(hopper::block_in_cluster())) {
    if (threadIdx.x == 0) {
      hopper::barrier_init(sent(), 1);
      hopper::fence_barrier_init();
      hopper::arrive_and_expect(sent(), sizeof(room.row.o) + sizeof(room.row.states));
    }
    __syncwarp();
    hopper::arrive_in_cluster();
  }
  __device__ void begin() const { hopper::wait_for_cluster(); }

  // True: the sums are now those of the row.
  __device__ bool fold(const PartItem& item, Sums<kDim>& sums) {
    turns_.begin();
    fold_onto(room_.span, item.opens, sums);
    if (!item.closes) {
      keep(sums, room_.span);
    } else if (rank_ == 0) {  // nothing is before it
      fold_onto(room_.row, item.span == 0, sums);
      if (!item.ends_part) keep(sums, room_.row);
    } else {
      keep(sums, room_.complete[item.span]);
    }
    turns_.end();
    if (!item.ends_part) return false;
    if (rank_ > 0) fold_complete(item.span + 1, sums);
    if (!item.ends_row) send(sums);
    return item.ends_row;
  }

 private:
  __device__ std::uint32_t sent() const { return hopper::shared_address(&room_.sent); }

  // So many spans of this part into what the block before has sent.
  __device__ void fold_complete(int spans, Sums<kDim>& sums) {
    hopper::wait_for_block(sent(), 0);
    for (int i = 0; i < spans; ++i) {
      load(room_.complete[i], sums);
      fold_onto(room_.row, false, sums);
      if (i + 1 < spans) keep(sums, room_.row);
    }
  }
  __device__ void send(const Sums<kDim>& sums) const {
    const auto next = static_cast<std::uint32_t>(rank_ + 1);
    const auto there = [&](const void* at) { return hopper::address_in(hopper::shared_address(at), next); };
    const std::uint32_t barrier = there(&room_.sent);
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int tile = 0; tile < kDim / 16; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) hopper::send(there(&room_.row.o[tile][i][lane]), sums.o[tile][i], barrier);
    }
    if (lane_group() != 0) return;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      hopper::send(there(&room_.row.states[lane_pair() * 2 + i]), float2{sums.m[i], sums.d[i]}, barrier);
    }
  }

  PartRoom<kDim>& room_;
  WarpTurns turns_;
  int rank_;
};

template <int kDim>
struct FoldIn<PartRoom<kDim>> {
  using Fold = PartFold<kDim>;
  using Walk = PartWalk;
};

#endif

}  // namespace kvasir::cuda
