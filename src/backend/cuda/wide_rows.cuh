// A tile's scores, and the weights that they become, of the 64 rows of a warpgroup, as wgmma leaves them in
// registers. Thread `lane` of a warp, g = lane / 4 and t = lane % 4, has rows g and g + 8 of its 16; numbers 8i + 2t
// and the next one of row g are in 4i and 4i + 1, of row g + 8 in the two behind them.
#pragma once

#include "backend/cuda/attention_math.cuh"
#include "backend/cuda/warpgroup.cuh"

namespace kvasir::cuda {

// What the threads of a warpgroup have of their 64 rows beside what is in registers: each reads its own alone. States
// are m and d of row g, then of row g + 8.
template <int kDim>
struct SpanTotals {
  static constexpr int kThreads = 128;
  float4 o[kDim / 8][kThreads];  // of spans that have ended, as scores lie in registers, by four
  float4 states[kThreads];       // of these
  float4 span_states[kThreads];  // of the span at hand
  float2 ended_m[kThreads];      // of the split that was multiplied last
  float2 factors[kThreads];      // of scores, where queries have scales
};

// What keys and values are multiplied as.
template <class Half>
struct AsTheyLie {
  using Keys = Half;
  using Values = Half;
  static constexpr bool kScaled = false;
};
struct WithScales {
  using Keys = HalfF16;
  using Values = HalfBF16;
  static constexpr bool kScaled = true;
};

// Of widened blocks (wide_blocks.h): of the tokens of one.
struct BlockScales {
  float k[kBlockOfTile];
  float v[kBlockOfTile];
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <int kDim>
using RowQueries = std::uint32_t[kDim / 16][4];  // fragments of 16 numbers each
using TileScores = float[kTileTokens / 2];
using TileWeights = std::uint32_t[kBlocksOfTile][4];

// As soften() of attention_math.cuh.
__device__ __forceinline__ void soften(const float (&factor)[2], TileScores& s, float (&m)[2], float (&rescale)[2]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float tops[2] = {s[i * 2], s[i * 2 + 1]};  // apart, so that neither waits for the other
#pragma unroll
    for (int j = i * 2 + 4; j < kTileTokens / 2; j += 4) {
      tops[0] = fmaxf(tops[0], s[j]);
      tops[1] = fmaxf(tops[1], s[j + 1]);
    }
    float top = fmaxf(tops[0], tops[1]);
    top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 2));
    top = fmaxf(m[i], __fmul_rn(top, factor[i]));
    const float shift = top == -INFINITY ? 0.0F : top;  // a row that saw nothing yet has weights of 0
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

// Of key 8j + 2t and the next one.
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
// Weights as values with scales want them: of a token that nobody sees 0, whatever lies in the place of its scale.
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
// The sums of weights over a block, by a matrix of ones.
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
  std::uint64_t& used;  // the barrier at which every thread that has read them arrives
  const std::uint16_t (&ones)[128];
};
// Weights as values want them, and, as they were before, added to their sums `d`, or in their place where `adds` is
// 0.
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
