// Attention over f16 and bf16 in blocks of 16 tokens on Hopper: as block_attention.cu, but the copy engine brings the
// blocks (boxed_items.cuh). Six warps of a processor have some 100 KB on their way.
#include <algorithm>

#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/boxed_items.cuh"
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/half_kernels.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/span_fold.cuh"

namespace kvasir::cuda {
namespace {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

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

#endif

template <int kDim>
inline constexpr int kWarps = warps_over_boxes(kDim);

template <class Half, int kDim>
__global__ void __launch_bounds__(kWarps<kDim> * 32, 1)
    attend_to_boxes(const AttentionArgs args, const __grid_constant__ BoxedMaps maps) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint4 shared[];
  __shared__ BoxedBarriers barriers[kWarps<kDim>];
  __shared__ SpanRoom<kDim> span_room;
  Order::of_items(args).begin();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  init_barriers(barriers[warp]);
  SpanFold<kDim> spans(span_room);
  using Source = SpanSource<ReservedSource>;
  BoxedCopies<kDim, Source> copies{args, maps, room_for_boxes<BoxedRoom<kDim>>(shared)[warp], barriers[warp],
                                   ItemWalk<Source>(args)};
  attend_to_boxed_items<Half>(copies, [&](const WalkItem& item, const TileRows& rows, Sums<kDim>& sums) {
    if (!args.folds_spans || spans.fold(item.opens, item.closes, sums)) {
      write_part_and_keep<kDim>(rows, item.index, sums);
    }
  });
  Order::of_items(args).end();
#endif
}

template <class Half, int kDim>
void launch(const AttentionArgs& args, Number number, cudaStream_t stream) {
  const auto kernel = attend_to_boxes<Half, kDim>;
  constexpr size_t kRoom = kWarps<kDim> * sizeof(BoxedRoom<kDim>) + kBoxAlignment;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoom),
        "attention's shared memory");
  const int items = args.item_count * args.view.layout.shape.heads;
  const int blocks = std::min(args.processors, items);
  launch_early("attention over boxes", kernel, {dim3(static_cast<unsigned>(blocks)), dim3(kWarps<kDim> * 32), kRoom},
               stream, args, boxed_maps(args.view, number));
}

}  // namespace

bool takes_boxes(const KvView& view) { return usual_blocks(view, kRowBytes) && is_half(view.layout.k_format); }

void boxed_attention(const AttentionArgs& args, cudaStream_t stream) {
  launch_half(args.view.layout,
              [&]<class Half, int kDim>(Number number) { launch<Half, kDim>(args, number, stream); });
}

}  // namespace kvasir::cuda
