// Attention over keys and values of any format, block size and head size, on tensor cores: the kernel that every
// faster one gives the same bits as.
#include <algorithm>

#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/kv_tile.cuh"
#include "backend/cuda/tile_rows.cuh"

namespace kvasir::cuda {
namespace {

template <int kDim>
struct Room {
  std::uint16_t q[kTileRows * kDim];
  std::uint16_t k[kTileTokens * kDim];
  std::uint16_t v[kTileTokens * kDim];
  float k_scales[kTileTokens];
  float v_scales[kTileTokens];
};

// By its token of each block.
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
__device__ void attend_to_split(const KvView& view, const RowsOfWarp& rows, KeyRange keys, Room<kDim>& room,
                                Sums<kDim>& sums) {
  sums.clear();
  const Position end_of_split = keys.first + kSplitTokens;
  Queries<kDim> q;
  __syncwarp();
  q.load(shared_address(room.q));
  for (; keys.first < end_of_split && keys.first <= rows.last; keys.first += kTileTokens) {
    __syncwarp();
    load_rows<Side::kKeys, KHalf, kDim>(view, keys, room.k, room.k_scales);
    load_rows<Side::kValues, VHalf, kDim>(view, keys, room.v, room.v_scales);
    __syncwarp();
    Scores s;
    multiply_keys<KHalf, WovenPlaces<kDim>, kDim>(q, shared_address(room.k), s);
    if (view.layout.k_scale_bytes > 0) scale(room.k_scales, s);
    mask(view, rows, keys.first, s);
    soften(rows.factor, s, sums);
    if (view.layout.v_scale_bytes == 0) {
      keep_infinities_apart<VHalf, WovenPlaces<kDim>>(view, rows, keys.first, reinterpret_cast<std::byte*>(room.v),
                                                      sums);
      multiply_values<VHalf, WovenPlaces<kDim>>(s, shared_address(room.v), sums);
      continue;
    }
#pragma unroll
    for (int block = 0; block < kBlocksOfTile; ++block) {
      add_weights<VHalf>(turned_over<VHalf>(s[block]), sums);
    }
    scale(room.v_scales, s);
#pragma unroll
    for (int block = 0; block < kBlocksOfTile; ++block) {
      add_values<VHalf, WovenPlaces<kDim>>(turned_over<VHalf>(s[block]),
                                           shared_address(room.v + block * kDim * kBlockOfTile), sums);
    }
  }
}

// A warp for each item and KV head.
template <class KHalf, class VHalf, int kDim>
__global__ void attend_to_splits(const AttentionArgs args) {
  extern __shared__ uint4 shared[];
  Room<kDim>& room = *reinterpret_cast<Room<kDim>*>(shared);
  const AttentionItem item = args.items[blockIdx.x];
  const TileRows rows{args, item, static_cast<int>(blockIdx.y)};
  load_queries<kDim>(rows, reinterpret_cast<std::byte*>(room.q));
  const KeyRange keys{item.blocks, static_cast<Position>(item.first_key) * kSplitTokens, item.query + item.after,
                      rows.kv_head};
  Sums<kDim> sums;
  attend_to_split<KHalf, VHalf, kDim>(args.view, rows.seen(), keys, room, sums);
  write_part<kDim>(rows, static_cast<std::int64_t>(blockIdx.x) * gridDim.y + rows.kv_head, sums);
}

template <class KHalf, class VHalf, int kDim>
void launch(const AttentionArgs& args, cudaStream_t stream) {
  const auto kernel = attend_to_splits<KHalf, VHalf, kDim>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Room<kDim>)),
        "attention's shared memory");
  const dim3 grid(static_cast<unsigned>(args.item_count), static_cast<unsigned>(args.view.layout.shape.heads));
  kernel<<<grid, 32, sizeof(Room<kDim>), stream>>>(args);
  check_launch("attention");
}

template <class KHalf, class VHalf>
void launch(const AttentionArgs& args, cudaStream_t stream) {
  const int dim = std::max(args.view.layout.shape.k_dim, args.view.layout.shape.v_dim);
  if (dim <= 64) return launch<KHalf, VHalf, 64>(args, stream);
  if (dim <= 128) return launch<KHalf, VHalf, 128>(args, stream);
  return launch<KHalf, VHalf, 256>(args, stream);
}

}  // namespace

void tile_attention(const AttentionArgs& args, cudaStream_t stream) {
  const bool k_bf16 = multiplies_bf16_keys(args.view.layout.k_format);
  const bool v_bf16 = multiplies_bf16_values(args.view.layout.v_format);
  if (k_bf16) return v_bf16 ? launch<HalfBF16, HalfBF16>(args, stream) : launch<HalfBF16, HalfF16>(args, stream);
  return v_bf16 ? launch<HalfF16, HalfBF16>(args, stream) : launch<HalfF16, HalfF16>(args, stream);
}

}  // namespace kvasir::cuda
