// Producer warps of shared_prefix.cu: tiles of 64 keys through a ring in shared memory, K and V apart, each stage
// with a full and an empty barrier; and the queries of an item.
//
// One warp loads keys and one values, by TMA. Two more load the next item's queries while this one is multiplied, so
// that items follow each other without a gap. Scales of dequantized blocks come with the keys.
#pragma once

#include "backend/cuda/arch/warpgroup.cuh"
#include "backend/cuda/attention/attention_math.cuh"
#include "backend/cuda/attention/decode/tma_addresses.cuh"
#include "backend/cuda/attention/prefill/wgmma_maps.cuh"
#include "layout/row_numbers.h"

namespace kvasir::cuda::prefix {

inline constexpr int kConsumers = 2;  // warpgroups
inline constexpr int kThreads = (kConsumers + 1) * 128;
inline constexpr int kLoaderWarps = 2;
inline constexpr int kLoaderBarrier = 1;  // named barrier of the loader warps
inline constexpr int kConsumerBarrier = 2;
inline constexpr int kStages = 4;
inline constexpr int kTilesOfChunk = kChunkTokens / kTileTokens;

// What consumers need of an item.
struct ItemInfo {
  int chunks;
  int chunks_of_partial;  // see PrefixPartials
  std::int64_t step;
  std::int64_t sums[kCohortRows];  // the first partial of each row; -1: there is no such row
  float factors[kCohortRows];      // of scores, if keys have scales
};

// K as in the cache, rows of 16 tokens; V in rows of 64 numbers, the first half of a block's tokens, then the second,
// then ones: the sum of weights is a column of the same wgmma.
template <int kDim>
struct alignas(kBoxAlignment) Smem {
  static constexpr int kBlockBytes = kBlockOfTile * kDim * 2;
  static constexpr int kOnesBytes = kBlockOfTile * kRowBytes;
  static constexpr int kValueBytes = kBlockBytes + kOnesBytes;  // of a block
  static constexpr int kFragments = kCohortRows / 16 * (kDim / 16) * 32;
  std::byte k[kStages][kBlocksOfTile * kBlockBytes];
  std::byte v[kStages][kBlocksOfTile * kValueBytes];
  uint4 queries[kFragments];  // of an item: [16 rows][16 dimensions][lane], as consumer threads hold them
  // Source rows: float32 or prepared 16-bit queries. Null: there is no such row.
  const void* query_rows[kCohortRows];
  ItemInfo items[2];                 // the current one, and the one before, whose last partials are not written yet
  float4 states[kConsumers * 128];   // of the consumers' threads
  float2 factors[kConsumers * 128];  // of the consumers' threads
  BlockScales scales[kStages][kBlocksOfTile];
  std::uint16_t ones[128];  // if they are not beside the values
  std::uint64_t full_k[kStages], full_v[kStages], empty_k[kStages], empty_v[kStages];
  std::uint64_t full_queries, empty_queries;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

using Ring = hopper::RingSlot<kStages>;

__device__ inline int lane_of_warp() { return static_cast<int>(threadIdx.x) % 32; }
__device__ inline void wait_at(std::uint64_t& barrier, unsigned parity) {
  hopper::wait(hopper::shared_address(&barrier), parity);
}
__device__ inline void arrive_at(std::uint64_t& barrier) { hopper::arrive(hopper::shared_address(&barrier)); }

// The items of a CTA, which all its warps process in order. There is at least one.
struct PrefixItems {
  const PrefixArgs& prefixes;
  int number = 0;  // among the CTA's

  __device__ bool there() const { return index() < prefixes.prefix_item_count; }
  __device__ const PrefixWorkItem& at() const { return prefixes.items[index()]; }

 private:
  __device__ int index() const { return static_cast<int>(blockIdx.x) + number * static_cast<int>(gridDim.x); }
};

// One warp loads the keys of all tiles, or the values, as stages become free.
template <class Form, int kDim>
struct PrefixProducer {
  static constexpr int kTilesAhead = 32 / kBlocksOfTile;  // whose blocks a warp finds at once, one a lane
  const AttentionArgs& args;
  const PrefixArgs& prefixes;
  const WgmmaMaps& maps;
  Smem<kDim>& smem;

  __device__ void produce_keys() const {
    constexpr int kRowsOfHead = 2 * Smem<kDim>::kBlockBytes / kRowBytes;  // K and V of a block
    constexpr int kScales = Form::kScaled ? sizeof(BlockScales) : 0;
    produce<Smem<kDim>::kBlockBytes + kScales>(
        smem.full_k, smem.empty_k, [&](unsigned stage, int block, int row, std::uint32_t full) {
          copy(smem.k[stage] + block * Smem<kDim>::kBlockBytes, {&maps.k, {0, 0, row}}, full);
          if constexpr (Form::kScaled) {
            hopper::bulk_load(hopper::shared_address(&smem.scales[stage][block]), maps.scales + row / kRowsOfHead,
                              sizeof(BlockScales), full);
          }
        });
  }
  __device__ void produce_values() const {
    constexpr int kRowsOfToken = kDim / 64;
    produce<Smem<kDim>::kBlockBytes>(smem.full_v, smem.empty_v,
                                     [&](unsigned stage, int block, int row, std::uint32_t full) {
                                       const int at = row + Smem<kDim>::kBlockBytes / kRowBytes;  // V is after K
                                       copy(smem.v[stage] + block * Smem<kDim>::kValueBytes,
                                            {&maps.v, {0, at / kRowsOfToken, at % kRowsOfToken}}, full);
                                     });
  }

 private:
  static __device__ void copy(std::byte* to, const hopper::TmaBox3d& box, std::uint32_t barrier) {
    hopper::tma_load_3d(hopper::shared_address(to), box, barrier, hopper::kEvictFirst);
  }

  // `copy_block(stage, block, row, barrier)` copies kBytes of a block whose K begins at `row`.
  template <int kBytes, class CopyBlock>
  __device__ void produce(std::uint64_t (&full)[kStages], std::uint64_t (&empty)[kStages],
                          const CopyBlock& copy_block) const {
    Ring ring;
    for (PrefixItems items{prefixes}; items.there(); ++items.number) {
      const PrefixWorkItem item = items.at();
      const int tiles = item.chunks * kTilesOfChunk;
      const BlockId* blocks = prefixes.cohorts[item.cohort].blocks + item.first_chunk * (kChunkTokens / kBlockOfTile);
      const std::int64_t offset = args.view.layout.k_offset(args.view.layer, item.kv_head);
      const auto block_at = [&](int tile) {
        const int at = tile * kBlocksOfTile + lane_of_warp();
        return at < tiles * kBlocksOfTile ? blocks[at] : blocks[0];
      };
      BlockId next = block_at(0);
      int rows = 0;  // of 128 bytes, from the start of the arena
      for (int tile = 0; tile < tiles; ++tile, ++ring.count) {
        if (tile % kTilesAhead == 0) {
          rows = static_cast<int>((args.view.block_at(next) - args.view.arena + offset) / kRowBytes);
          next = block_at(tile + kTilesAhead);
        }
        int row[kBlocksOfTile];
#pragma unroll
        for (int i = 0; i < kBlocksOfTile; ++i) {
          row[i] = __shfl_sync(0xffffffff, rows, tile % kTilesAhead * kBlocksOfTile + i);
        }
        const unsigned stage = ring.stage();
        wait_at(empty[stage], ring.parity_before());
        if (lane_of_warp() != 0) continue;
        const std::uint32_t barrier = hopper::shared_address(&full[stage]);
        hopper::arrive_and_expect(barrier, kBlocksOfTile * kBytes);
#pragma unroll
        for (int i = 0; i < kBlocksOfTile; ++i) copy_block(stage, i, row[i], barrier);
      }
      __syncwarp();
    }
  }
};

// Casts an item's queries into shared memory, and finds where its partials go.
template <class Form, int kDim>
struct QueryLoader {
  const AttentionArgs& args;
  const PrefixArgs& prefixes;
  Smem<kDim>& smem;

  // Loads the queries of all items but the first, each as soon as consumers have the one before.
  __device__ void run(int thread) const {
    constexpr int kThreadsHere = kLoaderWarps * 32;
    for (PrefixItems items{prefixes, 1}; items.there(); ++items.number) {
      wait_at(smem.empty_queries, static_cast<unsigned>(items.number - 1) & 1U);
      find_rows(items, thread, kThreadsHere);
      hopper::sync_named_barrier(kLoaderBarrier, kThreadsHere);
      prepared() ? copy(thread, kThreadsHere) : load<2>(thread, kThreadsHere);
      arrive_at(smem.full_queries);
    }
  }
  // Loads the first item's, by the consumers themselves.
  __device__ void load_first(int thread) const {
    constexpr int kThreadsHere = kConsumers * 128;
    find_rows(PrefixItems{prefixes}, thread, kThreadsHere);
    hopper::sync_named_barrier(kConsumerBarrier, kThreadsHere);
    prepared() ? copy(thread, kThreadsHere) : load<8>(thread, kThreadsHere);
    hopper::sync_named_barrier(kConsumerBarrier, kThreadsHere);
  }

 private:
  __device__ bool prepared() const { return Form::kScaled && args.q != nullptr; }

  // As TileRows::factor().
  __device__ float factor(bool there, std::int64_t state) const {
    if (!there || args.q_scales == nullptr) return args.scale;
    const float q_scale = args.q_scales[state];
    return q_scale != 0.0F ? __fmul_rn(args.scale, q_scale) : args.scale;
  }

  __device__ void find_rows(const PrefixItems& items, int thread, int threads) const {
    const PrefixWorkItem item = items.at();
    const PrefixCohort cohort = prefixes.cohorts[item.cohort];
    const std::int64_t heads = static_cast<std::int64_t>(args.heads_per_kv) * args.view.layout.shape.heads;
    ItemInfo& info = smem.items[items.number % 2];
    for (int row = thread; row < kCohortRows; row += threads) {
      const int token = row / args.heads_per_kv;
      const int head = item.kv_head * args.heads_per_kv + row - token * args.heads_per_kv;
      const bool there = token < cohort.tokens;
      const std::int64_t batch_row = there ? prefixes.rows[cohort.first + token] : 0;
      const std::int64_t state = batch_row * heads + head;
      smem.query_rows[row] = nullptr;
      if (there) {
        smem.query_rows[row] = prepared() ? static_cast<const void*>(args.q + state * args.k_stride)
                                          : args.queries.data + batch_row * args.queries.stride + head * kDim;
      }
      if constexpr (Form::kScaled) info.factors[row] = factor(there, state);
      info.sums[row] =
          there ? cohort.sums.at + token * heads + head + item.first_chunk / cohort.sums.chunks * cohort.sums.step
                : -1;
    }
    if (thread == 0) {
      info.chunks = item.chunks;
      info.chunks_of_partial = cohort.sums.chunks;
      info.step = cohort.sums.step;
    }
  }

  // A lane's part of fragment `at`: 16 rows by 16 dimensions.
  __device__ const void* row_of(int at, int j) const {
    return smem.query_rows[at / 32 / (kDim / 16) * 16 + at % 32 / 4 + j % 2 * 8];
  }
  static __device__ int dim_of(int at, int j) { return at / 32 % (kDim / 16) * 16 + j / 2 * 8 + at % 4 * 2; }

  __device__ void copy(int thread, int threads) const {
    for (int at = thread; at < Smem<kDim>::kFragments; at += threads) {
      const auto two = [&](int j) {
        const auto* row = static_cast<const std::uint16_t*>(row_of(at, j));
        return row == nullptr ? 0 : *reinterpret_cast<const std::uint32_t*>(row + dim_of(at, j));
      };
      smem.queries[at] = {two(0), two(1), two(2), two(3)};
    }
  }

  // Casts, by `threads` threads, kAtOnce fragments at a time. Missing rows are zeros.
  template <int kAtOnce>
  __device__ void load(int thread, int threads) const {
    for (int first = thread; first < Smem<kDim>::kFragments; first += threads * kAtOnce) {
      float2 numbers[kAtOnce][4];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int at = min(first + i * threads, Smem<kDim>::kFragments - 1);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const auto* row = static_cast<const float*>(row_of(at, j));
          numbers[i][j] = {0.0F, 0.0F};
          if (row != nullptr) numbers[i][j] = *reinterpret_cast<const float2*>(row + dim_of(at, j));
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int at = first + i * threads;
        const auto two = [&](int j) { return Form::Keys::pack(held(numbers[i][j].x), held(numbers[i][j].y)); };
        if (at < Smem<kDim>::kFragments) smem.queries[at] = {two(0), two(1), two(2), two(3)};
      }
    }
  }
};

// Called by all threads first.
template <class Form, int kDim>
__device__ void make_ready(Smem<kDim>& smem) {
  using Half = typename Form::Values;
  constexpr int kWords = Smem<kDim>::kOnesBytes / 4;
  for (int i = static_cast<int>(threadIdx.x); i < kStages * kBlocksOfTile * kWords; i += kThreads) {
    std::byte* block = smem.v[0] + i / kWords * Smem<kDim>::kValueBytes;  // stages lie after each other
    reinterpret_cast<std::uint32_t*>(block + Smem<kDim>::kBlockBytes)[i % kWords] = Half::kOnes;
  }
  if (threadIdx.x < 128) smem.ones[threadIdx.x] = Half::kOnes & 0xffffU;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      hopper::barrier_init(hopper::shared_address(&smem.full_k[i]), 1);
      hopper::barrier_init(hopper::shared_address(&smem.full_v[i]), 1);
      hopper::barrier_init(hopper::shared_address(&smem.empty_k[i]), kConsumers * (Form::kScaled ? 128 : 4));
      hopper::barrier_init(hopper::shared_address(&smem.empty_v[i]), kConsumers * 4);
    }
    // Every thread arrives itself, for racecheck; it is once an item.
    hopper::barrier_init(hopper::shared_address(&smem.full_queries), kLoaderWarps * 32);
    hopper::barrier_init(hopper::shared_address(&smem.empty_queries), kConsumers * 128);
    hopper::fence_barrier_init();
  }
  hopper::fence_async_proxy();
}

#endif

}  // namespace kvasir::cuda::prefix
