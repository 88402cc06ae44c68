// The arithmetic of attention on tensor cores: what every kernel does with a tile of keys and values in shared
// memory, a warp with 16 rows at a time. Kernels differ in how the tile gets there; the bits come from here.
#pragma once

#include <cmath>

#include "backend/cuda/attention_args.h"
#include "backend/cuda/tensor_core.cuh"

namespace kvasir::cuda {

// Where numbers lie in shared memory, in bytes from the first of 16 tokens. Chunks of 16 bytes change places so that
// the eight rows of an 8 x 8 tile lie in different banks.

// Rows of kDim numbers, chunk i has numbers 8i …: queries.
template <int kDim>
__device__ inline int row_chunk(int row, int chunk) {
  return (row * (kDim / 8) + (chunk ^ (row & 7))) * 16;
}

// K [kDim][16 tokens], chunk `half` has tokens 8 half …; V [16 tokens][kDim].
template <int kDim>
struct WovenPlaces {
  static __device__ int k_chunk(int dim, int half) { return (dim * 2 + (half ^ (dim >> 2 & 1))) * 16; }
  static __device__ int v_chunk(int slot, int chunk) { return row_chunk<kDim>(slot, chunk); }
};

static_assert(kTileTokens % kBlockOfTile == 0);

// A warp's sums over keys so far, for rows g and g + 8: o unnormalized, m for powers of two. In a Sums that still
// grows, d is this thread's part of the sum.
template <int kDim>
struct Sums {
  float o[kDim / 8][4];
  float m[2];
  float d[2];

  __device__ void clear() {
#pragma unroll
    for (auto& tile : o) tile[0] = tile[1] = tile[2] = tile[3] = 0.0F;
    m[0] = m[1] = -INFINITY;
    d[0] = d[1] = 0.0F;
  }

  // The split is over: d becomes the whole sum, in all four threads of a row.
  __device__ void end_split() {
#pragma unroll
    for (float& sum : d) {
      sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffff, sum, 1));
      sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffff, sum, 2));
    }
  }
};

struct Fold {
  float first, second;  // what both sides are scaled by
  SoftmaxState state;
};

// A later split joins the sum of those before it. Nothing on one side leaves the other as it is, to the bit.
__device__ inline Fold fold(const SoftmaxState& sum, const SoftmaxState& next) {
  const float m = fmaxf(sum.m, next.m);
  Fold out{0.0F, 0.0F, {m, 0.0F}};
  if (sum.m != -INFINITY) out.first = exp2_fast(__fsub_rn(sum.m, m));
  if (next.m != -INFINITY) out.second = exp2_fast(__fsub_rn(next.m, m));
  out.state.d = __fmaf_rn(next.d, out.second, __fmul_rn(sum.d, out.first));
  return out;
}
__device__ inline float fold(const Fold& by, float sum, float next) {
  return __fmaf_rn(next, by.second, __fmul_rn(sum, by.first));
}

// Scores of 16 rows and kTileTokens keys: tile i has keys 8i … 8i + 7.
using Scores = float[kTileTokens / 8][4];

// q · K. `q` and `k` are addresses in shared memory, k of kTileTokens / 16 blocks one behind the other.
template <class Half, class Places, int kDim>
__device__ void multiply_keys(std::uint32_t q, std::uint32_t k, Scores& s) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (auto& tile : s) tile[0] = tile[1] = tile[2] = tile[3] = 0.0F;
#pragma unroll
  for (int step = 0; step < kDim / 16; ++step) {
    std::uint32_t a[4];
    load_tiles(a, q + row_chunk<kDim>(lane % 16, step * 2 + lane / 16));
    const int dim = step * 16 + lane % 16;
#pragma unroll
    for (int block = 0; block < kTileTokens / kBlockOfTile; ++block) {
      std::uint32_t b[4];
      load_tiles_transposed(b, k + block * kDim * kBlockOfTile * 2 + Places::k_chunk(dim, lane / 16));
      Half::multiply(s[block * 2], a, b[0], b[1]);
      Half::multiply(s[block * 2 + 1], a, b[2], b[3]);
    }
  }
}

// Masked scores become weights: 2^(factor · score - m). The sums so far are scaled to the new maximum.
template <int kDim>
__device__ void soften(const float (&factor)[2], Scores& s, Sums<kDim>& sums) {
  float rescale[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float top = -INFINITY;
#pragma unroll
    for (const auto& tile : s) top = fmaxf(top, fmaxf(tile[i * 2], tile[i * 2 + 1]));
    top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 2));
    top = fmaxf(sums.m[i], __fmul_rn(top, factor[i]));
    const float shift = top == -INFINITY ? 0.0F : top;  // a row that saw nothing yet has weights of 0
    rescale[i] = sums.m[i] == -INFINITY ? 0.0F : exp2_fast(__fsub_rn(sums.m[i], shift));
    sums.m[i] = top;
    sums.d[i] = __fmul_rn(sums.d[i], rescale[i]);
#pragma unroll
    for (auto& tile : s) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        tile[i * 2 + j] = exp2_fast(__fmaf_rn(tile[i * 2 + j], factor[i], -shift));
        sums.d[i] = __fadd_rn(sums.d[i], tile[i * 2 + j]);
      }
    }
  }
  if (!__any_sync(0xffffffff, rescale[0] != 1.0F || rescale[1] != 1.0F)) return;  // mostly: all stays as it is
#pragma unroll
  for (auto& tile : sums.o) {
#pragma unroll
    for (int i = 0; i < 4; ++i) tile[i] = __fmul_rn(tile[i], rescale[i / 2]);
  }
}

// Weights of values that have scales, in shared memory, of the columns: those of keys that nobody sees stay 0.
__device__ inline void scale_weights(const float* v_scales, Scores& weights) {
  const int column = threadIdx.x % 4 * 2;
#pragma unroll
  for (int tile = 0; tile < kTileTokens / 8; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      weights[tile][i] = __fmul_rn(weights[tile][i], v_scales[tile * 8 + column + i % 2]);
    }
  }
}

// The weights · V. `v` is an address in shared memory, of kTileTokens / 16 blocks one behind the other.
template <class Half, class Places, int kDim>
__device__ void multiply_values(const Scores& weights, std::uint32_t v, Sums<kDim>& sums) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int block = 0; block < kTileTokens / kBlockOfTile; ++block) {
    const auto& low = weights[block * 2];
    const auto& high = weights[block * 2 + 1];
    const std::uint32_t a[4] = {Half::pack(low[0], low[1]), Half::pack(low[2], low[3]), Half::pack(high[0], high[1]),
                                Half::pack(high[2], high[3])};
    const std::uint32_t rows = v + block * kDim * kBlockOfTile * 2;
#pragma unroll
    for (int pair = 0; pair < kDim / 16; ++pair) {
      std::uint32_t b[4];
      load_tiles_transposed(b, rows + Places::v_chunk(lane % 16, pair * 2 + lane / 16));
      Half::multiply(sums.o[pair * 2], a, b[0], b[1]);
      Half::multiply(sums.o[pair * 2 + 1], a, b[2], b[3]);
    }
  }
}

// Which keys the rows of a warp see, and what scores are multiplied by.
struct RowsOfWarp {
  Position query[2];     // of rows g and g + 8
  Position first, last;  // the least and the greatest of the tile
  float factor[2];       // scale, and that of q
};

// Whether every row sees all keys of [first, first + kTileTokens).
__device__ inline bool sees_all(const KvView& view, const RowsOfWarp& rows, Position first) {
  return view.finer.full() && first + kTileTokens - 1 <= rows.first &&
         (view.retention.full() || rows.last - first < view.retention.window ||
          first + kTileTokens <= view.retention.sinks);
}

// `k_scales`, in shared memory, of the columns, or null. Scores of what a row does not see become -inf.
__device__ inline void scale_and_mask(const KvView& view, const RowsOfWarp& rows, Position first,
                                      const float* k_scales, TokenOrder order, Scores& s) {
  const int column = static_cast<int>(threadIdx.x) % 4 * 2;
  if (k_scales != nullptr) {
#pragma unroll
    for (int tile = 0; tile < kTileTokens / 8; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) s[tile][i] = __fmul_rn(s[tile][i], k_scales[tile * 8 + column + i % 2]);
    }
  }
  if (sees_all(view, rows, first)) return;
#pragma unroll
  for (int tile = 0; tile < kTileTokens / 8; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = token_of(order, tile * 8 + column + i % 2);
      if (!view.reads(rows.query[i / 2], first + token)) s[tile][i] = -INFINITY;
    }
  }
}

// The value at `dim` of a token, which is no number, for the rows that see it.
template <int kDim>
__device__ void add_infinity(const KvView& view, const RowsOfWarp& rows, Position key, int dim, float value,
                             Sums<kDim>& sums) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (!view.reads(rows.query[i], key) || static_cast<int>(threadIdx.x) % 4 != dim % 8 / 2) continue;
#pragma unroll
    for (int j = 0; j < kDim / 4; ++j) {  // chosen by comparing: an index would move all sums out of their registers
      float& sum = sums.o[j / 2][i * 2 + j % 2];
      sum = j == dim / 8 * 2 + dim % 2 ? sum + value : sum;
    }
  }
}

// A weight of 0 times a value that is infinite is no number: such values of tokens that not all rows see are taken
// out of the tile, and given to those that see them. True: some were. Of 16-bit formats alone; others hold finite
// numbers.
template <class Half, class Places, int kDim>
__device__ bool keep_infinities_apart(const KvView& view, const RowsOfWarp& rows, Position first, std::byte* v,
                                      Sums<kDim>& sums) {
  if (sees_all(view, rows, first)) return false;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  bool found = false;
  for (int token = 0; token < kTileTokens; ++token) {
    const Position key = first + token;
    if (view.reads(rows.first, key) && view.reads(rows.last, key)) continue;  // and so do those between
    for (int begin = 0; begin < kDim; begin += 64) {
      const int dim = begin + lane * 2;
      const int at = token / kBlockOfTile * kDim * 32 + Places::v_chunk(token % kBlockOfTile, dim / 8) + dim % 8 * 2;
      auto* pair = reinterpret_cast<std::uint32_t*>(v + at);
      const std::uint32_t held = *pair;
      const bool low = (held & Half::kExponent) == Half::kExponent;
      const bool high = (held >> 16 & Half::kExponent) == Half::kExponent;
      unsigned lanes = __ballot_sync(0xffffffff, low || high);
      found |= lanes != 0;
      for (; lanes != 0; lanes &= lanes - 1) {
        const int owner = __ffs(static_cast<int>(lanes)) - 1;
        const std::uint32_t both = __shfl_sync(0xffffffff, held, owner);
        for (int i = 0; i < 2; ++i) {
          const unsigned one = both >> 16 * i & 0xffffU;
          if ((one & Half::kExponent) != Half::kExponent) continue;
          add_infinity(view, rows, key, begin + owner * 2 + i, Half::decode(one), sums);
        }
      }
      if (low || high) *pair = (low ? 0U : held & 0xffffU) | (high ? 0U : held & 0xffff0000U);
    }
  }
  __syncwarp();
  return found;
}

}  // namespace kvasir::cuda
