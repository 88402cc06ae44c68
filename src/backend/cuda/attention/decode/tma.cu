// Decode attention over usual f16 and bf16 on Hopper: as cp_async.cu, but by TMA (tma_items.cuh). Six warps an SM
// have some 100 KB in flight.
#include <algorithm>

#include "backend/cuda/attention/attention_kernels.h"
#include "backend/cuda/attention/decode/reduce_chunk_group.cuh"
#include "backend/cuda/attention/decode/tma_items.cuh"
#include "backend/cuda/attention/dispatch.cuh"
#include "backend/cuda/runtime/cuda_check.h"
#include "backend/cuda/runtime/pdl_launch.h"

namespace kvasir::cuda {
namespace {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// write_partial() with stores that L2 keeps until the merge; else keys and values would evict them.
template <int kDim>
__device__ void write_partial_evict_last(const TileRows& rows, std::int64_t index, const Sums<kDim>& sums) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = lane_pair() * 2 + i;
    if (row >= rows.count()) continue;
    const std::int64_t at = index * kTileRows + row;
    float* to = rows.args.partial_out + at * rows.args.v_stride + lane_group();
#pragma unroll
    for (int j = 0; j < kDim / 8; ++j) hopper::store_evict_last(to + j * 8, sums.o[j / 2][j % 2 * 2 + i]);
    if (lane_group() == 0) rows.args.partial_states[at] = {sums.m[i], sums.d[i]};
  }
}

#endif

template <int kDim>
inline constexpr int kWarps = warps_of_tma(kDim);

template <class Half, int kDim>
__global__ void __launch_bounds__(kWarps<kDim> * 32, 1)
    attend_tma(const AttentionArgs args, const __grid_constant__ TmaMaps maps) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint4 shared[];
  __shared__ TmaBarriers barriers[kWarps<kDim>];
  __shared__ GroupMergeSmem<kDim> merge_smem;
  PdlOrder::of_items(args).begin();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  init_barriers(barriers[warp]);
  GroupMerge<kDim> chunk_groups(merge_smem);
  using Source = GroupSource<ReservedSource>;
  TmaCopies<kDim, Source> copies{args, maps, align_smem<TmaSmem<kDim>>(shared)[warp], barriers[warp],
                                 ItemPrefetcher<Source>(args)};
  attend_tma_items<Half>(copies, [&](const WarpItem& item, const TileRows& rows, Sums<kDim>& sums) {
    if (!args.merges_chunk_groups || chunk_groups.merge(item.first_of_group, item.last_of_group, sums)) {
      write_partial_evict_last<kDim>(rows, item.index, sums);
    }
  });
  PdlOrder::of_items(args).end();
#endif
}

template <class Half, int kDim>
void launch(const AttentionArgs& args, Number number, cudaStream_t stream) {
  const auto kernel = attend_tma<Half, kDim>;
  constexpr size_t kSmemBytes = kWarps<kDim> * sizeof(TmaSmem<kDim>) + kBoxAlignment;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSmemBytes),
        "attention's shared memory");
  const int items = args.item_count * args.view.layout.shape.heads;
  const int ctas = std::min(args.sm_count, items);
  launch_pdl("tma attention", kernel, {dim3(static_cast<unsigned>(ctas)), dim3(kWarps<kDim> * 32), kSmemBytes},
             stream, args, tma_maps(args.view, number));
}

}  // namespace

bool supports_tma(const KvView& view) { return usual_blocks(view, kRowBytes) && is_half(view.layout.k_format); }

void tma_attention(const AttentionArgs& args, cudaStream_t stream) {
  launch_half(args.view.layout,
              [&]<class Half, int kDim>(Number number) { launch<Half, kDim>(args, number, stream); });
}

}  // namespace kvasir::cuda
