// Attention over keys and values of any format, block size and head size, on tensor cores: the kernel that every
// faster one gives the same bits as.
#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/kv_tile.cuh"

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

// Where row `row` of a tile is in the batch; -1: the tile has fewer.
struct RowPlaces {
  const AttentionArgs& args;
  const AttentionTile& tile;
  const SequenceView& sequence;
  int kv_head;

  __device__ bool has(int row) const { return row < tile.tokens * args.heads_of_tile; }
  __device__ int token(int row) const { return tile.first_token + row / args.heads_of_tile; }
  __device__ int head(int row) const {
    return kv_head * args.heads_per_kv + tile.first_head + row % args.heads_of_tile;
  }
  __device__ int batch_row(int row) const { return sequence.first_row + token(row); }
  __device__ std::int64_t state(int row) const {
    return static_cast<std::int64_t>(batch_row(row)) * args.heads_per_kv * args.view.layout.shape.heads + head(row);
  }
};

template <int kDim>
__device__ RowsOfWarp load_queries(const RowPlaces& places, std::uint16_t* to) {
  const AttentionArgs& args = places.args;
  const int lane = threadIdx.x % 32;
  for (int i = lane; i < kTileRows * kDim / 8; i += 32) {
    const int row = i / (kDim / 8);
    const int chunk = i % (kDim / 8);
    uint4 value{0, 0, 0, 0};
    if (places.has(row)) {
      value = reinterpret_cast<const uint4*>(args.q + places.state(row) * args.k_stride)[chunk];
    }
    reinterpret_cast<uint4*>(to)[v_chunk<kDim>(row, chunk)] = value;
  }
  RowsOfWarp out;
  out.first = places.sequence.start + places.tile.first_token;
  out.last = out.first + places.tile.tokens - 1;
  for (int i = 0; i < 2; ++i) {
    const int row = lane / 4 + i * 8;
    const bool has = places.has(row);
    out.query[i] = has ? places.sequence.start + places.token(row) : out.last;
    out.factor[i] = args.scale;
    if (has && args.q_scales != nullptr) out.factor[i] = __fmul_rn(args.scale, args.q_scales[places.state(row)]);
  }
  return out;
}

template <class KHalf, class VHalf, int kDim>
__device__ void attend_to_split(const KvView& view, const RowsOfWarp& rows, KeyRange keys, Room<kDim>& room,
                                Sums<kDim>& sums) {
  sums.clear();
  const Position end_of_split = keys.first + kSplitTokens;
  const bool k_scaled = view.layout.k_scale_bytes > 0;
  const bool v_scaled = view.layout.v_scale_bytes > 0;
  for (; keys.first < end_of_split && keys.first <= rows.last; keys.first += kTileTokens) {
    __syncwarp();
    load_rows<Side::kKeys, KHalf, kDim>(view, keys, room.k, room.k_scales);
    load_rows<Side::kValues, VHalf, kDim>(view, keys, room.v, room.v_scales);
    __syncwarp();
    Scores s;
    multiply_keys<KHalf, kDim>(shared_address(room.q), shared_address(room.k), s);
    scale_and_mask(view, rows, keys.first, k_scaled ? room.k_scales : nullptr, s);
    soften(s, sums);
    if (v_scaled) scale_weights(room.v_scales, s);
    multiply_values<VHalf, kDim>(s, shared_address(room.v), sums);
  }
  sums.end_split();
}

template <int kDim>
__device__ void write_part(const AttentionArgs& args, std::int64_t item, const Sums<kDim>& sums) {
  const int g = threadIdx.x % 32 / 4;
  const int t = threadIdx.x % 4;
  for (int i = 0; i < 2; ++i) {
    const std::int64_t row = item * kTileRows + g + i * 8;
    if (g + i * 8 >= args.heads_of_tile * (kTileRows / args.heads_of_tile)) continue;
    float* to = args.part_out + row * args.v_stride;
#pragma unroll
    for (int tile = 0; tile < kDim / 8; ++tile) {
      if (tile * 8 + t * 2 < args.v_stride) {
        *reinterpret_cast<float2*>(to + tile * 8 + t * 2) = {sums.o[tile][i * 2], sums.o[tile][i * 2 + 1]};
      }
    }
    if (t == 0) args.part_states[row] = {sums.m[i], sums.d[i]};
  }
}

// A warp for each split of each tile and KV head.
template <class KHalf, class VHalf, int kDim>
__global__ void attend_to_splits(const AttentionArgs args) {
  extern __shared__ uint4 shared[];
  Room<kDim>& room = *reinterpret_cast<Room<kDim>*>(shared);
  const int item = args.first_item + static_cast<int>(blockIdx.x);
  int low = 0;
  for (int high = args.tile_count; high - low > 1;) {  // the last tile that begins at or before the item
    const int middle = (low + high) / 2;
    (args.tiles[middle].first_item <= item ? low : high) = middle;
  }
  const AttentionTile tile = args.tiles[low];
  const SequenceView sequence = args.sequences[tile.sequence];
  const RowPlaces places{args, tile, sequence, static_cast<int>(blockIdx.y)};
  const RowsOfWarp rows = load_queries<kDim>(places, room.q);
  const Position first = static_cast<Position>(tile.split_at(item - tile.first_item)) * kSplitTokens;
  Sums<kDim> sums;
  attend_to_split<KHalf, VHalf, kDim>(args.view, rows,
                                      {sequence.blocks, first, sequence.start + sequence.rows, places.kv_head}, room,
                                      sums);
  write_part<kDim>(args, static_cast<std::int64_t>(blockIdx.x) * gridDim.y + places.kv_head, sums);
}

template <class KHalf, class VHalf, int kDim>
void launch(const AttentionArgs& args, cudaStream_t stream) {
  const auto kernel = attend_to_splits<KHalf, VHalf, kDim>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Room<kDim>)),
        "attention's shared memory");
  const dim3 grid(static_cast<unsigned>(args.item_count), static_cast<unsigned>(args.view.layout.shape.heads));
  kernel<<<grid, 32, sizeof(Room<kDim>), stream>>>(args);
  check(cudaGetLastError(), "attention");
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
