// Attention over f16 and bf16 in blocks of 16 tokens on Hopper, where there are so few splits that what counts is how
// long one takes: as boxed_attention.cu, but four warps share a split, a tile each.
//
// All four tiles come at once, and all splits: a processor has one, or two that leave no room for the last tile's
// values before its keys were multiplied. Each warp multiplies the keys of its own tile; when all know each other's
// maxima, each makes weights of its scores. Sums of values go through the tiles in their order, as one warp's would:
// each warp has a quarter of the dimensions.
#include <algorithm>

#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/boxed_tiles.cuh"
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/half_kernels.cuh"
#include "backend/cuda/launch.h"

namespace kvasir::cuda {
namespace {

constexpr int kTeam = kSplitTokens / kTileTokens;  // warps
constexpr int kItemsOfProcessor = 2;               // beyond, warps that work alone do more at a time

// Of one split, of which a processor has kItems.
template <int kDim, int kItems>
struct alignas(kBoxAlignment) TeamRoom {
  static constexpr int kTileBytes = kTileTokens * kDim * 2;
  static constexpr int kValueRooms = kItems == 1 ? kTeam : kTeam - 1;
  std::byte k[kTeam][kTileBytes];
  std::byte v[kValueRooms][kTileBytes];
  float tops[kTeam][kTileRows];  // the largest score of a tile, scaled
  std::uint64_t full_k[kTeam], full_v[kTeam];

  __device__ bool has_room_for_values(int tile) const { return tile < kValueRooms; }
  __device__ std::byte* values(int tile) { return has_room_for_values(tile) ? v[tile] : k[tile]; }

  // In place of the first tile's keys when all keys were multiplied; each lane's own.
  using Weights = WeightTile[kTeam][kBlocksOfTile][32];
  using AllScores = float4[kTeam][kBlocksOfTile][32];
  static_assert(sizeof(AllScores) <= kTileBytes);
  __device__ Weights& weights() { return *reinterpret_cast<Weights*>(k[0]); }
  __device__ AllScores& scores() { return *reinterpret_cast<AllScores*>(k[0]); }
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <class Half, int kDim, int kItems>
struct Team {
  using Places = BoxedPlaces<kDim>;
  static constexpr int kDimTiles = kDim / 16 / kTeam;  // of a warp

  const AttentionArgs& args;
  const CUtensorMap& map;
  TeamRoom<kDim, kItems>& room;
  const WalkItem item;
  int warp;

  __device__ int kv_head() const { return item.index % args.view.layout.shape.heads; }
  // Of each warp its own.
  __device__ bool has_tile() const { return warp < item.tiles(); }
  __device__ Position first_key() const { return item.first_key() + warp * kTileTokens; }

  __device__ void copy_keys() const {
    const std::int64_t offset = args.view.layout.k_offset(args.view.layer, kv_head());
    copy_blocks<kDim>({args.view, map, item, warp}, offset, room.k[warp], room.full_k[warp]);
  }
  __device__ void copy_values() const {
    const std::int64_t offset = args.view.layout.v_offset(args.view.layer, kv_head());
    copy_blocks<kDim>({args.view, map, item, warp}, offset, room.values(warp), room.full_v[warp]);
  }

  // Scores of this warp's tile, masked; whether values of it are infinite that not all rows see.
  __device__ bool score(const RowsOfWarp& rows, Scores& s) const {
    Queries<kDim> q;
    load_queries<Half>(query_of_thread<kDim>({args, item.item, kv_head()}), q);
    hopper::wait(hopper::shared_address(&room.full_k[warp]), 0);
    multiply_keys<Half, Places, kDim>(q, shared_address(room.k[warp]), s);
    if (!room.has_room_for_values(warp)) {
      __syncwarp();
      copy_values();
    }
    mask(args.view, rows, first_key(), s);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float top = __fmul_rn(top_of(s, i), rows.factor[i]);
      if (lane_group() == 0) room.tops[warp][lane_pair() * 2 + i] = top;
    }
    hopper::wait(hopper::shared_address(&room.full_v[warp]), 0);
    clear_missing<kDim>(item, warp, room.values(warp));
    return !sees_all(args.view, rows, first_key()) && has_infinities<Half, kDim>(room.values(warp));
  }

  // The maximum as the tiles up to `tile` leave it, and what sums before it are scaled by.
  __device__ float join(int tile, int i, float m, float& rescale) const {
    const float top = fmaxf(m, room.tops[tile][lane_pair() * 2 + i]);
    rescale = rescale_to(top, m);
    return top;
  }

  __device__ void weigh(const RowsOfWarp& rows, Scores& s) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float m = -INFINITY;
      float rescale;
      for (int tile = 0; tile <= warp; ++tile) m = join(tile, i, m, rescale);
      to_weights(s, i, rows.factor[i], m);
    }
#pragma unroll
    for (int block = 0; block < kBlocksOfTile; ++block) {
      room.weights()[warp][block][threadIdx.x % 32] = turned_over<Half>(s[block]);
    }
  }

  // This warp's dimensions of all tiles.
  __device__ void sum() const {
    float o[kDimTiles][4] = {};
    float d[4] = {};
    float m[2] = {-INFINITY, -INFINITY};
    for (int tile = 0; tile < item.tiles(); ++tile) {
      float rescale[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) m[i] = join(tile, i, m[i], rescale[i]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        d[i] = __fmul_rn(d[i], rescale[i % 2]);
#pragma unroll
        for (auto& numbers : o) numbers[i] = __fmul_rn(numbers[i], rescale[i % 2]);
      }
#pragma unroll
      for (int block = 0; block < kBlocksOfTile; ++block) {
        const WeightTile weights = room.weights()[tile][block][threadIdx.x % 32];
        add_to<Half>(weights, d);
        const std::uint32_t v = shared_address(room.values(tile) + block * kDim * kBlockOfTile * 2);
#pragma unroll
        for (int i = 0; i < kDimTiles; ++i) {
          std::uint32_t a[4];
          load_values<Places>(v, warp * kDimTiles + i, a);
          Half::multiply(o[i], a, weights.b[0], weights.b[1]);
        }
      }
    }
    write(o, d, m);
  }

  __device__ void write(const float (&o)[kDimTiles][4], const float (&d)[4], const float (&m)[2]) const {
    const TileRows rows{args, item.item, kv_head()};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = lane_pair() * 2 + i;
      if (row >= rows.count()) continue;
      const std::int64_t at = static_cast<std::int64_t>(item.index) * kTileRows + row;
      float* to = args.part_out + at * args.v_stride + warp * kDimTiles * 16 + lane_group();
#pragma unroll
      for (int j = 0; j < kDimTiles * 2; ++j) to[j * 8] = o[j / 2][j % 2 * 2 + i];
      if (warp == 0 && lane_group() == 0) args.part_states[at] = {m[i], d[i]};
    }
  }

  __device__ void keep_scores(const Scores& s) const {
#pragma unroll
    for (int block = 0; block < kBlocksOfTile; ++block) {
      room.scores()[warp][block][threadIdx.x % 32] = {s[block][0], s[block][1], s[block][2], s[block][3]};
    }
  }
  // By one warp, one tile after the other: where values are infinite.
  __device__ void sum_alone(const RowsOfWarp& rows) const {
    Sums<kDim> sums;
    sums.clear();
    for (int tile = 0; tile < item.tiles(); ++tile) {
      Scores s;
#pragma unroll
      for (int block = 0; block < kBlocksOfTile; ++block) {
        const float4 four = room.scores()[tile][block][threadIdx.x % 32];
        s[block][0] = four.x, s[block][1] = four.y, s[block][2] = four.z, s[block][3] = four.w;
      }
      soften(rows.factor, s, sums);
      keep_infinities_apart<Half, Places>(args.view, rows, item.first_key() + tile * kTileTokens, room.values(tile),
                                          sums);
      multiply_values<Half, Places>(s, shared_address(room.values(tile)), sums);
    }
    write_part<kDim>(TileRows{args, item.item, kv_head()}, item.index, sums);
  }

  // All that there is room for. Before the kernels ahead have ended: where none of them writes it.
  __device__ void begin() const {
    if (!has_tile()) return;
    copy_keys();
    if (room.has_room_for_values(warp)) copy_values();
  }
  __device__ bool begins_early() const {
    return args.begins_early && first_key() + kTileTokens <= item.item.query;
  }

  __device__ void run() const {
    const RowsOfWarp rows = TileRows{args, item.item, kv_head()}.seen();
    Scores s;
    const bool infinite = has_tile() && score(rows, s);
    if (__syncthreads_or(static_cast<int>(infinite)) != 0) {
      if (has_tile()) keep_scores(s);
      __syncthreads();
      if (warp == 0) sum_alone(rows);
    } else {
      if (has_tile()) weigh(rows, s);
      __syncthreads();
      sum();
    }
  }
};

#endif

// A thread block for each item and KV head.
template <class Half, int kDim, int kItems>
__global__ void __launch_bounds__(kTeam * 32, kItems)
    attend_in_teams(const AttentionArgs args, const __grid_constant__ CUtensorMap map) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(kBoxAlignment) uint4 shared[];
  Order::of_items(args).begin();
  auto& room = *reinterpret_cast<TeamRoom<kDim, kItems>*>(shared);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x % 32 == 0) {
    hopper::barrier_init(hopper::shared_address(&room.full_k[warp]), 1);
    hopper::barrier_init(hopper::shared_address(&room.full_v[warp]), 1);
    hopper::fence_barrier_init();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncwarp();
  WalkItem item = read_item(args, static_cast<int>(blockIdx.x), args.item_count * args.view.layout.shape.heads);
  item.read_ids();
  const Team<Half, kDim, kItems> team{args, map, room, item, warp};
  const bool early = team.begins_early();
  if (early) team.begin();
  Order::of_items(args).wait_for_rows();
  if (!early) team.begin();
  team.run();
  Order::of_items(args).end();
#endif
}

template <class Half, int kDim, int kItems>
void launch(const AttentionArgs& args, Number number, cudaStream_t stream) {
  const auto kernel = attend_in_teams<Half, kDim, kItems>;
  constexpr size_t kRoom = sizeof(TeamRoom<kDim, kItems>);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoom),
        "attention's shared memory");
  const auto blocks = static_cast<unsigned>(args.item_count * args.view.layout.shape.heads);
  launch_early("attention in teams", kernel, {dim3(blocks), dim3(kTeam * 32), kRoom}, stream, args,
               map_of_boxes(args.view, number));
}

}  // namespace

bool suits_teams(const AttentionArgs& args) {
  return args.item_count * args.view.layout.shape.heads <= args.processors * kItemsOfProcessor;
}

void team_attention(const AttentionArgs& args, cudaStream_t stream) {
  const bool all_alone = args.item_count * args.view.layout.shape.heads <= args.processors;
  launch_half(args.view.layout, [&]<class Half, int kDim>(Number number) {
    all_alone ? launch<Half, kDim, 1>(args, number, stream)
              : launch<Half, kDim, kItemsOfProcessor>(args, number, stream);
  });
}

}  // namespace kvasir::cuda
