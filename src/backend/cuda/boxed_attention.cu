// Attention over f16 and bf16 in blocks of 16 tokens on Hopper: as block_attention.cu, but the copy engine brings the
// blocks. A box is K, or V, of one block and head, and comes with the 128-byte swizzle.
//
// Each warp has room for one tile of keys and one of values; the next ones are on their way into them as soon as they
// were multiplied. Six warps of a processor have then about 100 KB on their way.
#include <algorithm>

#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/boxed_places.cuh"
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/hopper.cuh"
#include "backend/cuda/item_walk.cuh"
#include "backend/cuda/tensor_map.h"

namespace kvasir::cuda {
namespace {

template <int kDim>
struct alignas(1024) WarpRoom {
  static constexpr int kTileBytes = kTileTokens * kDim * 2;
  std::byte k[kTileBytes];
  std::byte v[kTileBytes];
  std::byte q[kTileRows * kDim * 2];
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Of one warp, in shared memory.
struct Barriers {
  std::uint64_t k;
  std::uint64_t v;
};

// What is copied next. The keys and values of one tile are on their way, or there, and those before it were used.
template <int kDim>
struct Copies {
  const AttentionArgs& args;
  const CUtensorMap& map;
  WarpRoom<kDim>& room;
  Barriers& barriers;
  ItemWalk walk;
  int tile = 0;
  WalkItem begun{};  // the last item of which a tile was copied
  int begun_head = 0;

  static constexpr int kBlockBytes = kBlockOfTile * kDim * 2;

  // A lane for each block of the tile; blocks that are not there leave what lay in their place.
  __device__ void copy_blocks(std::byte* to, std::uint64_t& barrier, std::int64_t offset) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const BlockId id = walk.at().block(tile * kBlocksOfTile + lane % kBlocksOfTile);
    const bool copies = lane < kBlocksOfTile && id != kNoBlock;
    const int count = __popc(__ballot_sync(0xffffffff, copies));
    const std::uint32_t at = hopper::shared_address(&barrier);
    if (lane == 0) hopper::arrive_and_expect(at, static_cast<std::uint32_t>(count * kBlockBytes));
    __syncwarp();
    if (!copies) return;
    const std::int64_t byte = args.view.block_at(id) - args.view.arena + offset;
    hopper::copy_box(hopper::shared_address(to + lane * kBlockBytes), {&map, 0, static_cast<int>(byte / kRowBytes)},
                     at, hopper::kEvictFirst);
  }

  __device__ void next_keys() {
    if (!walk.at().valid()) return;
    if (tile == 0) {
      begun = walk.at();
      begun_head = walk.kv_head();
      copy_queries<kDim>({args, begun.item, begun_head}, shared_address(room.q));
      end_copies();
    }
    copy_blocks(room.k, barriers.k, args.view.layout.k_offset(args.view.layer, begun_head));
  }
  __device__ void next_values() {
    if (!walk.at().valid()) return;
    copy_blocks(room.v, barriers.v, args.view.layout.v_offset(args.view.layer, begun_head));
    if (++tile == walk.at().tiles()) {
      tile = 0;
      walk.advance();
    }
  }
};

// Values that are not there: their weights are 0, but what lies in their place may be no number.
template <int kDim>
__device__ void clear_missing(const WalkItem& of, int tile, std::byte* v) {
  const Position left = of.item.query + of.item.after - of.first_key() - tile * kTileTokens;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const BlockId id = of.block(tile * kBlocksOfTile + lane % kBlocksOfTile);
  const unsigned missing = __ballot_sync(0xffffffff, lane < kBlocksOfTile && id == kNoBlock);
  if (left >= kTileTokens && missing == 0) return;
  for (int token = 0; token < kTileTokens; ++token) {
    if (token < left && (missing >> token / kBlockOfTile & 1U) == 0) continue;
    if (lane < kDim / 8) {
      const int at = token / kBlockOfTile * kDim * 32 + BoxedPlaces<kDim>::v_chunk(token % kBlockOfTile, lane);
      *reinterpret_cast<uint4*>(v + at) = {0, 0, 0, 0};
    }
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // before the copy engine writes there again
  __syncwarp();
}

template <class Half, int kDim>
__device__ void attend_to_items(const AttentionArgs& args, const CUtensorMap& map, WarpRoom<kDim>& room,
                                Barriers& barriers) {
  Copies<kDim> copies{args, map, room, barriers, ItemWalk(args, args.taken)};
  copies.next_keys();
  copies.next_values();
  unsigned parity = 0;
  for (WalkItem now = copies.begun; now.valid();) {
    const TileRows tile_rows{args, now.item, copies.begun_head};
    const RowsOfWarp rows = tile_rows.seen();
    Sums<kDim> sums;
    sums.clear();
    wait_copies<0>();  // of queries; keys and values have barriers
    __syncwarp();
    Queries<kDim> q;
    q.load(shared_address(room.q));
    for (int tile = 0; tile < now.tiles(); ++tile, parity ^= 1U) {
      Scores s;
      hopper::wait(hopper::shared_address(&barriers.k), parity);
      multiply_keys<Half, BoxedPlaces<kDim>, kDim>(q, shared_address(room.k), s);
      __syncwarp();
      copies.next_keys();
      mask(args.view, rows, now.first_key() + tile * kTileTokens, s);
      soften(rows.factor, s, sums);
      hopper::wait(hopper::shared_address(&barriers.v), parity);
      clear_missing<kDim>(now, tile, room.v);
      if (keep_infinities_apart<Half, BoxedPlaces<kDim>>(args.view, rows, now.first_key() + tile * kTileTokens,
                                                         room.v, sums)) {
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // before the copy engine writes there again
      }
      multiply_values<Half, BoxedPlaces<kDim>>(s, shared_address(room.v), sums);
      __syncwarp();
      copies.next_values();
    }
    write_part<kDim>(tile_rows, now.index, sums);
    now = copies.begun.index == now.index ? WalkItem{} : copies.begun;
  }
}

#endif

// As many as have room, in shared memory and in registers.
template <int kDim>
inline constexpr int kWarps = kDim == 64 ? 8 : 6;

template <class Half, int kDim>
__global__ void __launch_bounds__(kWarps<kDim> * 32, 1)
    attend_to_boxes(const AttentionArgs args, const __grid_constant__ CUtensorMap map) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint4 shared[];
  __shared__ Barriers barriers[kWarps<kDim>];
  const std::uint32_t begin = shared_address(shared);
  auto* rooms =
      reinterpret_cast<WarpRoom<kDim>*>(reinterpret_cast<std::byte*>(shared) + (1024 - begin % 1024) % 1024);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  WarpRoom<kDim>& room = rooms[warp];
  for (int i = static_cast<int>(threadIdx.x) % 32; i < static_cast<int>(sizeof room.q) / 16; i += 32) {
    reinterpret_cast<uint4*>(room.q)[i] = {0, 0, 0, 0};
  }
  if (threadIdx.x % 32 == 0) {
    hopper::barrier_init(hopper::shared_address(&barriers[warp].k), 1);
    hopper::barrier_init(hopper::shared_address(&barriers[warp].v), 1);
    hopper::fence_barrier_init();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncwarp();
  attend_to_items<Half, kDim>(args, map, room, barriers[warp]);
#endif
}

template <class Half, int kDim>
void launch(const AttentionArgs& args, Number number, cudaStream_t stream) {
  const auto kernel = attend_to_boxes<Half, kDim>;
  constexpr size_t kRoom = kWarps<kDim> * sizeof(WarpRoom<kDim>) + 1024;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoom),
        "attention's shared memory");
  const int items = args.item_count * args.view.layout.shape.heads;
  const int blocks = std::min(args.processors, items);
  // The arena has an end that nothing here knows: no box lies behind it.
  const CUtensorMap map = make_tensor_map(
      {args.view.arena, kRowBytes / 2, 0x7fffffff, kRowBytes / 2, kBlockOfTile * kDim * 2 / kRowBytes, number});
  kernel<<<static_cast<unsigned>(blocks), kWarps<kDim> * 32, kRoom, stream>>>(args, map);
  check_launch("attention over boxes");
}

}  // namespace

bool boxed_attention(const AttentionArgs& args, cudaStream_t stream) {
  const KvLayout& layout = args.view.layout;
  const int dim = layout.shape.k_dim;
  if (!usual_blocks(args.view, kRowBytes)) return false;
  if (layout.k_format == KvFormat::kBF16) {
    dim == 64 ? launch<HalfBF16, 64>(args, Number::kBF16, stream)
              : launch<HalfBF16, 128>(args, Number::kBF16, stream);
    return true;
  }
  if (layout.k_format == KvFormat::kF16) {
    dim == 64 ? launch<HalfF16, 64>(args, Number::kF16, stream) : launch<HalfF16, 128>(args, Number::kF16, stream);
    return true;
  }
  return false;
}

}  // namespace kvasir::cuda
