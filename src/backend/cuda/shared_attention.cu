// Attention of many sequences over the prefix that they share, f16 and bf16 in blocks of 16 tokens on Hopper: its
// blocks are read once for 128 rows of any of the sequences.
//
// Rows are the side of 64 of wgmma, as in prompts, and see everything. There are few groups of rows, and each has
// its splits folded in order: so several thread blocks go through the context of one group, a split in turn, and
// give each other the sums of their splits through the second-level cache. Each folds some dimensions of all splits.
//
// A thread block has two warpgroups that multiply, one warp that asks the copy engine for keys and values, and others
// that fold what this and other thread blocks have multiplied (prefix_fold.cuh).
#include <algorithm>

#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/boxed_places.cuh"
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/half_kernels.cuh"
#include "backend/cuda/prefix_fold.cuh"
#include "backend/cuda/tensor_map.h"
#include "backend/cuda/wide_rows.cuh"
#include "layout/row_numbers.h"

namespace kvasir::cuda {
namespace prefix {
namespace {

// The matrices that boxes are taken from: all of the cache.
struct Maps {
  CUtensorMap k;  // [128-byte rows][32-byte rows of them][16]
  CUtensorMap v;  // [tokens][64 numbers of a token's][64]
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

constexpr int kMultiplierRegisters = 176;
constexpr int kFolderRegisters = 128;
constexpr int kOtherRegisters = 32;
constexpr int kFirstTurn = 1;  // barriers that multipliers wait at for their turn

// One warp: all tiles of the splits, as places become free. Lane i asks for block i of a tile's keys, and for one
// half of block i % 4 of its values.
template <int kDim>
__device__ void feed(const Work& work, const Maps& maps, Room<kDim>& room) {
  constexpr int kTileBytes = kBlocksOfTile * Room<kDim>::kBlockBytes;
  const AttentionArgs& args = work.args;
  const int lane = lane_of_warp();
  const std::int64_t k_offset = args.view.layout.k_offset(args.view.layer, work.kv_head);
  const std::int64_t v_offset = args.view.layout.v_offset(args.view.layer, work.kv_head);
  const int tiles = work.own_splits() * kTilesOfSplit;
  const auto id_at = [&](int tile) {
    const int first = work.split(tile / kTilesOfSplit) * (kSplitTokens / kBlockOfTile);
    return work.group.blocks[first + tile % kTilesOfSplit * kBlocksOfTile + lane % kBlocksOfTile];
  };
  BlockId next = tiles > 0 ? id_at(0) : kNoBlock;
  for (int tile = 0; tile < tiles; ++tile) {
    const std::int64_t block = args.view.block_at(next) - args.view.arena;
    if (tile + 1 < tiles) next = id_at(tile + 1);
    const int stage = tile % kStages;
    const std::uint32_t full_k = hopper::shared_address(&room.full_k[stage]);
    const std::uint32_t full_v = hopper::shared_address(&room.full_v[stage]);
    if (tile >= kStages) wait_at(room.empty_k[stage], tile / kStages - 1);
    if (lane == 0) hopper::arrive_and_expect(full_k, kTileBytes);
    __syncwarp();
    if (lane < kBlocksOfTile) {
      hopper::copy_box_in_3d(hopper::shared_address(room.k[stage] + lane * Room<kDim>::kBlockBytes),
                             {&maps.k, {0, 0, static_cast<int>((block + k_offset) / kRowBytes)}}, full_k,
                             hopper::kEvictFirst);
    }
    if (tile >= kStages) wait_at(room.empty_v[stage], tile / kStages - 1);
    if (lane == 0) hopper::arrive_and_expect(full_v, kTileBytes);
    __syncwarp();
    if (lane < kBlocksOfTile * (kDim / 64)) {
      const int half = lane / kBlocksOfTile;
      const std::int64_t byte = block + v_offset;
      std::byte* to = room.v[stage] + lane % kBlocksOfTile * Room<kDim>::kBlockBytes + half * kBlockOfTile * 128;
      hopper::copy_box_in_3d(
          hopper::shared_address(to),
          {&maps.v, {0, static_cast<int>(byte % (kDim * 2)) / kRowBytes + half, static_cast<int>(byte / (kDim * 2))}},
          full_v, hopper::kEvictFirst);
    }
  }
}

template <int kDim>
using SplitSums = float[kDim / 2];  // in the order of scores

// One warpgroup with 64 rows.
template <class Half, int kDim>
struct Multiplier {
  const Work& work;
  Room<kDim>& room;
  int number;

  __device__ __forceinline__ void run() const {
    RowQueries<kDim> q;
    TileScores s;
    TileWeights p;
    SplitSums<kDim> o;
    float d[4] = {};  // of weights: row g in [0] and [1], g + 8 in [2] and [3]
    float m[2] = {-INFINITY, -INFINITY};
    float rescale[2];
    load_queries(q);
    const int tiles = work.own_splits() * kTilesOfSplit;
    if (tiles == 0) return;
    multiply_keys(0, q, s);
    hopper::wgmma_wait<0>();
    hopper::hold(s);
    give_back(room.empty_k[0]);
    soften(work.args.scale, s, m, rescale);
    pack_weights(s, p, d);
    if (number == 1) end_turn();
    for (int tile = 1; tile < tiles; ++tile) {
      await_turn();
      multiply_keys(tile, q, s);
      multiply_values(tile - 1, p, o);
      end_turn();
      hopper::wgmma_wait<1>();
      hopper::hold(s);
      give_back(room.empty_k[tile % kStages]);
      const bool begins = tile % kTilesOfSplit == 0;
      const float ended[2] = {m[0], m[1]};
      if (begins) m[0] = m[1] = -INFINITY;
      soften(work.args.scale, s, m, rescale);
      hopper::wgmma_wait<0>();
      hopper::hold(o);
      give_back(room.empty_v[(tile - 1) % kStages]);
      if (begins) {
        write_split(tile / kTilesOfSplit - 1, o, d, ended);
        d[0] = d[1] = d[2] = d[3] = 0.0F;
      } else {
        scale_sums(rescale, o, d);
      }
      pack_weights(s, p, d);
    }
    if (number == 0) await_turn();
    multiply_values(tiles - 1, p, o);
    hopper::wgmma_wait<0>();
    hopper::hold(o);
    write_split(tiles / kTilesOfSplit - 1, o, d, m);
  }

 private:
  // While one multiplier's products are on their way, the other's scores become weights.
  __device__ void await_turn() const {
    if (work.multipliers() == 2) hopper::sync_at(kFirstTurn + number, 2 * hopper::kGroupThreads);
  }
  __device__ void end_turn() const {
    if (work.multipliers() == 2) hopper::say_at(kFirstTurn + 1 - number, 2 * hopper::kGroupThreads);
  }
  static __device__ void give_back(std::uint64_t& barrier) {
    if (lane_of_warp() == 0) arrive_at(barrier);
  }
  __device__ int row_of(int i) const {  // of the warpgroup's
    return thread_of_group() / 32 * 16 + lane_group() + i * 8;
  }

  // To 16 bits; rows that are not there are zeros.
  __device__ __forceinline__ void load_queries(RowQueries<kDim>& q) const {
    const Matrix& from = work.args.queries;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = number * kRowsOfMultiplier + row_of(i);
      const bool there = row < work.rows();
      const float* numbers =
          from.data + (there ? work.batch_row(row) : 0) * from.stride + work.head(row) * kDim + lane_pair() * 2;
#pragma unroll
      for (int j = 0; j < kDim / 8; ++j) {
        const float2 two = there ? *reinterpret_cast<const float2*>(numbers + j * 8) : float2{0.0F, 0.0F};
        q[j / 2][i + j % 2 * 2] = Half::pack(held(two.x), held(two.y));
      }
    }
  }

  // Both are on their way when they return.
  __device__ __forceinline__ void multiply_keys(int tile, const RowQueries<kDim>& q, TileScores& s) const {
    const int stage = tile % kStages;
    wait_at(room.full_k[stage], tile / kStages);
    const std::uint64_t k = hopper::matrix_descriptor(
        hopper::shared_address(room.k[stage]), {hopper::Swizzle::k32, Room<kDim>::kBlockBytes, 8 * kBlockOfTile * 2});
    hopper::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kDim / 16; ++step) {
      hopper::multiply_by_rows<Half>(s, q[step], k + step * (16 * kBlockOfTile * 2 / 16), step);
    }
    hopper::wgmma_commit();
  }
  __device__ __forceinline__ void multiply_values(int tile, const TileWeights& p, SplitSums<kDim>& o) const {
    const int stage = tile % kStages;
    wait_at(room.full_v[stage], tile / kStages);
    const std::uint64_t v = hopper::matrix_descriptor(hopper::shared_address(room.v[stage]),
                                                      {hopper::Swizzle::k128, kBlockOfTile * 128, 8 * 128});
    const int adds = tile % kTilesOfSplit;
    hopper::wgmma_fence();
#pragma unroll
    for (int block = 0; block < kBlocksOfTile; ++block) {
      hopper::multiply_by_rows<Half>(o, p[block], v + block * (Room<kDim>::kBlockBytes / 16), adds + block);
    }
    hopper::wgmma_commit();
  }

  static __device__ __forceinline__ void pack_weights(const TileScores& s, TileWeights& p, float (&d)[4]) {
    pack<Half>(s, p);
#pragma unroll
    for (int block = 0; block < kBlocksOfTile; ++block) Half::multiply(d, p[block], Half::kOnes, Half::kOnes);
  }

  static __device__ __forceinline__ void scale_sums(const float (&by)[2], SplitSums<kDim>& o, float (&d)[4]) {
    if (!__any_sync(0xffffffff, by[0] != 1.0F || by[1] != 1.0F)) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) d[i] = __fmul_rn(d[i], by[i / 2]);
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) o[i] = __fmul_rn(o[i], by[i / 2 % 2]);
  }

  __device__ __forceinline__ void write_split(int round, const SplitSums<kDim>& o, const float (&d)[4],
                                              const float (&m)[2]) const {
    wait_until(room.there, round + 3 - kRounds);
    float4* to = work.sums<kDim>(round, work.part, number) + thread_of_group();
#pragma unroll
    for (int i = 0; i < Room<kDim>::kQuads; ++i) {
      __stcg(to + i * 128, float4{o[i * 4], o[i * 4 + 1], o[i * 4 + 2], o[i * 4 + 3]});
    }
    if (lane_pair() == 0) {
      SoftmaxState* states = work.states(round, work.part) + number * kRowsOfMultiplier;
      __stcg(reinterpret_cast<float2*>(states + row_of(0)), float2{m[0], d[0]});
      __stcg(reinterpret_cast<float2*>(states + row_of(1)), float2{m[1], d[2]});
    }
    __syncwarp();
    if (lane_of_warp() == 0) add_one(room.written[number]);
  }
};

#endif

template <class Half, int kDim>
__global__ void __launch_bounds__(kThreads, 1)
    attend_to_prefixes(const __grid_constant__ AttentionArgs args, const __grid_constant__ PrefixArgs prefixes,
                       const __grid_constant__ Maps maps) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint4 memory[];
  auto& room = *room_for_boxes<Room<kDim>>(memory);
  const Work work(args, prefixes);
  if (threadIdx.x == 0) init_barriers(room, work.multipliers());
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (warp < kMultipliers * 4) {
    hopper::take_registers<kMultiplierRegisters>();
    if (warp / 4 < work.multipliers()) Multiplier<Half, kDim>{work, room, warp / 4}.run();
  } else if (warp < (kMultipliers + 1) * 4) {
    hopper::give_up_registers<kOtherRegisters>();
    if (warp == kMultipliers * 4) feed<kDim>(work, maps, room);
    if (warp == kMultipliers * 4 + 1) tell<kDim>(work, room);
    if (warp == kMultipliers * 4 + 2) listen<kDim>(work, room);
  } else {
    hopper::give_up_registers<kFolderRegisters>();
    Folder<kDim>{work, room, warp - (kMultipliers + 1) * 4}.run();
  }
#endif
}

// Boxes are K of one block and head, or 64 numbers of its V. The arena has an end that nothing here knows: no box
// lies behind it.
Maps make_maps(const AttentionArgs& args, int dim, Number number) {
  constexpr std::int64_t kFar = 0x7fffffff;
  Maps maps;
  maps.k = make_tensor_map_3d(BoxedRows{args.view.arena,
                                        {kBlockOfTile, 4, kFar},
                                        {32, kRowBytes},
                                        {kBlockOfTile, 4, dim / 4},
                                        number,
                                        BoxSwizzle::k32});
  maps.v = make_tensor_map_3d(BoxedRows{args.view.arena,
                                        {64, dim / 64 + 1, kFar},
                                        {kRowBytes, dim * 2},
                                        {64, 1, kBlockOfTile},
                                        number,
                                        BoxSwizzle::k128});
  return maps;
}

template <class Half, int kDim>
void launch(const AttentionArgs& args, const PrefixArgs& prefixes, Number number, cudaStream_t stream) {
  const auto kernel = attend_to_prefixes<Half, kDim>;
  constexpr size_t kRoom = sizeof(Room<kDim>) + kBoxAlignment;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoom),
        "attention's shared memory");
  const int blocks = prefixes.group_count * args.view.layout.shape.heads * prefixes.parts;
  const Maps maps = make_maps(args, kDim, number);
  kernel<<<static_cast<unsigned>(blocks), kThreads, kRoom, stream>>>(args, prefixes, maps);
  check_launch("attention to prefixes");
}

}  // namespace
}  // namespace prefix

bool takes_prefixes(const KvView& view, int heads_per_kv) {
  return takes_boxes(view) && view.retention.full() && view.finer.full() && heads_per_kv <= kRowsOfPrefix;
}

// Thread blocks of a group wait for each other: there are more than one only where all run at once.
int parts_of_prefix(const KvView& view, int group_count, int processors) {
  const int room = processors / (group_count * view.layout.shape.heads);
  int parts = 1;
  while (parts * 2 <= std::min({room, prefix::kMostParts, view.layout.shape.v_dim / 8})) parts *= 2;
  return parts;
}

void prefix_attention(const AttentionArgs& args, const PrefixArgs& prefixes, cudaStream_t stream) {
  launch_half(args.view.layout, [&]<class Half, int kDim>(Number number) {
    prefix::launch<Half, kDim>(args, prefixes, number, stream);
  });
}

}  // namespace kvasir::cuda
