// Whole rows: a CTA's warps share the chunk groups of its rows, a group at a time.
#pragma once

#include "backend/cuda/attention/decode/work_queue.cuh"

namespace kvasir::cuda {

// The place of a chunk group in the order in which a CTA merges. A row has a slot of shared memory to itself; slots
// are reused in the order of rows.
struct alignas(8) RowOrder {
  int index = 0;  // groups that merge in this slot before it
  std::int16_t slot = 0;
  bool first = true;  // of its row
  bool last = true;
};

// A chunk of such a group.
struct RowItem : WarpItem {
  RowOrder row_order;
};

// A warp's chunks. Rows, KV heads fastest, are dealt to CTAs to and fro. The last round has fewer rows than CTAs;
// these are popped from a counter if there is time for it, so that the fastest SMs get them.
class RowScheduler {
 public:
  using Item = RowItem;
  static constexpr bool kReadsItems = false;  // it reads args.whole_rows, which are few and in L1

  // Called by all threads of the CTA. Reads nothing that predecessor kernels write.
  __device__ explicit RowScheduler(const AttentionArgs& args)
      : args_(args),
        whole_rounds_(args.tile_count * args.view.layout.shape.heads / ctas()),
        next_group_(static_cast<int>(threadIdx.x) / 32) {
    if (threadIdx.x == 0) popped() = kNobody;
    __syncthreads();
    look_from(0);
    find();
  }

  __device__ RowItem assigned() { return next(); }
  __device__ void begin() {}
  __device__ RowItem pop() { return next(); }

 private:
  static constexpr int kNobody = -2;
  static constexpr int kSomebody = -1;  // a warp of the CTA is popping it

  __device__ RowItem next() {
    if (chunk_ == end_) {
      next_group_ += warps();
      find();
    }
    if (end_ < 0) return {};
    const int heads = args_.view.layout.shape.heads;
    RowItem out;
    out.index = (next_group_ * kGroupChunks + chunk_ % kGroupChunks) * heads + index_of(row_) % heads;
    out.item = args_.whole_rows[index_of(row_) / heads];
    out.row_order = {__shfl_sync(0xffffffff, in_slot_, slot()) + next_group_ - before_,
                     static_cast<std::int16_t>(slot()), chunk_ < kGroupChunks, end_ == out.item.first_key};
    out.item.first_key = chunk_;
    out.first_of_group = chunk_ % kGroupChunks == 0;
    out.last_of_group = ++chunk_ == end_;
    return out;
  }
  // Finds the warp's next chunk group.
  __device__ void find() {
    int chunks = 0;
    for (;; ++row_) {
      if (row_ == seen_ + 32) look_from(row_);
      if (row_ == whole_rounds_ && last_position_ < 0) take_last_row();
      chunks = __shfl_sync(0xffffffff, chunks_, row_ - seen_);
      const int chunk_groups = groups_of(chunks);
      if (chunks < 0 || next_group_ < before_ + chunk_groups) break;
      before_ += chunk_groups;
      if (lane() == slot()) in_slot_ += chunk_groups;
    }
    chunk_ = (next_group_ - before_) * kGroupChunks;
    end_ = chunks < 0 ? -1 : min(chunk_ + kGroupChunks, chunks);
  }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int warps() { return static_cast<int>(blockDim.x) / 32; }
  __device__ int slot() const { return row_ % rows_at_once(warps()); }
  __device__ static int ctas() { return static_cast<int>(gridDim.x); }
  __device__ int index_of(int row) const {
    const auto cta = static_cast<int>(blockIdx.x);
    const int position = row == whole_rounds_ ? last_position_ : row % 2 == 0 ? cta : ctas() - 1 - cta;
    return row * ctas() + position;
  }
  // -1: there is no such row.
  __device__ int chunks_of(int row) const {
    const int of = index_of(row) / args_.view.layout.shape.heads;
    return row <= whole_rounds_ && of < args_.tile_count ? args_.whole_rows[of].first_key : -1;
  }
  // Loads the chunks of this CTA's rows first + i into lane i, except for the last round's.
  __device__ void look_from(int first) {
    seen_ = first;
    chunks_ = chunks_of(first + lane());
  }
  __device__ void take_last_row() {
    last_position_ = args_.pops_last_rows ? pop_ticket() : static_cast<int>(blockIdx.x);
    if (seen_ + lane() == whole_rounds_) chunks_ = chunks_of(whole_rounds_);
  }
  // Pops one number a CTA. atomicInc wraps to 0 after the last CTA, for the next launch.
  __device__ int pop_ticket() const {
    if (lane() == 0 && atomicCAS(&popped(), kNobody, kSomebody) == kNobody) {
      const unsigned last = gridDim.x - 1;
      atomicExch(&popped(), static_cast<int>(atomicInc(reinterpret_cast<unsigned*>(args_.ticket_counter), last)));
    }
    int out = kSomebody;
    if (lane() == 0) {
      while (out < 0) out = atomicAdd(&popped(), 0);
    }
    return __shfl_sync(0xffffffff, out, 0);
  }
  __device__ static int& popped() {
    __shared__ int number;
    return number;
  }

  const AttentionArgs& args_;
  int whole_rounds_;
  int last_position_ = -1;  // of this CTA in the last round; -1: not known yet
  int seen_ = 0;            // lane 0's row
  int chunks_ = 0;          // of the lane's row
  int next_group_;          // of this warp, among the CTA's groups
  int row_ = 0;             // among the CTA's rows
  int before_ = 0;          // the CTA's groups before that row
  int in_slot_ = 0;         // those of them in the lane's slot
  int chunk_ = 0;           // the next one of the row
  int end_ = 0;             // of its group; -1: there is none
};

}  // namespace kvasir::cuda
