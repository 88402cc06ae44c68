// Attention over f16 and bf16 in blocks of 16 tokens on Hopper, where there are so few splits that what counts is how
// long one takes: as boxed_attention.cu, but four warps share a split, a tile each.
//
// All four tiles come at once. Each warp multiplies the keys of its own; when all know each other's maxima, each
// makes weights of its scores. Sums of values go through the tiles in their order, as one warp's would: each warp has
// a quarter of the dimensions.
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

template <int kDim>
struct alignas(kBoxAlignment) TeamRoom {
  static constexpr int kTileBytes = kTileTokens * kDim * 2;
  std::byte k[kTeam][kTileBytes];
  std::byte v[kTeam][kTileBytes];
  WeightTile weights[kTeam][kBlocksOfTile][32];  // each lane's own
  float tops[kTeam][kTileRows];                  // the largest score of a tile, scaled
  std::uint64_t full_k[kTeam], full_v[kTeam];
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <class Half, int kDim>
struct Team {
  using Places = BoxedPlaces<kDim>;
  static constexpr int kDimTiles = kDim / 16 / kTeam;  // of a warp

  const AttentionArgs& args;
  const CUtensorMap& map;
  TeamRoom<kDim>& room;
  int warp;

  __device__ WalkItem item_at(int index) const {
    WalkItem out = read_item(args, index);
    out.read_ids();
    return out;
  }
  __device__ int kv_head(const WalkItem& of) const { return of.index % args.view.layout.shape.heads; }

  // This warp's tile, if there is an item and it has one.
  __device__ bool has_tile(const WalkItem& item) const { return item.valid() && warp < item.tiles(); }
  __device__ void copy_keys(const WalkItem& item) const {
    if (!has_tile(item)) return;
    const std::int64_t offset = args.view.layout.k_offset(args.view.layer, kv_head(item));
    copy_blocks<kDim>({args.view, map, item, warp}, offset, room.k[warp], room.full_k[warp]);
  }
  __device__ void copy_values(const WalkItem& item) const {
    if (!has_tile(item)) return;
    const std::int64_t offset = args.view.layout.v_offset(args.view.layer, kv_head(item));
    copy_blocks<kDim>({args.view, map, item, warp}, offset, room.v[warp], room.full_v[warp]);
  }

  // Scores of this warp's tile, masked; whether values of it are infinite that not all rows see.
  __device__ bool score(const WalkItem& item, const RowsOfWarp& rows, unsigned parity, Scores& s) const {
    Queries<kDim> q;
    load_queries<Half>(TileRows{args, item.item, kv_head(item)}, q);
    const Position first = item.first_key() + warp * kTileTokens;
    hopper::wait(hopper::shared_address(&room.full_k[warp]), parity);
    multiply_keys<Half, Places, kDim>(q, shared_address(room.k[warp]), s);
    mask(args.view, rows, first, s);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float top = __fmul_rn(top_of(s, i), rows.factor[i]);
      if (lane_group() == 0) room.tops[warp][lane_pair() * 2 + i] = top;
    }
    hopper::wait(hopper::shared_address(&room.full_v[warp]), parity);
    clear_missing<kDim>(item, warp, room.v[warp]);
    return !sees_all(args.view, rows, first) && has_infinities<Half, kDim>(room.v[warp]);
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
      room.weights[warp][block][threadIdx.x % 32] = turned_over<Half>(s[block]);
    }
  }

  // This warp's dimensions of all tiles.
  __device__ void sum(const WalkItem& item) const {
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
        const WeightTile weights = room.weights[tile][block][threadIdx.x % 32];
        add_to<Half>(weights, d);
        const std::uint32_t v = shared_address(room.v[tile] + block * kDim * kBlockOfTile * 2);
#pragma unroll
        for (int i = 0; i < kDimTiles; ++i) {
          std::uint32_t a[4];
          load_values<Places>(v, warp * kDimTiles + i, a);
          Half::multiply(o[i], a, weights.b[0], weights.b[1]);
        }
      }
    }
    write(item, o, d, m);
  }

  __device__ void write(const WalkItem& item, const float (&o)[kDimTiles][4], const float (&d)[4],
                        const float (&m)[2]) const {
    const TileRows rows{args, item.item, kv_head(item)};
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

  // By one warp, one tile after the other: where values are infinite.
  __device__ void attend_alone(const WalkItem& item, const RowsOfWarp& rows) const {
    const TileRows tile_rows{args, item.item, kv_head(item)};
    Queries<kDim> q;
    load_queries<Half>(tile_rows, q);
    Sums<kDim> sums;
    sums.clear();
    for (int tile = 0; tile < item.tiles(); ++tile) {
      const Position first = item.first_key() + tile * kTileTokens;
      Scores s;
      multiply_keys<Half, Places, kDim>(q, shared_address(room.k[tile]), s);
      mask(args.view, rows, first, s);
      soften(rows.factor, s, sums);
      if (keep_infinities_apart<Half, Places>(args.view, rows, first, room.v[tile], sums)) {
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // before the copy engine writes there again
      }
      multiply_values<Half, Places>(s, shared_address(room.v[tile]), sums);
    }
    write_part<kDim>(tile_rows, item.index, sums);
  }

  __device__ void run() const {
    WalkItem item = item_at(static_cast<int>(blockIdx.x));
    wait_for_rows(args);
    unsigned parity = 0;  // of this warp's barriers
    copy_keys(item);
    while (item.valid()) {
      copy_values(item);
      const WalkItem next = item_at(item.index + static_cast<int>(gridDim.x));
      const RowsOfWarp rows = TileRows{args, item.item, kv_head(item)}.seen();
      Scores s;
      const bool infinite = has_tile(item) && score(item, rows, parity, s);
      if (__syncthreads_or(static_cast<int>(infinite)) != 0) {
        if (warp == 0) attend_alone(item, rows);
        __syncthreads();  // before keys come into the same places
        copy_keys(next);
      } else {
        copy_keys(next);
        if (has_tile(item)) weigh(rows, s);
        __syncthreads();
        sum(item);
      }
      __syncthreads();  // before values come into the same places
      if (has_tile(item)) parity ^= 1U;
      item = next;
    }
  }
};

#endif

template <class Half, int kDim>
__global__ void __launch_bounds__(kTeam * 32, 1)
    attend_in_teams(const AttentionArgs args, const __grid_constant__ CUtensorMap map) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint4 shared[];
  let_followers_start();
  auto& room = *room_for_boxes<TeamRoom<kDim>>(shared);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x % 32 == 0) {
    hopper::barrier_init(hopper::shared_address(&room.full_k[warp]), 1);
    hopper::barrier_init(hopper::shared_address(&room.full_v[warp]), 1);
    hopper::fence_barrier_init();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncwarp();
  Team<Half, kDim>{args, map, room, warp}.run();
  wait_for_prompts(args);
#endif
}

template <class Half, int kDim>
void launch(const AttentionArgs& args, Number number, cudaStream_t stream) {
  const auto kernel = attend_in_teams<Half, kDim>;
  constexpr size_t kRoom = sizeof(TeamRoom<kDim>) + kBoxAlignment;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoom),
        "attention's shared memory");
  const int blocks = std::min(args.processors, args.item_count * args.view.layout.shape.heads);
  launch_early("attention in teams", kernel, {dim3(static_cast<unsigned>(blocks)), dim3(kTeam * 32), kRoom}, stream,
               args, map_of_boxes(args.view, number));
}

}  // namespace

bool suits_teams(const AttentionArgs& args) {
  return args.item_count * args.view.layout.shape.heads <= args.processors * kItemsOfProcessor;
}

void team_attention(const AttentionArgs& args, cudaStream_t stream) {
  launch_half(args.view.layout,
              [&]<class Half, int kDim>(Number number) { launch<Half, kDim>(args, number, stream); });
}

}  // namespace kvasir::cuda
