// Attention over f16 and bf16 in blocks of 16 tokens: as fast as memory can be read, where few rows look at many
// keys.
//
// Each warp goes through its items alone, without waiting for others. It has room for one tile of keys and one of
// values; the next ones are on their way into them as soon as they were multiplied.
#include <algorithm>

#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/half_kernels.cuh"
#include "backend/cuda/item_walk.cuh"

namespace kvasir::cuda {
namespace {

template <int kDim>
struct WarpRoom {
  static constexpr int kTileBytes = kTileTokens * kDim * 2;
  std::byte k[kTileBytes];
  std::byte v[kTileBytes];
  std::byte q[kTileRows * kDim * 2];
};

// As many as have room, of an A100's shared memory too.
template <int kDim>
inline constexpr int kWarps = kDim == 64 ? 8 : 4;

template <int kDim>
__device__ void copy_keys(const AttentionArgs& args, const WalkItem& of, int kv_head, int tile,
                          WarpRoom<kDim>& room) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint32_t to = shared_address(room.k);
#pragma unroll
  for (int block = 0; block < kBlocksOfTile; ++block) {
    const BlockId id = of.block(tile * kBlocksOfTile + block);
    const std::byte* from = id == kNoBlock ? args.view.arena : args.view.k_head(id, kv_head);
    const int bytes = id == kNoBlock ? 0 : 16;
#pragma unroll
    for (int i = 0; i < kDim * 2 / 32; ++i) {
      const int chunk = i * 32 + lane;
      copy_async(to + block * kDim * 32 + WovenPlaces<kDim>::k_chunk(chunk / 2, chunk % 2), from + chunk * 16, bytes);
    }
  }
}

// Rows behind the sequence's end become zeros: their weights are 0, but what lies there may be no number.
template <int kDim>
__device__ void copy_values(const AttentionArgs& args, const WalkItem& of, int kv_head, int tile,
                            WarpRoom<kDim>& room) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint32_t to = shared_address(room.v);
  constexpr int kChunksOfRow = kDim / 8;
  const Position left = of.item.query + of.item.after - of.first_key() - tile * kTileTokens;
#pragma unroll
  for (int block = 0; block < kBlocksOfTile; ++block) {
    const BlockId id = of.block(tile * kBlocksOfTile + block);
    const std::byte* from = id == kNoBlock ? args.view.arena : args.view.v_head(id, kv_head);
    const int rows = id == kNoBlock ? 0 : static_cast<int>(min(left - block * kBlockOfTile, Position{kBlockOfTile}));
#pragma unroll
    for (int i = 0; i < kDim * 2 / 32; ++i) {
      const int chunk = i * 32 + lane;
      const int row = chunk / kChunksOfRow;
      copy_async(to + block * kDim * 32 + WovenPlaces<kDim>::v_chunk(row, chunk % kChunksOfRow), from + chunk * 16,
                 row < rows ? 16 : 0);
    }
  }
}

// What is copied next. The keys and values of one tile are on their way, or there, and those before it were used.
template <int kDim>
struct Copies {
  const AttentionArgs& args;
  WarpRoom<kDim>& room;
  ItemWalk<TicketSource> walk;
  int tile = 0;      // of the walk's item
  WalkItem begun{};  // the last item of which a tile was copied
  int begun_head = 0;

  __device__ void next_keys() {
    if (walk.at().valid()) {
      if (tile == 0) {
        begun = walk.at();
        begun_head = walk.kv_head();
        copy_queries<kDim>({args, begun.item, begun_head}, shared_address(room.q));
      }
      copy_keys<kDim>(args, walk.at(), begun_head, tile, room);
    }
    end_copies();
  }
  __device__ void next_values() {
    if (walk.at().valid()) {
      copy_values<kDim>(args, walk.at(), begun_head, tile, room);
      if (++tile == walk.at().tiles()) {
        tile = 0;
        walk.advance();
      }
    }
    end_copies();
  }
};

template <class Half, int kDim>
__global__ void __launch_bounds__(kWarps<kDim> * 32, 1) attend_to_blocks(const AttentionArgs args) {
  extern __shared__ uint4 shared[];
  WarpRoom<kDim>& room = reinterpret_cast<WarpRoom<kDim>*>(shared)[threadIdx.x / 32];
  for (int i = static_cast<int>(threadIdx.x) % 32; i < static_cast<int>(sizeof room.q) / 16; i += 32) {
    reinterpret_cast<uint4*>(room.q)[i] = {0, 0, 0, 0};
  }
  __syncwarp();
  Copies<kDim> copies{args, room, ItemWalk<TicketSource>(args)};
  copies.walk.begin();
  copies.next_keys();
  copies.next_values();
  for (WalkItem now = copies.begun; now.valid();) {
    const TileRows tile_rows{args, now.item, copies.begun_head};
    const RowsOfWarp rows = tile_rows.seen();
    Sums<kDim> sums;
    sums.clear();
    wait_copies<1>();  // the queries come with the first keys
    __syncwarp();
    Queries<kDim> q;
    q.load(shared_address(room.q));
    for (int tile = 0; tile < now.tiles(); ++tile) {
      Scores s;
      wait_copies<1>();
      __syncwarp();
      multiply_keys<Half, WovenPlaces<kDim>, kDim>(q, shared_address(room.k), s);
      __syncwarp();
      copies.next_keys();
      mask(args.view, rows, now.first_key() + tile * kTileTokens, s);
      soften(rows.factor, s, sums);
      wait_copies<1>();
      __syncwarp();
      keep_infinities_apart<Half, WovenPlaces<kDim>>(args.view, rows, now.first_key() + tile * kTileTokens, room.v,
                                                     sums);
      multiply_values<Half, WovenPlaces<kDim>>(s, shared_address(room.v), sums);
      __syncwarp();
      copies.next_values();
    }
    write_part<kDim>(tile_rows, now.index, sums);
    now = copies.begun.index == now.index ? WalkItem{} : copies.begun;
  }
}

template <class Half, int kDim>
void launch(const AttentionArgs& args, cudaStream_t stream) {
  const auto kernel = attend_to_blocks<Half, kDim>;
  constexpr size_t kRoom = kWarps<kDim> * sizeof(WarpRoom<kDim>);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoom),
        "attention's shared memory");
  const int items = args.item_count * args.view.layout.shape.heads;
  const int blocks = std::min(args.processors, items);
  kernel<<<static_cast<unsigned>(blocks), kWarps<kDim> * 32, kRoom, stream>>>(args);
  check_launch("attention over blocks");
}

}  // namespace

bool block_attention(const AttentionArgs& args, cudaStream_t stream) {
  if (!usual_blocks(args.view, 16) || !is_half(args.view.layout.k_format)) return false;
  launch_half(args.view.layout, [&]<class Half, int kDim>(Number) { launch<Half, kDim>(args, stream); });
  return true;
}

}  // namespace kvasir::cuda
