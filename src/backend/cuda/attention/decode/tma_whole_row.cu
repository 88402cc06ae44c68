// Decode attention over usual f16 and bf16 on Hopper, if whole rows keep all SMs equally busy: as tma.cu, but CTAs
// merge and write rows themselves. A CTA has rows of its own (reduce_row.cuh), or a cluster shares one
// (reduce_cluster.cuh).
#include "backend/cuda/attention/attention_kernels.h"
#include "backend/cuda/attention/decode/reduce_cluster.cuh"
#include "backend/cuda/attention/decode/reduce_row.cuh"
#include "backend/cuda/attention/decode/tma_items.cuh"
#include "backend/cuda/attention/dispatch.cuh"
#include "backend/cuda/runtime/cuda_check.h"
#include "backend/cuda/runtime/pdl_launch.h"

namespace kvasir::cuda {
namespace {

// Four warps suit rows of 2,048, 4,096 or 8,192 tokens, one, two or four an SM: they have groups enough, and the
// chunks of a cluster's CTA are a multiple of four.
constexpr int kWarps = kWarpsOfRows;

// MergeSmem: RowMergeSmem or ClusterMergeSmem.
template <int kDim, class MergeSmem>
struct Smem {
  TmaSmem<kDim> tiles[kWarps];
  MergeSmem sums;
  TmaBarriers barriers[kWarps];
};

template <class Half, int kDim, class MergeSmem>
__global__ void __launch_bounds__(kWarps * 32, 1)
    attend_whole_rows(const AttentionArgs args, const __grid_constant__ TmaMaps maps) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint4 shared[];
  PdlOrder::of_items(args).begin();
  hopper::prefetch_tensor_map(&maps.k);
  hopper::prefetch_tensor_map(&maps.v);
  auto& smem = *align_smem<Smem<kDim, MergeSmem>>(shared);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  init_barriers(smem.barriers[warp]);
  using Merge = typename MergeIn<MergeSmem>::Merge;
  using Scheduler = typename MergeIn<MergeSmem>::Scheduler;
  Merge merge(smem.sums);
  TmaCopies<kDim, Scheduler> copies{args, maps, smem.tiles[warp], smem.barriers[warp],
                                    ItemPrefetcher<Scheduler>(args)};
  merge.begin();
  attend_tma_items<Half>(copies, [&](const typename Scheduler::Item& item, const TileRows& rows, Sums<kDim>& sums) {
    if (merge.merge(item, sums)) tma_tile_epilogue(rows, sums);
  });
  PdlOrder::of_items(args).end();
#endif
}

template <class Half, int kDim, class MergeSmem>
void launch(const AttentionArgs& args, Number number, int ctas, cudaStream_t stream) {
  const auto kernel = attend_whole_rows<Half, kDim, MergeSmem>;
  constexpr size_t kSmemBytes = sizeof(Smem<kDim, MergeSmem>) + kBoxAlignment;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSmemBytes),
        "attention's shared memory");
  launch_pdl(
      "tma whole-row attention", kernel,
      {dim3(static_cast<unsigned>(ctas)), dim3(kWarps * 32), kSmemBytes, static_cast<unsigned>(args.ctas_per_row)},
      stream, args, tma_maps(args.view, number));
}

}  // namespace

void whole_row_attention(const AttentionArgs& args, cudaStream_t stream) {
  launch_half(args.view.layout, [&]<class Half, int kDim>(Number number) {
    if (args.ctas_per_row == 1) {
      return launch<Half, kDim, RowMergeSmem<kDim, kWarps>>(args, number, args.sm_count, stream);
    }
    const int rows = args.tile_count * args.view.layout.shape.heads;
    launch<Half, kDim, ClusterMergeSmem<kDim>>(args, number, rows * args.ctas_per_row, stream);
  });
}

}  // namespace kvasir::cuda
