// Scores and weights of a tile for the 64 rows of a warpgroup, as wgmma leaves them in registers. Thread `lane` of a
// warp, g = lane / 4 and t = lane % 4, has rows g and g + 8 of its 16: numbers 8i + 2t and 8i + 2t + 1 of row g are
// in 4i and 4i + 1, those of row g + 8 in 4i + 2 and 4i + 3.
#pragma once

#include "backend/cuda/arch/warpgroup.cuh"
#include "backend/cuda/attention/attention_math.cuh"

namespace kvasir::cuda {

// What the threads of a warpgroup hold beside registers; each reads its own only. States are m and d of row g, then
// of row g + 8.
template <int kDim>
struct GroupTotals {
  static constexpr int kThreads = 128;
  float4 o[kDim / 8][kThreads];   // of groups that have ended, in the order of scores
  float4 states[kThreads];        // of these
  float4 group_states[kThreads];  // of the current group
  float2 ended_m[kThreads];       // of the last multiplied chunk
  float2 factors[kThreads];       // of scores, if queries have scales
};

// The types that K and V are multiplied as.
template <class Half>
struct UnscaledKv {
  using Keys = Half;
  using Values = Half;
  static constexpr bool kScaled = false;
};
struct ScaledKv {
  using Keys = HalfF16;
  using Values = HalfBF16;
  static constexpr bool kScaled = true;
};

// Scales of a dequantized block.
struct BlockScales {
  float k[kBlockOfTile];
  float v[kBlockOfTile];
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <int kDim>
using RowQueries = std::uint32_t[kDim / 16][4];  // fragments of 16 numbers
using TileScores = float[kTileTokens / 2];
using TileWeights = std::uint32_t[kBlocksOfTile][4];

// soften() of attention_math.cuh for this layout.
__device__ __forceinline__ void soften(const float (&factor)[2], TileScores& s, float (&m)[2], float (&rescale)[2]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float tops[2] = {s[i * 2], s[i * 2 + 1]};  // two, for instruction-level parallelism
#pragma unroll
    for (int j = i * 2 + 4; j < kTileTokens / 2; j += 4) {
      tops[0] = fmaxf(tops[0], s[j]);
      tops[1] = fmaxf(tops[1], s[j + 1]);
    }
    float top = fmaxf(tops[0], tops[1]);
    top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 2));
    top = fmaxf(m[i], __fmul_rn(top, factor[i]));
    const float shift = top == -INFINITY ? 0.0F : top;  // weights of a row that has seen no key yet are 0
    rescale[i] = m[i] == -INFINITY ? 0.0F : exp2_fast(__fsub_rn(m[i], shift));
    m[i] = top;
#pragma unroll
    for (int j = i * 2; j < kTileTokens / 2; j += 4) {
      s[j] = exp2_fast(__fmaf_rn(s[j], factor[i], -shift));
      s[j + 1] = exp2_fast(__fmaf_rn(s[j + 1], factor[i], -shift));
    }
  }
}

template <class Half>
__device__ __forceinline__ void pack(const TileScores& s, TileWeights& p) {
#pragma unroll
  for (int i = 0; i < kTileTokens / 4; ++i) p[i / 4][i % 4] = Half::pack(s[i * 2], s[i * 2 + 1]);
}

using TileScales = BlockScales[kBlocksOfTile];

// Scales of keys 8j + 2t and 8j + 2t + 1.
__device__ __forceinline__ float2 two_scales(const float (&of_block)[kBlockOfTile], int j) {
  return *reinterpret_cast<const float2*>(of_block + j % 2 * 8 + lane_pair() * 2);
}
__device__ __forceinline__ void scale_scores(const TileScales& scales, TileScores& s) {
#pragma unroll
  for (int j = 0; j < kTileTokens / 8; ++j) {
    const float2 by = two_scales(scales[j / 2].k, j);
#pragma unroll
    for (int i = 0; i < 4; ++i) s[j * 4 + i] = __fmul_rn(s[j * 4 + i], i % 2 == 0 ? by.x : by.y);
  }
}
// Scales weights for values with scales. Tokens that no row sees stay 0, whatever memory holds as their scale.
template <class Half>
__device__ __forceinline__ void pack_scaled(const TileScores& s, const TileScales& scales, TileWeights& p) {
  const auto scaled = [](float weight, float by) { return weight == 0.0F ? 0.0F : __fmul_rn(weight, by); };
#pragma unroll
  for (int j = 0; j < kTileTokens / 8; ++j) {
    const float2 by = two_scales(scales[j / 2].v, j);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int at = j * 4 + i * 2;
      p[j / 2][j % 2 * 2 + i] = Half::pack(scaled(s[at], by.x), scaled(s[at + 1], by.y));
    }
  }
}
// Sums the weights of a block by a matrix of ones.
template <class Half>
__device__ __forceinline__ void add_up(const std::uint32_t (&p)[4], const std::uint16_t (&ones)[128], int adds,
                                       float (&d)[4]) {
  const std::uint64_t all =
      hopper::matrix_descriptor(hopper::shared_address(ones), {hopper::Swizzle::kNone, 128, 128});
  hopper::multiply_by_columns<Half>(d, p, all, adds);
}

// A tile with scales, in shared memory.
struct ScaledTile {
  const TileScales& scales;
  std::uint64_t& used;  // barrier at which every thread arrives after reading them
  const std::uint16_t (&ones)[128];
};
// Scales the weights for values, and adds the unscaled ones to `d`, or replaces it if `adds` is 0.
template <class Half>
__device__ __forceinline__ void weigh(const ScaledTile& tile, int adds, const TileScores& s, TileWeights& p,
                                      float (&d)[4]) {
  TileWeights unscaled;
  pack<Half>(s, unscaled);
  pack_scaled<Half>(s, tile.scales, p);
  hopper::arrive(hopper::shared_address(&tile.used));
  hopper::wgmma_fence();
#pragma unroll
  for (int block = 0; block < kBlocksOfTile; ++block) add_up<Half>(unscaled[block], tile.ones, adds + block, d);
  hopper::wgmma_commit();
  hopper::wgmma_wait<0>();
  hopper::hold(d);
}

#endif

}  // namespace kvasir::cuda
