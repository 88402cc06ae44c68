// Decode attention over usual f16 and bf16 on Hopper for so few chunks that the latency of one counts: as tma.cu, but
// four warps share a chunk, a tile each.
//
// All tiles are loaded at once. An SM has one chunk, or two, which then have no memory for the last tile's values
// until its keys were multiplied. Each warp multiplies its tile's keys; after exchanging maxima each computes its
// weights. Values are summed over tiles in order, as one warp would, each warp with a quarter of the dimensions.
#include <algorithm>

#include "backend/cuda/attention/attention_kernels.h"
#include "backend/cuda/attention/decode/tma_tiles.cuh"
#include "backend/cuda/attention/dispatch.cuh"
#include "backend/cuda/runtime/cuda_check.h"
#include "backend/cuda/runtime/pdl_launch.h"

namespace kvasir::cuda {
namespace {

constexpr int kChunkWarps = kChunkTokens / kTileTokens;
constexpr int kItemsPerSm = 2;  // beyond, tma.cu has more in flight

// Shared memory of one chunk, of which an SM has kItems.
template <int kDim, int kItems>
struct alignas(kBoxAlignment) ChunkSmem {
  static constexpr int kTileBytes = kTileTokens * kDim * 2;
  static constexpr int kValueSlots = kItems == 1 ? kChunkWarps : kChunkWarps - 1;
  std::byte k[kChunkWarps][kTileBytes];
  std::byte v[kValueSlots][kTileBytes];
  float tops[kChunkWarps][kTileRows];  // the largest scaled score of a tile
  std::uint64_t full_k[kChunkWarps], full_v[kChunkWarps];

  __device__ bool has_value_slot(int tile) const { return tile < kValueSlots; }
  __device__ std::byte* values(int tile) { return has_value_slot(tile) ? v[tile] : k[tile]; }

  // Replaces the first tile's keys after all keys were multiplied; a lane reads what it wrote.
  using Weights = WeightTile[kChunkWarps][kBlocksOfTile][32];
  using AllScores = float4[kChunkWarps][kBlocksOfTile][32];
  static_assert(sizeof(AllScores) <= kTileBytes);
  __device__ Weights& weights() { return *reinterpret_cast<Weights*>(k[0]); }
  __device__ AllScores& scores() { return *reinterpret_cast<AllScores*>(k[0]); }
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <class Half, int kDim, int kItems>
struct ChunkCta {
  using Layout = TmaSmemLayout<kDim>;
  static constexpr int kDimTiles = kDim / 16 / kChunkWarps;  // of a warp

  const AttentionArgs& args;
  const CUtensorMap& map;
  ChunkSmem<kDim, kItems>& smem;
  const WarpItem item;
  int warp;

  __device__ int kv_head() const { return item.index % args.view.layout.shape.heads; }
  // The warp's tile.
  __device__ bool has_tile() const { return warp < item.tiles(); }
  __device__ Position first_key() const { return item.first_key() + warp * kTileTokens; }

  __device__ void copy_keys() const {
    const std::int64_t offset = args.view.layout.k_offset(args.view.layer, kv_head());
    copy_blocks<kDim>({args.view, map, item, warp}, offset, smem.k[warp], smem.full_k[warp]);
  }
  __device__ void copy_values() const {
    const std::int64_t offset = args.view.layout.v_offset(args.view.layer, kv_head());
    copy_blocks<kDim>({args.view, map, item, warp}, offset, smem.values(warp), smem.full_v[warp]);
  }

  // Computes masked scores of this warp's tile. True: it has non-finite values that not all rows see.
  __device__ bool score(const RowsOfWarp& rows, Scores& s) const {
    Queries<kDim> q;
    load_queries<Half>(query_of_thread<kDim>({args, item.item, kv_head()}), q);
    hopper::wait(hopper::shared_address(&smem.full_k[warp]), 0);
    multiply_keys<Half, Layout, kDim>(q, shared_address(smem.k[warp]), s);
    if (!smem.has_value_slot(warp)) {
      __syncwarp();
      copy_values();
    }
    mask(args.view, rows, first_key(), s);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float top = __fmul_rn(top_of(s, i), rows.factor[i]);
      if (lane_group() == 0) smem.tops[warp][lane_pair() * 2 + i] = top;
    }
    hopper::wait(hopper::shared_address(&smem.full_v[warp]), 0);
    clear_missing<kDim>(item, warp, smem.values(warp));
    return !sees_all(args.view, rows, first_key()) && has_infinities<Half, kDim>(smem.values(warp));
  }

  // The maximum after tile `tile`, and the factor of the sums before it.
  __device__ float join(int tile, int i, float m, float& rescale) const {
    const float top = fmaxf(m, smem.tops[tile][lane_pair() * 2 + i]);
    rescale = rescale_to(top, m);
    return top;
  }

  __device__ void weigh(const RowsOfWarp& rows, Scores& s) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float m = -INFINITY;
      float rescale;
      for (int tile = 0; tile <= warp; ++tile) m = join(tile, i, m, rescale);
      to_weights(s, i, rows.factor[i], m);
    }
#pragma unroll
    for (int block = 0; block < kBlocksOfTile; ++block) {
      smem.weights()[warp][block][threadIdx.x % 32] = transposed<Half>(s[block]);
    }
  }

  // Sums this warp's dimensions over all tiles.
  __device__ void sum() const {
    float o[kDimTiles][4] = {};
    float d[4] = {};
    float m[2] = {-INFINITY, -INFINITY};
    for (int tile = 0; tile < item.tiles(); ++tile) {
      float rescale[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) m[i] = join(tile, i, m[i], rescale[i]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        d[i] = __fmul_rn(d[i], rescale[i % 2]);
#pragma unroll
        for (auto& numbers : o) numbers[i] = __fmul_rn(numbers[i], rescale[i % 2]);
      }
#pragma unroll
      for (int block = 0; block < kBlocksOfTile; ++block) {
        const WeightTile weights = smem.weights()[tile][block][threadIdx.x % 32];
        add_to<Half>(weights, d);
        const std::uint32_t v = shared_address(smem.values(tile) + block * kDim * kBlockOfTile * 2);
#pragma unroll
        for (int i = 0; i < kDimTiles; ++i) {
          std::uint32_t a[4];
          load_values<Layout>(v, warp * kDimTiles + i, a);
          Half::multiply(o[i], a, weights.b[0], weights.b[1]);
        }
      }
    }
    write(o, d, m);
  }

  __device__ void write(const float (&o)[kDimTiles][4], const float (&d)[4], const float (&m)[2]) const {
    const TileRows rows{args, item.item, kv_head()};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = lane_pair() * 2 + i;
      if (row >= rows.count()) continue;
      const std::int64_t at = static_cast<std::int64_t>(item.index) * kTileRows + row;
      float* to = args.partial_out + at * args.v_stride + warp * kDimTiles * 16 + lane_group();
#pragma unroll
      for (int j = 0; j < kDimTiles * 2; ++j) to[j * 8] = o[j / 2][j % 2 * 2 + i];
      if (warp == 0 && lane_group() == 0) args.partial_states[at] = {m[i], d[i]};
    }
  }

  __device__ void keep_scores(const Scores& s) const {
#pragma unroll
    for (int block = 0; block < kBlocksOfTile; ++block) {
      smem.scores()[warp][block][threadIdx.x % 32] = {s[block][0], s[block][1], s[block][2], s[block][3]};
    }
  }
  // Sums all tiles by one warp, if values are non-finite.
  __device__ void sum_alone(const RowsOfWarp& rows) const {
    Sums<kDim> sums;
    sums.clear();
    for (int tile = 0; tile < item.tiles(); ++tile) {
      Scores s;
#pragma unroll
      for (int block = 0; block < kBlocksOfTile; ++block) {
        const float4 four = smem.scores()[tile][block][threadIdx.x % 32];
        s[block][0] = four.x, s[block][1] = four.y, s[block][2] = four.z, s[block][3] = four.w;
      }
      soften(rows.factor, s, sums);
      keep_infinities_apart<Half, Layout>(args.view, rows, item.first_key() + tile * kTileTokens, smem.values(tile),
                                          sums);
      multiply_values<Half, Layout>(s, shared_address(smem.values(tile)), sums);
    }
    write_partial<kDim>(TileRows{args, item.item, kv_head()}, item.index, sums);
  }

  // Loads all that there is memory for; before pdl_wait() if no predecessor writes it.
  __device__ void begin() const {
    if (!has_tile()) return;
    copy_keys();
    if (smem.has_value_slot(warp)) copy_values();
  }
  __device__ bool loads_before_pdl_wait() const {
    return args.loads_before_pdl_wait && first_key() + kTileTokens <= item.item.query;
  }

  __device__ void run() const {
    const RowsOfWarp rows = TileRows{args, item.item, kv_head()}.seen();
    Scores s;
    const bool infinite = has_tile() && score(rows, s);
    if (__syncthreads_or(static_cast<int>(infinite)) != 0) {
      if (has_tile()) keep_scores(s);
      __syncthreads();
      if (warp == 0) sum_alone(rows);
    } else {
      if (has_tile()) weigh(rows, s);
      __syncthreads();
      sum();
    }
  }
};

#endif

// A CTA for each item and KV head.
template <class Half, int kDim, int kItems>
__global__ void __launch_bounds__(kChunkWarps * 32, kItems)
    attend_low_latency(const AttentionArgs args, const __grid_constant__ CUtensorMap map) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(kBoxAlignment) uint4 shared[];
  PdlOrder::of_items(args).begin();
  auto& smem = *reinterpret_cast<ChunkSmem<kDim, kItems>*>(shared);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x % 32 == 0) {
    hopper::barrier_init(hopper::shared_address(&smem.full_k[warp]), 1);
    hopper::barrier_init(hopper::shared_address(&smem.full_v[warp]), 1);
    hopper::fence_barrier_init();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncwarp();
  WarpItem item = read_item(args, static_cast<int>(blockIdx.x), args.item_count * args.view.layout.shape.heads);
  item.read_ids();
  const ChunkCta<Half, kDim, kItems> cta{args, map, smem, item, warp};
  const bool early = cta.loads_before_pdl_wait();
  if (early) cta.begin();
  PdlOrder::of_items(args).wait_for_rows();
  if (!early) cta.begin();
  cta.run();
  PdlOrder::of_items(args).end();
#endif
}

template <class Half, int kDim, int kItems>
void launch(const AttentionArgs& args, Number number, cudaStream_t stream) {
  const auto kernel = attend_low_latency<Half, kDim, kItems>;
  constexpr size_t kSmemBytes = sizeof(ChunkSmem<kDim, kItems>);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSmemBytes),
        "attention's shared memory");
  const auto ctas = static_cast<unsigned>(args.item_count * args.view.layout.shape.heads);
  launch_pdl("tma low-latency attention", kernel, {dim3(ctas), dim3(kChunkWarps * 32), kSmemBytes}, stream, args,
             tma_map_of_blocks(args.view, number));
}

}  // namespace

bool fits_low_latency(const AttentionArgs& args) {
  return args.item_count * args.view.layout.shape.heads <= args.sm_count * kItemsPerSm;
}

void low_latency_attention(const AttentionArgs& args, cudaStream_t stream) {
  const bool all_alone = args.item_count * args.view.layout.shape.heads <= args.sm_count;
  launch_half(args.view.layout, [&]<class Half, int kDim>(Number number) {
    all_alone ? launch<Half, kDim, 1>(args, number, stream) : launch<Half, kDim, kItemsPerSm>(args, number, stream);
  });
}

}  // namespace kvasir::cuda
