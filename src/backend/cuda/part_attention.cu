// Attention over f16 and bf16 in blocks of 16 tokens on Hopper, where there are few rows for each processor: as
// row_attention.cu, but all warps of a thread block share a row, or those of a cluster of two (part_fold.cuh).
#include <algorithm>

#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/boxed_items.cuh"
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/half_kernels.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/part_fold.cuh"

namespace kvasir::cuda {
namespace {

constexpr int kWarps = 4;  // the splits of a span are a multiple of it

template <int kDim>
struct Room {
  BoxedRoom<kDim> tiles[kWarps];
  PartRoom<kDim> part;
  BoxedBarriers barriers[kWarps];
};

template <class Half, int kDim>
__global__ void __launch_bounds__(kWarps * 32, 1)
    attend_to_parts(const AttentionArgs args, const __grid_constant__ BoxedMaps maps) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint4 shared[];
  Order::of_items(args).begin();
  hopper::fetch_map(&maps.k);
  hopper::fetch_map(&maps.v);
  Room<kDim>& room = *room_for_boxes<Room<kDim>>(shared);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  init_barriers(room.barriers[warp]);
  PartFold<kDim> part(room.part);
  BoxedCopies<kDim, PartWalk> copies{args, maps, room.tiles[warp], room.barriers[warp], ItemWalk<PartWalk>(args)};
  part.begin();
  attend_to_boxed_items<Half>(copies, [&](const PartItem& item, const TileRows& rows, Sums<kDim>& sums) {
    if (part.fold(item, sums)) finish_boxed_tile(rows, sums);
  });
  Order::of_items(args).end();
#endif
}

template <class Half, int kDim>
void launch(const AttentionArgs& args, Number number, cudaStream_t stream) {
  const auto kernel = attend_to_parts<Half, kDim>;
  constexpr size_t kRoom = sizeof(Room<kDim>) + kBoxAlignment;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoom),
        "attention's shared memory");
  const int rows = args.tile_count * args.view.layout.shape.heads;
  const auto blocks = static_cast<unsigned>(std::min(args.processors, rows * args.blocks_of_row));
  launch_early("attention to parts of rows", kernel,
               {dim3(blocks), dim3(kWarps * 32), kRoom, static_cast<unsigned>(args.blocks_of_row)}, stream, args,
               boxed_maps(args.view, number));
}

}  // namespace

void part_attention(const AttentionArgs& args, cudaStream_t stream) {
  launch_half(args.view.layout,
              [&]<class Half, int kDim>(Number number) { launch<Half, kDim>(args, number, stream); });
}

}  // namespace kvasir::cuda
