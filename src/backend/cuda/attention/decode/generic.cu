// Decode attention over any format, block size and head size, on tensor cores. Tests compare the bits of all faster
// kernels with it.
#include <algorithm>

#include "backend/cuda/attention/attention_kernels.h"
#include "backend/cuda/attention/kv_tile.cuh"
#include "backend/cuda/attention/tile_rows.cuh"
#include "backend/cuda/runtime/cuda_check.h"

namespace kvasir::cuda {
namespace {

template <int kDim>
struct Smem {
  std::uint16_t q[kTileRows * kDim];
  std::uint16_t k[kTileTokens * kDim];
  std::uint16_t v[kTileTokens * kDim];
  float k_scales[kTileTokens];
  float v_scales[kTileTokens];
};

// Multiplies scores, or weights, by their tokens' scales.
__device__ void scale(const float* scales, Scores& s) {
#pragma unroll
  for (int block = 0; block < kBlocksOfTile; ++block) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      s[block][i] = __fmul_rn(s[block][i], scales[block * kBlockOfTile + lane_group() + i / 2 * 8]);
    }
  }
}

template <class KHalf, class VHalf, int kDim>
__device__ void attend_chunk(const KvView& view, const RowsOfWarp& rows, KeyRange keys, Smem<kDim>& smem,
                             Sums<kDim>& sums) {
  sums.clear();
  const Position end_of_chunk = keys.first + kChunkTokens;
  Queries<kDim> q;
  __syncwarp();
  q.load(shared_address(smem.q));
  for (; keys.first < end_of_chunk && keys.first <= rows.last; keys.first += kTileTokens) {
    __syncwarp();
    load_rows<Side::kKeys, KHalf, kDim>(view, keys, smem.k, smem.k_scales);
    load_rows<Side::kValues, VHalf, kDim>(view, keys, smem.v, smem.v_scales);
    __syncwarp();
    Scores s;
    multiply_keys<KHalf, SmemLayout<kDim>, kDim>(q, shared_address(smem.k), s);
    if (view.layout.k_scale_bytes > 0) scale(smem.k_scales, s);
    mask(view, rows, keys.first, s);
    soften(rows.factor, s, sums);
    if (view.layout.v_scale_bytes == 0) {
      keep_infinities_apart<VHalf, SmemLayout<kDim>>(view, rows, keys.first, reinterpret_cast<std::byte*>(smem.v),
                                                     sums);
      multiply_values<VHalf, SmemLayout<kDim>>(s, shared_address(smem.v), sums);
      continue;
    }
#pragma unroll
    for (int block = 0; block < kBlocksOfTile; ++block) {
      add_weights<VHalf>(transposed<VHalf>(s[block]), sums);
    }
    scale(smem.v_scales, s);
#pragma unroll
    for (int block = 0; block < kBlocksOfTile; ++block) {
      add_values<VHalf, SmemLayout<kDim>>(transposed<VHalf>(s[block]),
                                          shared_address(smem.v + block * kDim * kBlockOfTile), sums);
    }
  }
}

// A warp for each item and KV head.
template <class KHalf, class VHalf, int kDim>
__global__ void attend_generic(const AttentionArgs args) {
  extern __shared__ uint4 shared[];
  Smem<kDim>& smem = *reinterpret_cast<Smem<kDim>*>(shared);
  const WorkItem item = args.items[blockIdx.x];
  const TileRows rows{args, item, static_cast<int>(blockIdx.y)};
  load_queries<kDim>(rows, reinterpret_cast<std::byte*>(smem.q));
  const KeyRange keys{item.blocks, static_cast<Position>(item.first_key) * kChunkTokens, item.query + item.after,
                      rows.kv_head, args.paths == nullptr ? nullptr : args.paths + item.row};
  Sums<kDim> sums;
  attend_chunk<KHalf, VHalf, kDim>(args.view, rows.seen(), keys, smem, sums);
  write_partial<kDim>(rows, static_cast<std::int64_t>(blockIdx.x) * gridDim.y + rows.kv_head, sums);
}

template <class KHalf, class VHalf, int kDim>
void launch(const AttentionArgs& args, cudaStream_t stream) {
  const auto kernel = attend_generic<KHalf, VHalf, kDim>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Smem<kDim>)),
        "attention's shared memory");
  const dim3 grid(static_cast<unsigned>(args.item_count), static_cast<unsigned>(args.view.layout.shape.heads));
  kernel<<<grid, 32, sizeof(Smem<kDim>), stream>>>(args);
  check_launch("generic attention");
}

template <class KHalf, class VHalf>
void launch(const AttentionArgs& args, cudaStream_t stream) {
  const int dim = std::max(args.view.layout.shape.k_dim, args.view.layout.shape.v_dim);
  if (dim <= 64) return launch<KHalf, VHalf, 64>(args, stream);
  if (dim <= 128) return launch<KHalf, VHalf, 128>(args, stream);
  return launch<KHalf, VHalf, 256>(args, stream);
}

}  // namespace

void generic_attention(const AttentionArgs& args, cudaStream_t stream) {
  const bool k_bf16 = multiplies_bf16_keys(args.view.layout.k_format);
  const bool v_bf16 = multiplies_bf16_values(args.view.layout.v_format);
  if (k_bf16) return v_bf16 ? launch<HalfBF16, HalfBF16>(args, stream) : launch<HalfBF16, HalfF16>(args, stream);
  return v_bf16 ? launch<HalfF16, HalfBF16>(args, stream) : launch<HalfF16, HalfF16>(args, stream);
}

}  // namespace kvasir::cuda
