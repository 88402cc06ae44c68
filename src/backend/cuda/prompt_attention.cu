// Attention of many rows of one sequence over f16 and bf16 in blocks of 16 tokens on Hopper: prompts and their
// chunks.
//
// A thread block has 128 rows: the query heads of one KV head for neighbouring tokens. Its warps, 16 rows each, go
// through the context together, tile after tile, which the copy engine brings for all of them; each folds its splits
// in their order, as merge_splits.cu does, and writes its rows when it has seen all.
#include <algorithm>

#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/boxed_places.cuh"
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/hopper.cuh"
#include "backend/cuda/tensor_map.h"
#include "backend/cuda/tile_rows.cuh"

namespace kvasir::cuda {
namespace {

constexpr int kWarps = 8;

template <int kDim>
struct alignas(1024) Room {
  static constexpr int kTileBytes = kTileTokens * kDim * 2;
  std::byte k[2][kTileBytes];
  std::byte v[2][kTileBytes];
  std::byte q[kTilesOfGroup][kTileRows * kDim * 2];
  float o[kTilesOfGroup][kDim / 4][32];  // sums of the splits before, each thread's own
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

constexpr int kTilesOfWarp = kTilesOfGroup / kWarps;
constexpr float kLn2 = 0.6931471805599453F;

// Tile `index` of a group, as an item without a split.
__device__ AttentionItem tile_of(const AttentionArgs& args, const AttentionGroup& group, int index) {
  const int tokens_of_tile = kTileRows / args.heads_of_tile;
  const int first = index * tokens_of_tile;
  AttentionItem out;
  out.blocks = group.blocks;
  out.query = group.query + first;
  out.row = group.row + first;
  out.tokens = static_cast<std::int16_t>(max(0, min(tokens_of_tile, group.tokens - first)));
  out.first_head = group.first_head;
  out.after = group.after - first;
  return out;
}

// The tiles of keys that a group looks at, in their order: those of its splits, as far as its last row sees.
struct TileWalk {
  const AttentionGroup& group;
  int split = 0;  // of the group's
  int tile = 0;   // of the split

  __device__ bool valid() const { return split < group.splits() && first_key() <= last_query(); }
  __device__ Position last_query() const { return group.query + group.tokens - 1; }
  __device__ Position first_key() const {
    return static_cast<Position>(group.split_at(split)) * kSplitTokens + tile * kTileTokens;
  }
  __device__ void advance() {
    const bool ends = tile + 1 == kSplitTokens / kTileTokens || first_key() + kTileTokens > last_query();
    tile = ends ? 0 : tile + 1;
    split += ends ? 1 : 0;
  }
};

// The keys and values of the walk's tile into one of the two places, by the first warp. Returns which blocks are
// there.
template <int kDim>
__device__ void copy_tile(const AttentionArgs& args, const CUtensorMap& map, const TileWalk& walk, int kv_head,
                          Room<kDim>& room, std::uint64_t* full, int slot) {
  constexpr int kBlockBytes = kBlockOfTile * kDim * 2;
  const int lane = static_cast<int>(threadIdx.x);
  const Position key = walk.first_key() + lane % kBlocksOfTile * kBlockOfTile;
  const bool there = lane < 2 * kBlocksOfTile && key < walk.group.query + walk.group.after;
  const BlockId id = there ? walk.group.blocks[key / kBlockOfTile] : kNoBlock;
  const auto count = static_cast<std::uint32_t>(__popc(__ballot_sync(0xffffffff, id != kNoBlock)));
  const std::uint32_t barrier = hopper::shared_address(&full[slot]);
  if (lane == 0) hopper::arrive_and_expect(barrier, count * kBlockBytes);
  __syncwarp();
  if (id == kNoBlock) return;
  const KvLayout& layout = args.view.layout;
  const bool keys = lane < kBlocksOfTile;
  const std::int64_t byte =
      args.view.block_at(id) - args.view.arena +
      (keys ? layout.k_offset(args.view.layer, kv_head) : layout.v_offset(args.view.layer, kv_head));
  std::byte* to = keys ? room.k[slot] : room.v[slot];
  hopper::copy_box(hopper::shared_address(to + lane % kBlocksOfTile * kBlockBytes),
                   {&map, 0, static_cast<int>(byte / kRowBytes)}, barrier, hopper::kEvictLast);
}

// What no row may multiply: values that are not there become zeros. Infinite ones become zeros too where not all rows
// of the group see them, and are noted for those that do. By all threads; true: something was changed.
struct Infinity {
  std::int16_t token, dim;
  float value;
};
constexpr int kMostInfinities = 64;  // of a tile; further ones are lost to nobody: they stay, and reach all rows

template <class Half, int kDim>
__device__ void clean_values(const AttentionArgs& args, const TileWalk& walk, std::byte* v, Infinity* list,
                             int* count) {
  const Position first = walk.first_key();
  const Position end = walk.group.query + walk.group.after;
  for (int i = static_cast<int>(threadIdx.x); i < kTileTokens * kDim / 8; i += kWarps * 32) {
    const int token = i / (kDim / 8);
    const int chunk = i % (kDim / 8);
    const Position key = first + token;
    if (args.view.reads(walk.group.query, key) && args.view.reads(walk.last_query(), key)) continue;
    const int at = token / kBlockOfTile * kDim * 32 + BoxedPlaces<kDim>::v_chunk(token % kBlockOfTile, chunk);
    auto* eight = reinterpret_cast<std::uint16_t*>(v + at);
    const bool there = key < end && walk.group.blocks[key / kBlockOfTile] != kNoBlock;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      if (there && (eight[j] & Half::kExponent) != Half::kExponent) continue;
      if (there) {
        const int place = atomicAdd(count, 1);
        if (place >= kMostInfinities) continue;
        list[place] = {static_cast<std::int16_t>(token), static_cast<std::int16_t>(chunk * 8 + j),
                       Half::decode(eight[j])};
      }
      eight[j] = 0;
    }
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // before the copy engine writes there again
}

// One tile of 8 rows whose splits are folded as they end, outside of the registers: that is seldom.
template <int kDim>
struct FoldedRows {
  float (&o)[kDim / 4][32];
  SoftmaxState (&states)[2];

  __device__ float& at(int tile, int i) const { return o[tile * 4 + i][threadIdx.x % 32]; }

  __device__ void clear() const {
#pragma unroll
    for (int i = 0; i < kDim / 4; ++i) o[i][threadIdx.x % 32] = 0.0F;
    states[0] = states[1] = {};
  }
  __device__ void end_split(Sums<kDim>& split) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const Fold by = fold(states[i], {split.m[i], split.d[i]});
      states[i] = by.state;
#pragma unroll
      for (int tile = 0; tile < kDim / 16; ++tile) {
        at(tile, i) = fold(by, at(tile, i), split.o[tile][i]);
        at(tile, i + 2) = fold(by, at(tile, i + 2), split.o[tile][i + 2]);
      }
    }
    split.clear();
  }
  __device__ void write(const TileRows& rows) const {
    const AttentionArgs& args = rows.args;
    const int v_dim = args.view.layout.shape.v_dim;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = lane_pair() * 2 + i;
      if (row >= rows.count()) continue;
      const float inverse = states[i].d == 0.0F ? 0.0F : __frcp_rn(states[i].d);
      float* to =
          args.out.data + (rows.item.row + row / args.heads_of_tile) * args.out.stride + rows.head(row) * v_dim;
#pragma unroll
      for (int tile = 0; tile < kDim / 16; ++tile) {
        to[tile * 16 + lane_group()] = __fmul_rn(at(tile, i), inverse);
        to[tile * 16 + 8 + lane_group()] = __fmul_rn(at(tile, i + 2), inverse);
      }
      if (lane_group() == 0 && args.states != nullptr) {
        args.states[rows.state(row)] = {__fmul_rn(states[i].m, kLn2), states[i].d};
      }
    }
  }
};

template <class Half, int kDim>
__device__ void attend_to_group(const AttentionArgs& args, const CUtensorMap& map, Room<kDim>& room,
                                std::uint64_t* full) {
  __shared__ Infinity infinities[kMostInfinities];
  __shared__ int infinity_count;
  const int kv_head = static_cast<int>(blockIdx.x) % args.view.layout.shape.heads;
  const AttentionGroup group = args.groups[static_cast<int>(blockIdx.x) / args.view.layout.shape.heads];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  AttentionItem items[kTilesOfWarp];
  RowsOfWarp rows[kTilesOfWarp];
  Sums<kDim> sums[kTilesOfWarp];  // of the split at hand
  SoftmaxState states[kTilesOfWarp][2];
  std::uint32_t q[kTilesOfWarp];  // where the queries lie
  const auto folded = [&](int i) { return FoldedRows<kDim>{room.o[warp * kTilesOfWarp + i], states[i]}; };
#pragma unroll
  for (int i = 0; i < kTilesOfWarp; ++i) {
    items[i] = tile_of(args, group, warp * kTilesOfWarp + i);
    const TileRows tile{args, items[i], kv_head};
    load_queries<kDim>(tile, room.q[warp * kTilesOfWarp + i]);
    rows[i] = tile.seen();
    sums[i].clear();
    folded(i).clear();
    q[i] = shared_address(room.q[warp * kTilesOfWarp + i]);
  }
  TileWalk next{group};
  TileWalk walk{group};
  for (int slot = 0; slot < 2 && next.valid(); ++slot, next.advance()) {
    if (warp == 0) copy_tile<kDim>(args, map, next, kv_head, room, full, slot);
  }
  __syncwarp();
  for (unsigned count = 0; walk.valid(); ++count) {
    const unsigned slot = count & 1U;
    const Position first = walk.first_key();
    hopper::wait(hopper::shared_address(&full[slot]), count >> 1 & 1U);
    const bool whole = args.view.finer.full() && first + kTileTokens - 1 <= group.query &&
                       (args.view.retention.full() || walk.last_query() - first < args.view.retention.window);
    int infinite = 0;
    if (!whole) {
      if (threadIdx.x == 0) infinity_count = 0;
      __syncthreads();
      clean_values<Half, kDim>(args, walk, room.v[slot], infinities, &infinity_count);
      __syncthreads();
      infinite = min(infinity_count, kMostInfinities);
    }
    if (items[0].tokens > 0 && first <= rows[kTilesOfWarp - 1].last) {  // else it sees nothing here
      Scores s[kTilesOfWarp];
      multiply_keys<Half, BoxedPlaces<kDim>, kDim>(q, shared_address(room.k[slot]), s);
#pragma unroll
      for (int i = 0; i < kTilesOfWarp; ++i) {
        if (!whole) mask(args.view, rows[i], first, s[i]);
        soften(rows[i].factor, s[i], sums[i]);
        for (int j = 0; j < infinite; ++j) {
          add_infinity(args.view, rows[i], first + infinities[j].token, infinities[j].dim, infinities[j].value,
                       sums[i]);
        }
      }
      multiply_values<Half, BoxedPlaces<kDim>>(s, shared_address(room.v[slot]), sums);
    }
    const int split = walk.split;
    walk.advance();
    if (walk.split != split) {
#pragma unroll
      for (int i = 0; i < kTilesOfWarp; ++i) folded(i).end_split(sums[i]);
    }
    __syncthreads();  // all have used the tile
    if (next.valid()) {
      if (warp == 0) copy_tile<kDim>(args, map, next, kv_head, room, full, static_cast<int>(slot));
      next.advance();
    }
  }
#pragma unroll
  for (int i = 0; i < kTilesOfWarp; ++i) folded(i).write({args, items[i], kv_head});
}

#endif

template <class Half, int kDim>
__global__ void __launch_bounds__(kWarps * 32, 1)
    attend_to_prompts(const AttentionArgs args, const __grid_constant__ CUtensorMap map) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint4 shared[];
  __shared__ std::uint64_t full[2];
  const std::uint32_t begin = shared_address(shared);
  auto& room = *reinterpret_cast<Room<kDim>*>(reinterpret_cast<std::byte*>(shared) + (1024 - begin % 1024) % 1024);
  if (threadIdx.x == 0) {
    hopper::barrier_init(hopper::shared_address(&full[0]), 1);
    hopper::barrier_init(hopper::shared_address(&full[1]), 1);
    hopper::fence_barrier_init();
  }
  __syncthreads();
  attend_to_group<Half, kDim>(args, map, room, full);
#endif
}

template <class Half, int kDim>
void launch(const AttentionArgs& args, Number number, cudaStream_t stream) {
  const auto kernel = attend_to_prompts<Half, kDim>;
  constexpr size_t kRoom = sizeof(Room<kDim>) + 1024;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoom),
        "attention's shared memory");
  const CUtensorMap map = make_tensor_map(
      {args.view.arena, kRowBytes / 2, 0x7fffffff, kRowBytes / 2, kBlockOfTile * kDim * 2 / kRowBytes, number});
  const auto blocks = static_cast<unsigned>(args.group_count * args.view.layout.shape.heads);
  kernel<<<blocks, kWarps * 32, kRoom, stream>>>(args, map);
  check_launch("attention of prompts");
}

}  // namespace

bool takes_prompts(const KvView& view) {
  const KvFormat format = view.layout.k_format;
  return usual_blocks(view, kRowBytes) && (format == KvFormat::kBF16 || format == KvFormat::kF16);
}

void prompt_attention(const AttentionArgs& args, cudaStream_t stream) {
  const bool small = args.view.layout.shape.k_dim == 64;
  if (args.view.layout.k_format == KvFormat::kBF16) {
    return small ? launch<HalfBF16, 64>(args, Number::kBF16, stream)
                 : launch<HalfBF16, 128>(args, Number::kBF16, stream);
  }
  small ? launch<HalfF16, 64>(args, Number::kF16, stream) : launch<HalfF16, 128>(args, Number::kF16, stream);
}

}  // namespace kvasir::cuda
