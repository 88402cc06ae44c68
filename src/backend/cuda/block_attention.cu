// Attention over f16 and bf16 in blocks of 16 tokens: as fast as memory can be read, where few rows look at many keys.
//
// Each warp goes through its items alone, without waiting for others. Tiles of keys and of values come by asynchronous
// copies into two places each, so that three halves of 16 KB are on their way while one is multiplied; what an item
// needs to begin is read two items ahead.
#include <algorithm>

#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/tile_rows.cuh"

namespace kvasir::cuda {
namespace {

constexpr int kBlocksOfTile = kTileTokens / kBlockOfTile;
constexpr int kBlocksOfSplit = kSplitTokens / kBlockOfTile;

template <int kDim>
struct WarpRoom {
  static constexpr int kTileBytes = kTileTokens * kDim * 2;
  std::byte k[2][kTileBytes];
  std::byte v[2][kTileBytes];
  std::byte q[2][kTileRows * kDim * 2];
};

// The items of one warp, one after the other: item and KV head, KV heads fastest, since those lie side by side.
class ItemWalk {
 public:
  __device__ ItemWalk(const AttentionArgs& args, int first, int step)
      : args_(args), next_(first), step_(step), end_(args.item_count * args.view.layout.shape.heads) {
    ahead_ = read();
    second_ = read();
    ahead_ids_ = ids(ahead_);
    advance();
  }

  __device__ bool valid() const { return at_ >= 0; }
  __device__ const AttentionItem& item() const { return item_; }
  __device__ int index() const { return at_; }
  __device__ int kv_head() const { return at_ % args_.view.layout.shape.heads; }
  __device__ Position first_key() const { return static_cast<Position>(item_.first_key) * kSplitTokens; }
  __device__ int tiles() const {
    const Position keys = item_.query + item_.tokens - first_key();  // that the last row may see
    return keys >= kSplitTokens ? kSplitTokens / kTileTokens : static_cast<int>((keys + kTileTokens - 1) / kTileTokens);
  }
  // The block of 16 tokens at `index` of the split, the same in all lanes.
  __device__ BlockId block(int index) const { return __shfl_sync(0xffffffff, ids_, index); }

  __device__ void advance() {
    item_ = ahead_.item;
    at_ = ahead_.at;
    ids_ = ahead_ids_;
    ahead_ = second_;
    ahead_ids_ = ids(ahead_);
    second_ = read();
  }

 private:
  struct Ahead {
    AttentionItem item;
    int at = -1;
  };

  __device__ Ahead read() {
    Ahead out;
    if (next_ >= end_) return out;
    out.item = args_.items[next_ / args_.view.layout.shape.heads];
    out.at = next_;
    next_ += step_;
    return out;
  }
  // A lane for each block of the split; none behind the sequence's end.
  __device__ BlockId ids(const Ahead& of) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (of.at < 0 || lane >= kBlocksOfSplit) return kNoBlock;
    const Position first = static_cast<Position>(of.item.first_key) * kSplitTokens + lane * kBlockOfTile;
    return first < of.item.query + of.item.after ? of.item.blocks[first / kBlockOfTile] : kNoBlock;
  }

  const AttentionArgs& args_;
  int next_, step_, end_;
  int at_ = -1;
  AttentionItem item_;
  BlockId ids_ = kNoBlock;
  Ahead ahead_, second_;
  BlockId ahead_ids_ = kNoBlock;
};

// Where the copies are: a tile of an item.
struct Cursor {
  int tile = 0;
  int slot = 0;  // of the two places
};

template <int kDim>
__device__ void copy_keys(const AttentionArgs& args, const ItemWalk& walk, const Cursor& at, WarpRoom<kDim>& room) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint32_t to = shared_address(room.k[at.slot]);
#pragma unroll
  for (int block = 0; block < kBlocksOfTile; ++block) {
    const BlockId id = walk.block(at.tile * kBlocksOfTile + block);
    const std::byte* from = id == kNoBlock ? args.view.arena : args.view.k_head(id, walk.kv_head());
    const int bytes = id == kNoBlock ? 0 : 16;
#pragma unroll
    for (int i = 0; i < kDim * 2 / 32; ++i) {
      const int chunk = i * 32 + lane;
      copy_async(to + (block * kDim * 2 + k_chunk(chunk / 2, chunk % 2)) * 16, from + chunk * 16, bytes);
    }
  }
}

// Rows behind the sequence's end become zeros: their weights are 0, but what lies there may be no number.
template <int kDim>
__device__ void copy_values(const AttentionArgs& args, const ItemWalk& walk, const Cursor& at, WarpRoom<kDim>& room) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint32_t to = shared_address(room.v[at.slot]);
  constexpr int kChunksOfRow = kDim / 8;
  const Position left = walk.item().query + walk.item().after - walk.first_key() - at.tile * kTileTokens;
#pragma unroll
  for (int block = 0; block < kBlocksOfTile; ++block) {
    const BlockId id = walk.block(at.tile * kBlocksOfTile + block);
    const std::byte* from = id == kNoBlock ? args.view.arena : args.view.v_head(id, walk.kv_head());
    const int rows = id == kNoBlock ? 0 : static_cast<int>(min(left - block * kBlockOfTile, Position{kBlockOfTile}));
#pragma unroll
    for (int i = 0; i < kDim * 2 / 32; ++i) {
      const int chunk = i * 32 + lane;
      const int row = chunk / kChunksOfRow;
      copy_async(to + (block * kDim * 2 + v_chunk<kDim>(row, chunk % kChunksOfRow)) * 16, from + chunk * 16,
                 row < rows ? 16 : 0);
    }
  }
}

template <int kDim>
__device__ void copy_queries(const AttentionArgs& args, const ItemWalk& walk, int slot, WarpRoom<kDim>& room) {
  const TileRows rows{args, walk.item(), walk.kv_head()};
  constexpr int kChunksOfRow = kDim / 8;
  for (int i = static_cast<int>(threadIdx.x) % 32; i < rows.count() * kChunksOfRow; i += 32) {
    const int row = i / kChunksOfRow;
    const int chunk = i % kChunksOfRow;
    copy_async(shared_address(room.q[slot]) + v_chunk<kDim>(row, chunk) * 16,
               args.q + rows.state(row) * args.k_stride + chunk * 8, 16);
  }
}

// What is copied next, and into which places.
template <int kDim>
struct Copies {
  const AttentionArgs& args;
  WarpRoom<kDim>& room;
  ItemWalk walk;
  Cursor keys{};    // the next tile of keys
  int q_slot = 0;   // of the walk's item

  // The next tile's keys, and before the first of an item its queries. Its values are copied before the next keys.
  __device__ void next_keys() {
    if (walk.valid()) {
      if (keys.tile == 0) copy_queries<kDim>(args, walk, q_slot, room);
      copy_keys<kDim>(args, walk, keys, room);
    }
    end_copies();
  }
  __device__ void next_values() {
    if (walk.valid()) {
      copy_values<kDim>(args, walk, keys, room);
      keys.slot ^= 1;
      if (++keys.tile == walk.tiles()) {
        keys.tile = 0;
        q_slot ^= 1;
        walk.advance();
      }
    }
    end_copies();
  }
};

template <class Half, int kDim>
__global__ void __launch_bounds__(96, 1) attend_to_blocks(const AttentionArgs args) {
  extern __shared__ uint4 shared[];
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  WarpRoom<kDim>& room = reinterpret_cast<WarpRoom<kDim>*>(shared)[warp];
  for (int i = static_cast<int>(threadIdx.x) % 32; i < static_cast<int>(sizeof room.q) / 16; i += 32) {
    reinterpret_cast<uint4*>(room.q)[i] = {0, 0, 0, 0};
  }
  __syncwarp();
  const int first = static_cast<int>(blockIdx.x) + warp * static_cast<int>(gridDim.x);
  const int step = static_cast<int>(gridDim.x) * warps;
  Copies<kDim> copies{args, room, ItemWalk(args, first, step)};
  ItemWalk walk(args, first, step);
  copies.next_keys();
  copies.next_values();
  copies.next_keys();
  copies.next_values();
  int slot = 0;
  for (int q_slot = 0; walk.valid(); walk.advance(), q_slot ^= 1) {
    const TileRows tile_rows{args, walk.item(), walk.kv_head()};
    const RowsOfWarp rows = tile_rows.seen();
    Sums<kDim> sums;
    sums.clear();
    for (int tile = 0; tile < walk.tiles(); ++tile, slot ^= 1) {
      Scores s;
      wait_copies<3>();
      __syncwarp();
      multiply_keys<Half, kDim>(shared_address(room.q[q_slot]), shared_address(room.k[slot]), s);
      __syncwarp();
      copies.next_keys();
      scale_and_mask(args.view, rows, walk.first_key() + tile * kTileTokens, nullptr, s);
      soften(s, sums);
      wait_copies<3>();
      __syncwarp();
      multiply_values<Half, kDim>(s, shared_address(room.v[slot]), sums);
      __syncwarp();
      copies.next_values();
    }
    sums.end_split();
    write_part<kDim>(tile_rows, walk.index(), sums);
  }
}

template <class Half, int kDim>
void launch(const AttentionArgs& args, cudaStream_t stream) {
  const auto kernel = attend_to_blocks<Half, kDim>;
  constexpr int kWarps = 3;
  constexpr size_t kRoom = kWarps * sizeof(WarpRoom<kDim>);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoom), "attention's shared memory");
  int device = 0;
  int processors = 0;
  check(cudaGetDevice(&device), "attention");
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "attention");
  const int items = args.item_count * args.view.layout.shape.heads;
  const int blocks = std::min(processors * (kDim == 64 ? 2 : 1), items);
  kernel<<<static_cast<unsigned>(blocks), kWarps * 32, kRoom, stream>>>(args);
  check_launch("attention over blocks");
}

}  // namespace

bool block_attention(const AttentionArgs& args, cudaStream_t stream) {
  const KvView& view = args.view;
  const KvLayout& layout = view.layout;
  const int dim = layout.shape.k_dim;
  if (layout.block_tokens != kBlockOfTile || layout.k_format != layout.v_format) return false;
  if (layout.shape.v_dim != dim || (dim != 64 && dim != 128) || view.page_bytes % 16 != 0) return false;
  if (layout.k_format == KvFormat::kBF16) {
    dim == 64 ? launch<HalfBF16, 64>(args, stream) : launch<HalfBF16, 128>(args, stream);
    return true;
  }
  if (layout.k_format == KvFormat::kF16) {
    dim == 64 ? launch<HalfF16, 64>(args, stream) : launch<HalfF16, 128>(args, stream);
    return true;
  }
  return false;
}

}  // namespace kvasir::cuda
