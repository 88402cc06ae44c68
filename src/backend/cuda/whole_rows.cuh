// Thread blocks that take whole rows: a block's warps take turns at the spans of its rows, each a span at a time.
#pragma once

#include "backend/cuda/item_walk.cuh"

namespace kvasir::cuda {

// Where a span stands among those of a thread block's rows: sums of a row are in a room that it has to itself, one row
// behind the other.
struct alignas(8) RowTurn {
  int turn = 0;  // of the room: spans that were there before it
  std::int16_t room = 0;
  bool first = true;  // of its row
  bool last = true;
};

// A split of such a span.
struct RowItem : WalkItem {
  RowTurn row_turn;
};

// The splits that a warp takes. Rows, KV heads fastest, are given to blocks to and fro. Those of the last round, which
// are fewer, are drawn, where there is time for it: so the fastest processors have them.
class RowWalk {
 public:
  using Item = RowItem;
  static constexpr bool kReadsItems = false;  // but rows, which are few, and found in the first-level cache

  // By all threads of the block. Needs nothing of the kernels before this one.
  __device__ explicit RowWalk(const AttentionArgs& args)
      : args_(args),
        whole_rounds_(args.tile_count * args.view.layout.shape.heads / blocks()),
        turn_(static_cast<int>(threadIdx.x) / 32) {
    if (threadIdx.x == 0) drawn() = kNobody;
    __syncthreads();
    look_from(0);
    find();
  }

  __device__ RowItem given() { return next(); }
  __device__ void begin() {}
  __device__ RowItem take() { return next(); }

 private:
  static constexpr int kNobody = -2;
  static constexpr int kSomebody = -1;  // who will say the number

  __device__ RowItem next() {
    if (split_ == end_) {
      turn_ += warps();
      find();
    }
    if (end_ < 0) return {};
    const int heads = args_.view.layout.shape.heads;
    RowItem out;
    out.index = (turn_ * kSpanSplits + split_ % kSpanSplits) * heads + unit(row_) % heads;
    out.item = args_.rows[unit(row_) / heads];
    out.row_turn = {__shfl_sync(0xffffffff, in_room_, room()) + turn_ - before_, static_cast<std::int16_t>(room()),
                    split_ < kSpanSplits, end_ == out.item.first_key};
    out.item.first_key = split_;
    out.opens = split_ % kSpanSplits == 0;
    out.closes = ++split_ == end_;
    return out;
  }
  // The span of this turn.
  __device__ void find() {
    int splits = 0;
    for (;; ++row_) {
      if (row_ == seen_ + 32) look_from(row_);
      if (row_ == whole_rounds_ && place_ < 0) take_last_row();
      splits = __shfl_sync(0xffffffff, splits_, row_ - seen_);
      const int spans = spans_of(splits);
      if (splits < 0 || turn_ < before_ + spans) break;
      before_ += spans;
      if (lane() == room()) in_room_ += spans;
    }
    split_ = (turn_ - before_) * kSpanSplits;
    end_ = splits < 0 ? -1 : min(split_ + kSpanSplits, splits);
  }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int warps() { return static_cast<int>(blockDim.x) / 32; }
  __device__ int room() const { return row_ % rows_at_once(warps()); }
  __device__ static int blocks() { return static_cast<int>(gridDim.x); }
  __device__ int unit(int row) const {
    const auto block = static_cast<int>(blockIdx.x);
    const int place = row == whole_rounds_ ? place_ : row % 2 == 0 ? block : blocks() - 1 - block;
    return row * blocks() + place;
  }
  // -1: there is no such row.
  __device__ int splits_of(int row) const {
    const int of = unit(row) / args_.view.layout.shape.heads;
    return row <= whole_rounds_ && of < args_.tile_count ? args_.rows[of].first_key : -1;
  }
  // Lane i has splits of row first + i of this block, but for that of the last round.
  __device__ void look_from(int first) {
    seen_ = first;
    splits_ = splits_of(first + lane());
  }
  __device__ void take_last_row() {
    place_ = args_.draws_rows ? draw() : static_cast<int>(blockIdx.x);
    if (seen_ + lane() == whole_rounds_) splits_ = splits_of(whole_rounds_);
  }
  // One number for each block; behind the last of them there is 0 again, for the next launch.
  __device__ int draw() const {
    if (lane() == 0 && atomicCAS(&drawn(), kNobody, kSomebody) == kNobody) {
      const unsigned last = gridDim.x - 1;
      atomicExch(&drawn(), static_cast<int>(atomicInc(reinterpret_cast<unsigned*>(args_.taken), last)));
    }
    int out = kSomebody;
    if (lane() == 0) {
      while (out < 0) out = atomicAdd(&drawn(), 0);
    }
    return __shfl_sync(0xffffffff, out, 0);
  }
  __device__ static int& drawn() {
    __shared__ int number;
    return number;
  }

  const AttentionArgs& args_;
  int whole_rounds_;
  int place_ = -1;   // of this block in the last round; -1: not known yet
  int seen_ = 0;     // the row of the first lane
  int splits_ = 0;   // of the lane's row
  int turn_;         // of this warp, among all spans of the block
  int row_ = 0;      // of the block
  int before_ = 0;   // spans of the block before that row
  int in_room_ = 0;  // of those, in the room of the lane
  int split_ = 0;    // the next one of the row
  int end_ = 0;      // of its span; -1: there is none
};

}  // namespace kvasir::cuda
