// Attention over f16 and bf16 in blocks of 16 tokens on Hopper, where whole rows keep all processors equally busy: as
// boxed_attention.cu, but thread blocks finish their rows themselves (row_fold.cuh).
#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/boxed_items.cuh"
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/half_kernels.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/row_fold.cuh"

namespace kvasir::cuda {
namespace {

// A span each. Rows of 2,048, 4,096 or 8,192 tokens, as many as there are processors or twice or four times as many,
// leave none of four idle.
constexpr int kWarps = kWarpsOfRows;

template <int kDim>
struct Room {
  BoxedRoom<kDim> tiles[kWarps];
  RowRoom<kDim, kWarps> rows;
  BoxedBarriers barriers[kWarps];
};

template <class Half, int kDim>
__global__ void __launch_bounds__(kWarps * 32, 1)
    attend_to_rows(const AttentionArgs args, const __grid_constant__ BoxedMaps maps) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint4 shared[];
  Order::of_items(args).begin();
  hopper::fetch_map(&maps.k);
  hopper::fetch_map(&maps.v);
  Room<kDim>& room = *room_for_boxes<Room<kDim>>(shared);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  init_barriers(room.barriers[warp]);
  RowFold<kDim, kWarps> rows_of_block(room.rows);
  BoxedCopies<kDim, RowWalk> copies{args, maps, room.tiles[warp], room.barriers[warp], ItemWalk<RowWalk>(args)};
  attend_to_boxed_items<Half>(copies, [&](const RowItem& item, const TileRows& rows, Sums<kDim>& sums) {
    if (rows_of_block.fold(item, sums)) finish_boxed_tile(rows, sums);
  });
  Order::of_items(args).end();
#endif
}

template <class Half, int kDim>
void launch(const AttentionArgs& args, Number number, cudaStream_t stream) {
  const auto kernel = attend_to_rows<Half, kDim>;
  constexpr size_t kRoom = sizeof(Room<kDim>) + kBoxAlignment;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoom),
        "attention's shared memory");
  launch_early("attention to rows", kernel, {dim3(static_cast<unsigned>(args.processors)), dim3(kWarps * 32), kRoom},
               stream, args, boxed_maps(args.view, number));
}

}  // namespace

void row_attention(const AttentionArgs& args, cudaStream_t stream) {
  launch_half(args.view.layout,
              [&]<class Half, int kDim>(Number number) { launch<Half, kDim>(args, number, stream); });
}

}  // namespace kvasir::cuda
