// A row by a cluster of CTAs, each of which takes some of its chunk groups: no partials are written.
//
// A CTA's warps share its chunks and merge them as reduce_chunk_group.cuh does. CTAs merge their groups into the row
// in order: each waits for the sums that the CTA before it stores into its shared memory (DSMEM), and the last one
// has the result.
#pragma once

#include "backend/cuda/arch/hopper.cuh"
#include "backend/cuda/attention/decode/partial_sums.cuh"
#include "backend/cuda/attention/decode/reduce_chunk_group.cuh"
#include "backend/cuda/attention/decode/work_queue.cuh"

namespace kvasir::cuda {

// Shared memory of a CTA.
template <int kDim>
struct ClusterMergeSmem {
  PartialSums<kDim> group;                       // the one that is being merged
  PartialSums<kDim> complete[kMostGroupsOfCta];  // this CTA's, until the sums before them arrive
  PartialSums<kDim> row;                         // up to this CTA's chunks, then with some of its groups
  std::uint64_t sent;                            // barrier: the CTA before this one has stored its sums
  WarpOrderSmem order;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// A chunk of a CTA's part of a row.
struct ClusterItem : WarpItem {
  int group = 0;          // among the CTA's groups
  bool ends_cta = false;  // the CTA's last chunk
  bool ends_row = false;
};

// A warp's chunks of its CTA's part. A cluster has one row, KV heads fastest. Nothing is read that predecessor
// kernels write.
class ClusterScheduler {
 public:
  using Item = ClusterItem;
  static constexpr bool kReadsItems = false;

  __device__ explicit ClusterScheduler(const AttentionArgs& args)
      : args_(args), next_chunk_(static_cast<int>(threadIdx.x) / 32) {
    const int ctas = static_cast<int>(hopper::cluster_size());
    row_ = static_cast<int>(blockIdx.x) / ctas;
    const int chunks = args.whole_rows[row_ / heads()].first_key;
    const int of_cta = groups_of_cta(chunks, ctas) * kGroupChunks;
    first_ = min(static_cast<int>(hopper::cta_rank()) * of_cta, chunks);
    end_ = min(first_ + of_cta, chunks);
  }
  __device__ ClusterItem assigned() { return next(); }
  __device__ void begin() {}
  __device__ ClusterItem pop() { return next(); }

 private:
  __device__ int heads() const { return args_.view.layout.shape.heads; }
  __device__ ClusterItem next() {
    const int chunk = first_ + next_chunk_;
    ClusterItem out;
    if (chunk >= end_) return out;
    out.item = args_.whole_rows[row_ / heads()];
    out.index = chunk * heads() + row_ % heads();
    out.group = next_chunk_ / kGroupChunks;
    out.ends_cta = chunk + 1 == end_;
    out.ends_row = chunk + 1 == out.item.first_key;
    out.item.first_key = chunk;
    out.first_of_group = next_chunk_ % kGroupChunks == 0;
    out.last_of_group = next_chunk_ % kGroupChunks == kGroupChunks - 1 || out.ends_cta;
    next_chunk_ += static_cast<int>(blockDim.x) / 32;
    return out;
  }

  const AttentionArgs& args_;
  int row_;
  int first_, end_;  // the CTA's chunks
  int next_chunk_;   // index of the warp's next chunk in the CTA
};

// REQUIRES: all warps of the CTA take their chunks from ClusterScheduler and merge each of them.
template <int kDim>
class ClusterMerge {
 public:
  // Called by all threads of the cluster, and begin() before the first merge().
  __device__ explicit ClusterMerge(ClusterMergeSmem<kDim>& smem)
      : smem_(smem), order_(smem.order), rank_(static_cast<int>(hopper::cta_rank())) {
    if (threadIdx.x == 0) {
      hopper::barrier_init(sent(), 1);
      hopper::fence_barrier_init();
      hopper::arrive_and_expect(sent(), sizeof(smem.row.o) + sizeof(smem.row.states));
    }
    __syncwarp();
    hopper::arrive_in_cluster();
  }
  __device__ void begin() const { hopper::wait_for_cluster(); }

  // True: `sums` are now those of the row.
  __device__ bool merge(const ClusterItem& item, Sums<kDim>& sums) {
    order_.begin();
    merge_onto(smem_.group, item.first_of_group, sums);
    if (!item.last_of_group) {
      keep(sums, smem_.group);
    } else if (rank_ == 0) {  // nothing precedes it
      merge_onto(smem_.row, item.group == 0, sums);
      if (!item.ends_cta) keep(sums, smem_.row);
    } else {
      keep(sums, smem_.complete[item.group]);
    }
    order_.end();
    if (!item.ends_cta) return false;
    if (rank_ > 0) merge_complete(item.group + 1, sums);
    if (!item.ends_row) send(sums);
    return item.ends_row;
  }

 private:
  __device__ std::uint32_t sent() const { return hopper::shared_address(&smem_.sent); }

  // Merges this CTA's groups into the sums that the CTA before stored.
  __device__ void merge_complete(int chunk_groups, Sums<kDim>& sums) {
    hopper::wait_for_cta(sent(), 0);
    for (int i = 0; i < chunk_groups; ++i) {
      load(smem_.complete[i], sums);
      merge_onto(smem_.row, false, sums);
      if (i + 1 < chunk_groups) keep(sums, smem_.row);
    }
  }
  __device__ void send(const Sums<kDim>& sums) const {
    const auto next = static_cast<std::uint32_t>(rank_ + 1);
    const auto there = [&](const void* at) { return hopper::address_in_cta(hopper::shared_address(at), next); };
    const std::uint32_t barrier = there(&smem_.sent);
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int tile = 0; tile < kDim / 16; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) hopper::store_async(there(&smem_.row.o[tile][i][lane]), sums.o[tile][i], barrier);
    }
    if (lane_group() != 0) return;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      hopper::store_async(there(&smem_.row.states[lane_pair() * 2 + i]), float2{sums.m[i], sums.d[i]}, barrier);
    }
  }

  ClusterMergeSmem<kDim>& smem_;
  WarpOrder order_;
  int rank_;
};

template <int kDim>
struct MergeIn<ClusterMergeSmem<kDim>> {
  using Merge = ClusterMerge<kDim>;
  using Scheduler = ClusterScheduler;
};

#endif

}  // namespace kvasir::cuda
