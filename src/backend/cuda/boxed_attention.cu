// Attention over f16 and bf16 in blocks of 16 tokens on Hopper: as block_attention.cu, but the copy engine brings the
// blocks. A box is K, or V, of one block and head, and comes with the 128-byte swizzle.
//
// Each warp has room for one tile of keys and one of values; the next ones are on their way into them as soon as they
// were multiplied. Six warps of a processor have then some 100 KB on their way. Queries are read as they came,
// straight into registers.
#include <algorithm>

#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/boxed_tiles.cuh"
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/half_kernels.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/span_fold.cuh"

namespace kvasir::cuda {
namespace {

template <int kDim>
struct alignas(kBoxAlignment) WarpRoom {
  static constexpr int kTileBytes = kTileTokens * kDim * 2;
  std::byte k[kTileBytes];
  std::byte v[kTileBytes];
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
  ItemWalk<SpanSource> walk;
  int tile = 0;
  WalkItem begun{};  // the last item of which a tile was copied
  int begun_head = 0;

  __device__ void next_keys() {
    if (!walk.at().valid()) return;
    if (tile == 0) {
      begun = walk.at();
      begun_head = walk.kv_head();
    }
    const std::int64_t offset = args.view.layout.k_offset(args.view.layer, begun_head);
    copy_blocks<kDim>({args.view, map, walk.at(), tile}, offset, room.k, barriers.k);
  }
  __device__ void next_values() {
    if (!walk.at().valid()) return;
    const std::int64_t offset = args.view.layout.v_offset(args.view.layer, begun_head);
    copy_blocks<kDim>({args.view, map, walk.at(), tile}, offset, room.v, barriers.v);
    if (++tile == walk.at().tiles()) {
      tile = 0;
      walk.advance();
    }
  }
};

// As write_part(), and the second-level cache is asked to keep the sums until they are merged: else they would make
// way for keys and values.
template <int kDim>
__device__ void write_part_and_keep(const TileRows& rows, std::int64_t index, const Sums<kDim>& sums) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = lane_pair() * 2 + i;
    if (row >= rows.count()) continue;
    const std::int64_t at = index * kTileRows + row;
    float* to = rows.args.part_out + at * rows.args.v_stride + lane_group();
#pragma unroll
    for (int j = 0; j < kDim / 8; ++j) hopper::store_and_keep(to + j * 8, sums.o[j / 2][j % 2 * 2 + i]);
    if (lane_group() == 0) rows.args.part_states[at] = {sums.m[i], sums.d[i]};
  }
}

template <class Half, int kDim>
__device__ void attend_to_items(Copies<kDim>& copies, SpanFold<kDim>& spans) {
  const AttentionArgs& args = copies.args;
  WarpRoom<kDim>& room = copies.room;
  Barriers& barriers = copies.barriers;
  Order::of_items(args).wait_for_rows();
  copies.walk.begin();
  copies.next_keys();
  copies.next_values();
  unsigned parity = 0;
  for (WalkItem now = copies.begun; now.valid();) {
    const TileRows tile_rows{args, now.item, copies.begun_head};
    const RowsOfWarp rows = tile_rows.seen();
    Sums<kDim> sums;
    sums.clear();
    Queries<kDim> q;
    load_queries<Half>(tile_rows, q);
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
    if (!args.folds_spans || spans.fold(now.opens, now.closes, sums)) {
      write_part_and_keep<kDim>(tile_rows, now.index, sums);
    }
    now = copies.begun.index == now.index ? WalkItem{} : copies.begun;
  }
}

#endif

// 8 have room in shared memory and in registers, or 7 of heads of 128. Six are no slower with many splits, and end
// sooner together with few.
template <int kDim>
inline constexpr int kWarps = kDim == 64 ? 8 : 6;

template <class Half, int kDim>
__global__ void __launch_bounds__(kWarps<kDim> * 32, 1)
    attend_to_boxes(const AttentionArgs args, const __grid_constant__ CUtensorMap map) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint4 shared[];
  __shared__ Barriers barriers[kWarps<kDim>];
  __shared__ SpanRoom<kDim> span_room;
  Order::of_items(args).begin();
  auto* rooms = room_for_boxes<WarpRoom<kDim>>(shared);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  WarpRoom<kDim>& room = rooms[warp];
  if (threadIdx.x % 32 == 0) {
    hopper::barrier_init(hopper::shared_address(&barriers[warp].k), 1);
    hopper::barrier_init(hopper::shared_address(&barriers[warp].v), 1);
    hopper::fence_barrier_init();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  SpanFold<kDim> spans(span_room);
  Copies<kDim> copies{args, map, room, barriers[warp], ItemWalk<SpanSource>(args)};
  attend_to_items<Half, kDim>(copies, spans);
  Order::of_items(args).end();
#endif
}

template <class Half, int kDim>
void launch(const AttentionArgs& args, Number number, cudaStream_t stream) {
  const auto kernel = attend_to_boxes<Half, kDim>;
  constexpr size_t kRoom = kWarps<kDim> * sizeof(WarpRoom<kDim>) + kBoxAlignment;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoom),
        "attention's shared memory");
  const int items = args.item_count * args.view.layout.shape.heads;
  const int blocks = std::min(args.processors, items);
  launch_early("attention over boxes", kernel, {dim3(static_cast<unsigned>(blocks)), dim3(kWarps<kDim> * 32), kRoom},
               stream, args, map_of_boxes(args.view, number));
}

}  // namespace

bool takes_boxes(const KvView& view) { return usual_blocks(view, kRowBytes) && is_half(view.layout.k_format); }

void boxed_attention(const AttentionArgs& args, cudaStream_t stream) {
  launch_half(args.view.layout,
              [&]<class Half, int kDim>(Number number) { launch<Half, kDim>(args, number, stream); });
}

}  // namespace kvasir::cuda
