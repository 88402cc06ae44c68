// Attention over f16 and bf16 in blocks of 16 tokens on Hopper, where rows that are taken whole keep all processors
// equally busy: as boxed_attention.cu, but thread blocks finish rows themselves. Each has rows of its own (row_fold.cuh),
// or those of a cluster share one (part_fold.cuh).
#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/boxed_items.cuh"
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/half_kernels.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/part_fold.cuh"
#include "backend/cuda/row_fold.cuh"

namespace kvasir::cuda {
namespace {

// Rows of 2,048, 4,096 or 8,192 tokens, as many as there are processors or twice or four times as many, have spans
// enough for four, and the splits of a part are a multiple of it.
constexpr int kWarps = kWarpsOfRows;

// SumsRoom: RowRoom or PartRoom.
template <int kDim, class SumsRoom>
struct Room {
  BoxedRoom<kDim> tiles[kWarps];
  SumsRoom sums;
  BoxedBarriers barriers[kWarps];
};

template <class Half, int kDim, class SumsRoom>
__global__ void __launch_bounds__(kWarps * 32, 1)
    attend_to_rows(const AttentionArgs args, const __grid_constant__ BoxedMaps maps) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint4 shared[];
  Order::of_items(args).begin();
  hopper::fetch_map(&maps.k);
  hopper::fetch_map(&maps.v);
  auto& room = *room_for_boxes<Room<kDim, SumsRoom>>(shared);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  init_barriers(room.barriers[warp]);
  using Fold = typename FoldIn<SumsRoom>::Fold;
  using Walk = typename FoldIn<SumsRoom>::Walk;
  Fold fold(room.sums);
  BoxedCopies<kDim, Walk> copies{args, maps, room.tiles[warp], room.barriers[warp], ItemWalk<Walk>(args)};
  fold.begin();
  attend_to_boxed_items<Half>(copies, [&](const typename Walk::Item& item, const TileRows& rows, Sums<kDim>& sums) {
    if (fold.fold(item, sums)) finish_boxed_tile(rows, sums);
  });
  Order::of_items(args).end();
#endif
}

template <class Half, int kDim, class SumsRoom>
void launch(const AttentionArgs& args, Number number, int blocks, cudaStream_t stream) {
  const auto kernel = attend_to_rows<Half, kDim, SumsRoom>;
  constexpr size_t kRoom = sizeof(Room<kDim, SumsRoom>) + kBoxAlignment;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoom),
        "attention's shared memory");
  launch_early("attention to rows", kernel,
               {dim3(static_cast<unsigned>(blocks)), dim3(kWarps * 32), kRoom,
                static_cast<unsigned>(args.blocks_of_row)},
               stream, args, boxed_maps(args.view, number));
}

}  // namespace

void row_attention(const AttentionArgs& args, cudaStream_t stream) {
  launch_half(args.view.layout, [&]<class Half, int kDim>(Number number) {
    if (args.blocks_of_row == 1) {
      return launch<Half, kDim, RowRoom<kDim, kWarps>>(args, number, args.processors, stream);
    }
    const int rows = args.tile_count * args.view.layout.shape.heads;
    launch<Half, kDim, PartRoom<kDim>>(args, number, rows * args.blocks_of_row, stream);
  });
}

}  // namespace kvasir::cuda
