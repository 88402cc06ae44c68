// Decode attention over usual f16 and bf16, on any device, at the speed of the memory.
//
// Each warp processes its items alone. It has shared memory for one tile of keys and one of values; cp.async refills
// each as soon as it was multiplied.
#include <algorithm>

#include "backend/cuda/attention/attention_kernels.h"
#include "backend/cuda/attention/decode/work_queue.cuh"
#include "backend/cuda/attention/dispatch.cuh"
#include "backend/cuda/runtime/cuda_check.h"

namespace kvasir::cuda {
namespace {

template <int kDim>
struct WarpSmem {
  static constexpr int kTileBytes = kTileTokens * kDim * 2;
  std::byte k[kTileBytes];
  std::byte v[kTileBytes];
  std::byte q[kTileRows * kDim * 2];
};

// As many warps as fit into shared memory, an A100's too.
template <int kDim>
inline constexpr int kWarps = kDim == 64 ? 8 : 4;

template <int kDim>
__device__ void copy_keys(const AttentionArgs& args, const WarpItem& of, int kv_head, int tile,
                          WarpSmem<kDim>& smem) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint32_t to = shared_address(smem.k);
#pragma unroll
  for (int block = 0; block < kBlocksOfTile; ++block) {
    const BlockId id = of.block(tile * kBlocksOfTile + block);
    const std::byte* from = id == kNoBlock ? args.view.arena : args.view.k_head(id, kv_head);
    const int bytes = id == kNoBlock ? 0 : 16;
#pragma unroll
    for (int i = 0; i < kDim * 2 / 32; ++i) {
      const int vec = i * 32 + lane;
      copy_async(to + block * kDim * 32 + SmemLayout<kDim>::k_vec(vec / 2, vec % 2), from + vec * 16, bytes);
    }
  }
}

// Rows after the sequence's end become zeros: their weights are 0, but unwritten memory may hold NaN.
template <int kDim>
__device__ void copy_values(const AttentionArgs& args, const WarpItem& of, int kv_head, int tile,
                            WarpSmem<kDim>& smem) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint32_t to = shared_address(smem.v);
  constexpr int kVecsOfRow = kDim / 8;
  const Position left = of.item.query + of.item.after - of.first_key() - tile * kTileTokens;
#pragma unroll
  for (int block = 0; block < kBlocksOfTile; ++block) {
    const BlockId id = of.block(tile * kBlocksOfTile + block);
    const std::byte* from = id == kNoBlock ? args.view.arena : args.view.v_head(id, kv_head);
    const int rows = id == kNoBlock ? 0 : static_cast<int>(min(left - block * kBlockOfTile, Position{kBlockOfTile}));
#pragma unroll
    for (int i = 0; i < kDim * 2 / 32; ++i) {
      const int vec = i * 32 + lane;
      const int row = vec / kVecsOfRow;
      copy_async(to + block * kDim * 32 + SmemLayout<kDim>::v_vec(row, vec % kVecsOfRow), from + vec * 16,
                 row < rows ? 16 : 0);
    }
  }
}

// Issues the copies. One tile of keys and values is in flight or unused.
template <int kDim>
struct Copies {
  const AttentionArgs& args;
  WarpSmem<kDim>& smem;
  ItemPrefetcher<TicketSource> items;
  int tile = 0;        // the next tile of items.at()
  WarpItem current{};  // the item of the last copied tile
  int current_head = 0;

  __device__ void next_keys() {
    if (items.at().valid()) {
      if (tile == 0) {
        current = items.at();
        current_head = items.kv_head();
        copy_queries<kDim>({args, current.item, current_head}, shared_address(smem.q));
      }
      copy_keys<kDim>(args, items.at(), current_head, tile, smem);
    }
    end_copies();
  }
  __device__ void next_values() {
    if (items.at().valid()) {
      copy_values<kDim>(args, items.at(), current_head, tile, smem);
      if (++tile == items.at().tiles()) {
        tile = 0;
        items.advance();
      }
    }
    end_copies();
  }
};

template <class Half, int kDim>
__global__ void __launch_bounds__(kWarps<kDim> * 32, 1) attend_cp_async(const AttentionArgs args) {
  extern __shared__ uint4 shared[];
  WarpSmem<kDim>& smem = reinterpret_cast<WarpSmem<kDim>*>(shared)[threadIdx.x / 32];
  for (int i = static_cast<int>(threadIdx.x) % 32; i < static_cast<int>(sizeof smem.q) / 16; i += 32) {
    reinterpret_cast<uint4*>(smem.q)[i] = {0, 0, 0, 0};
  }
  __syncwarp();
  Copies<kDim> copies{args, smem, ItemPrefetcher<TicketSource>(args)};
  copies.items.begin();
  copies.next_keys();
  copies.next_values();
  for (WarpItem now = copies.current; now.valid();) {
    const TileRows tile_rows{args, now.item, copies.current_head};
    const RowsOfWarp rows = tile_rows.seen();
    Sums<kDim> sums;
    sums.clear();
    wait_copies<1>();  // the queries come with the first keys
    __syncwarp();
    Queries<kDim> q;
    q.load(shared_address(smem.q));
    for (int tile = 0; tile < now.tiles(); ++tile) {
      Scores s;
      wait_copies<1>();
      __syncwarp();
      multiply_keys<Half, SmemLayout<kDim>, kDim>(q, shared_address(smem.k), s);
      __syncwarp();
      copies.next_keys();
      mask(args.view, rows, now.first_key() + tile * kTileTokens, s);
      soften(rows.factor, s, sums);
      wait_copies<1>();
      __syncwarp();
      keep_infinities_apart<Half, SmemLayout<kDim>>(args.view, rows, now.first_key() + tile * kTileTokens, smem.v,
                                                    sums);
      multiply_values<Half, SmemLayout<kDim>>(s, shared_address(smem.v), sums);
      __syncwarp();
      copies.next_values();
    }
    write_partial<kDim>(tile_rows, now.index, sums);
    now = copies.current.index == now.index ? WarpItem{} : copies.current;
  }
}

template <class Half, int kDim>
void launch(const AttentionArgs& args, cudaStream_t stream) {
  const auto kernel = attend_cp_async<Half, kDim>;
  constexpr size_t kSmemBytes = kWarps<kDim> * sizeof(WarpSmem<kDim>);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSmemBytes),
        "attention's shared memory");
  const int items = args.item_count * args.view.layout.shape.heads;
  const int ctas = std::min(args.sm_count, items);
  kernel<<<static_cast<unsigned>(ctas), kWarps<kDim> * 32, kSmemBytes, stream>>>(args);
  check_launch("cp_async attention");
}

}  // namespace

bool cp_async_attention(const AttentionArgs& args, cudaStream_t stream) {
  if (!usual_blocks(args.view, 16) || !is_half(args.view.layout.k_format)) return false;
  launch_half(args.view.layout, [&]<class Half, int kDim>(Number) { launch<Half, kDim>(args, stream); });
  return true;
}

}  // namespace kvasir::cuda
