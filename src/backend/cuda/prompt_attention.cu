// Attention of many rows of one sequence over f16 and bf16 in blocks of 16 tokens on Hopper, or over what other
// formats were widened to (wide_blocks.h): prompts and their chunks.
//
// A thread block has 128 rows: the query heads of one KV head for neighbouring tokens. Two warpgroups, 64 rows each,
// go through the context tile after tile, which the copy engine brings for both (prompt_feed.cuh); each folds its
// splits and spans in their order, as merge_splits.cu does, and writes its rows when it has seen all. Scores of the
// next tile are multiplied before the values of this one: while products are on their way, scores become weights.
//
// Rows are the side of 64 here, keys and values lie as they do in the cache; sums have the bits of
// attention_math.cuh. Where there are scales, scores and weights are multiplied by them as there too: weights are
// summed before, which is a product of its own then.
#include <algorithm>

#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/boxed_places.cuh"
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/half_kernels.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/prompt_feed.cuh"
#include "backend/cuda/prompt_rows.cuh"

namespace kvasir::cuda {
namespace {

constexpr int kThreads = (1 + kConsumers) * 128;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Scales want more registers, which the warps that feed can do without.
template <class Form>
constexpr int kFeederRegisters = Form::kScaled ? 24 : 40;
template <class Form>
constexpr int kConsumerRegisters = Form::kScaled ? 240 : 232;

template <class Form, int kDim>
struct PromptConsumer {
  using Room = PromptRoom<kDim>;
  using Keys = typename Form::Keys;
  using Values = typename Form::Values;
  const AttentionArgs& args;
  Room& room;
  int number;  // of the warpgroup, from 0 on

  __device__ void run() const {
    Groups groups(args);
    GroupWalk walk;
    Ring ring;
    while (groups.next(walk)) {
      const ConsumerRows rows{args, walk, number * kRowsOfConsumer};
      RowSums<kDim> sums(room.totals[number]);
      if constexpr (Form::kScaled) sums.totals.factors[thread()] = {rows.factor<kDim>(0), rows.factor<kDim>(1)};
      attend(rows, ring, sums);
      sums.normalize();
      if (Form::kScaled && args.turns) sums.turn();
      rows.write(sums);
    }
  }

 private:
  static __device__ int thread() { return static_cast<int>(threadIdx.x) % hopper::kGroupThreads; }
  static __device__ void give_back(std::uint64_t& barrier) {
    if (threadIdx.x % 32 == 0) hopper::arrive(hopper::shared_address(&barrier));
  }

  // On their way when it returns.
  __device__ __forceinline__ void multiply_keys(unsigned stage, const RowQueries<kDim>& q, TileScores& s) const {
    const std::uint64_t k = room.keys(stage);
    hopper::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kDim / 16; ++step) {
      hopper::multiply_by_rows<Keys>(s, q[step], hopper::moved_on(k, step * 512), step);
    }
    hopper::wgmma_commit();
  }
  __device__ __forceinline__ void multiply_values(unsigned stage, const TileWeights& p, int adds,
                                                  RowSums<kDim>& sums) const {
    const std::uint64_t v = room.values(stage);
    hopper::wgmma_fence();
#pragma unroll
    for (int block = 0; block < kBlocksOfTile; ++block) {
      hopper::multiply_by_rows<Values>(sums.o, p[block], hopper::moved_on(v, block * Room::kBlockBytes),
                                       adds + block);
      if constexpr (!Form::kScaled) add_up<Values>(p[block], room.ones, adds + block, sums.d);
    }
    hopper::wgmma_commit();
  }
  // Weights of the tile whose keys are in `stage`: those of values with scales are summed up here.
  __device__ __forceinline__ void make_weights(unsigned stage, int tile, const TileScores& s, TileWeights& p,
                                               RowSums<kDim>& sums) const {
    if constexpr (!Form::kScaled) {
      pack<Values>(s, p);
    } else {
      const ScaledTile scaled{room.scales[stage], room.empty_k[stage], room.ones};
      weigh<Values>(scaled, tile % kTilesOfSplit, s, p, sums.d);
    }
  }

  __device__ __forceinline__ void mask(const ConsumerRows& rows, int tile, TileScores& s) const {
    const Position first = rows.walk.first_key(tile);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const Sight sight(args.view, rows.query(rows.own(i)), first);
#pragma unroll
      for (int j = i * 2; j < kTileTokens / 2; j += 4) {
        const int key = j / 4 * 8 + lane_pair() * 2;
        if (!sight.of(key)) s[j] = -INFINITY;
        if (!sight.of(key + 1)) s[j + 1] = -INFINITY;
      }
    }
  }

  // Infinite values that the tile was without. The lane that gives it back reads how many they are: none, mostly.
  __device__ __forceinline__ void add_infinities(const ConsumerRows& rows, int tile, const Infinities& found,
                                                 RowSums<kDim>& sums) const {
    const Position first = rows.walk.first_key(tile);
    const int own = threadIdx.x % 32 == 0 ? min(found.count, kMostInfinities) : 0;
    const int count = __shfl_sync(0xffffffff, own, 0);
    for (int n = 0; n < count; ++n) {
      const Infinity one = found.list[n];
      if (one.dim % 8 / 2 != lane_pair()) continue;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (!args.view.reads(rows.query(rows.own(i)), first + one.token)) continue;
#pragma unroll
        for (int j = 0; j < kDim / 4; ++j) {  // chosen by comparing: an index would move all out of their registers
          float& sum = sums.o[j / 2 * 4 + i * 2 + j % 2];
          sum = j / 2 * 8 + j % 2 == one.dim - lane_pair() * 2 ? sum + one.value : sum;
        }
      }
    }
  }

  __device__ __forceinline__ void end_values(const ConsumerRows& rows, int tile, unsigned stage,
                                             RowSums<kDim>& sums) const {
    hopper::wgmma_wait<0>();
    hopper::hold(sums.o);
    hopper::hold(sums.d);
    if (!rows.walk.sees_all(tile)) {
      add_infinities(rows, tile, room.infinities[stage], sums);
      __syncwarp();  // all lanes have read them
    }
    give_back(room.empty_v[stage]);
  }

  // The products of tile `tile` have ended, of keys in `stage`.
  __device__ __forceinline__ void scores_to_weights(const ConsumerRows& rows, int tile, unsigned stage, TileScores& s,
                                                    RowSums<kDim>& sums) const {
    hopper::hold(s);
    if constexpr (Form::kScaled) {
      scale_scores(room.scales[stage], s);
    } else {
      give_back(room.empty_k[stage]);
    }
    if (!rows.walk.sees_all(tile)) mask(rows, tile, s);
    if (tile % kTilesOfSplit == 0) sums.begin_split();
    float2 factor{args.scale, args.scale};
    if constexpr (Form::kScaled) factor = sums.totals.factors[thread()];
    soften({factor.x, factor.y}, s, sums.m, sums.rescaling);
    hopper::settle(s);
  }

  // Before the values of a tile: sums of the split so far as the new maximum wants them, or those of the one before
  // away, and of a span that has ended.
  __device__ __forceinline__ void make_ready(const ConsumerRows& rows, int tile, RowSums<kDim>& sums) const {
    if (tile % kTilesOfSplit != 0) {
      const float(&by)[2] = sums.rescaling;
      if (__any_sync(0xffffffff, by[0] != 1.0F || by[1] != 1.0F)) sums.rescale(by);
    } else {
      sums.fold_split();
      if (!rows.walk.begins_span(tile)) return;
      if (rows.walk.spans_ended(tile - 1)) sums.add_totals();
      sums.put_aside();
    }
  }

  __device__ void attend(const ConsumerRows& rows, Ring& ring, RowSums<kDim>& sums) const {
    const int tiles = rows.walk.tiles;
    RowQueries<kDim> q;
    TileScores s;
    TileWeights p;
    if (Form::kScaled && args.q != nullptr) {
      rows.load_prepared<kDim>(q);
    } else {
      rows.round_queries<Keys, kDim>(q);
    }
    hopper::wait(hopper::shared_address(&room.full_k[ring.stage()]), ring.parity());
    multiply_keys(ring.stage(), q, s);
    hopper::wgmma_wait<0>();
    scores_to_weights(rows, 0, ring.stage(), s, sums);
    make_weights(ring.stage(), 0, s, p, sums);
    for (int tile = 0; tile + 1 < tiles; ++tile) {
      const Ring now = ring;
      ++ring.count;
      hopper::wait(hopper::shared_address(&room.full_k[ring.stage()]), ring.parity());
      hopper::wait(hopper::shared_address(&room.full_v[now.stage()]), now.parity());
      multiply_keys(ring.stage(), q, s);
      multiply_values(now.stage(), p, tile % kTilesOfSplit, sums);
      hopper::wgmma_wait<1>();
      scores_to_weights(rows, tile + 1, ring.stage(), s, sums);
      end_values(rows, tile, now.stage(), sums);
      make_ready(rows, tile + 1, sums);
      make_weights(ring.stage(), tile + 1, s, p, sums);
    }
    hopper::wait(hopper::shared_address(&room.full_v[ring.stage()]), ring.parity());
    multiply_values(ring.stage(), p, (tiles - 1) % kTilesOfSplit, sums);
    end_values(rows, tiles - 1, ring.stage(), sums);
    ++ring.count;
    sums.begin_split();
    sums.fold_split();
    if (rows.walk.spans_ended(tiles - 1)) sums.add_totals();
  }
};

#endif

template <class Form, int kDim>
__global__ void __launch_bounds__(kThreads, 1)
    attend_to_prompts(const __grid_constant__ AttentionArgs args, const __grid_constant__ WideMaps maps) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint4 shared[];
  auto& room = *room_for_boxes<PromptRoom<kDim>>(shared);
  if (threadIdx.x == 0) room.init(kConsumers * (Form::kScaled ? hopper::kGroupThreads : 4));
  if (threadIdx.x < 128) room.ones[threadIdx.x] = Form::Values::kOnes & 0xffffU;
  hopper::fence_shared();
  __syncthreads();
  wait_for_forerunners();
  let_followers_start();  // not earlier: see Order
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (warp < 4) {
    hopper::give_up_registers<kFeederRegisters<Form>>();
    const PromptFeeder<Form, kDim> feeder{args, maps, room};
    if (warp == 0) feeder.feed_keys();
    if (warp == 1) feeder.feed_values();
    if (warp == 2) PromptCleaner<typename Form::Values, kDim>{args, room}.run();
  } else {
    hopper::take_registers<kConsumerRegisters<Form>>();
    PromptConsumer<Form, kDim>{args, room, warp / 4 - 1}.run();
  }
#endif
}

template <class Form, int kDim>
void launch(const AttentionArgs& args, const WideMaps& maps, cudaStream_t stream) {
  const auto kernel = attend_to_prompts<Form, kDim>;
  constexpr size_t kRoom = sizeof(PromptRoom<kDim>) + kBoxAlignment;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoom),
        "attention's shared memory");
  const int blocks = std::min(args.processors, args.group_count * args.view.layout.shape.heads);
  launch_early("attention of prompts", kernel, {dim3(static_cast<unsigned>(blocks)), dim3(kThreads), kRoom}, stream,
               args, maps);
}

}  // namespace

void prompt_attention(const AttentionArgs& args, const float* scales, cudaStream_t stream) {
  if (scales == nullptr) {
    return launch_half(args.view.layout, [&]<class Half, int kDim>(Number number) {
      launch<AsTheyLie<Half>, kDim>(args, make_wide_maps(args.view, number), stream);
    });
  }
  const WideMaps maps = make_wide_maps(args.view, Number::kF16, scales);  // boxes of bf16 are as large
  args.view.layout.shape.k_dim == 64 ? launch<WithScales, 64>(args, maps, stream)
                                     : launch<WithScales, 128>(args, maps, stream);
}

}  // namespace kvasir::cuda
