// The arithmetic of attention by mma.sync: what a warp does with 8 query rows and a tile of keys and values in shared
// memory. Kernels differ in how the tile gets there; the bits come from here.
//
// Few rows read many keys, so keys and values are the m16 operand: scores are K qᵀ [tokens][rows], outputs are Vᵀ P
// [dimensions][rows]. The sum of weights is an mma too, with values of 1. A sum over 16 tokens or dimensions does not
// depend on their order, so each format uses the order that suits it.
//
// Thread `lane`, g = lane / 4 and t = lane % 4, has rows 2t and 2t + 1 of both.
#pragma once

#include <cmath>

#include "backend/cuda/arch/tensor_core.cuh"
#include "backend/cuda/attention/attention_args.h"

namespace kvasir::cuda {

__device__ inline int lane_group() { return static_cast<int>(threadIdx.x) % 32 / 4; }
__device__ inline int lane_pair() { return static_cast<int>(threadIdx.x) % 4; }

// Offsets in shared memory, in bytes from the first of 16 tokens. Vectors of 16 bytes are permuted so that the eight
// rows of an 8 x 8 tile lie in different banks.

// Queries: rows of kDim numbers; vector i has numbers 8i ...
template <int kDim>
__device__ inline int row_vec(int row, int vec) {
  return (row * (kDim / 8) + (vec ^ (row & 7))) * 16;
}

// K [kDim][16 tokens], where vector `half` has tokens 8 half ...; V [16 tokens][kDim].
template <int kDim>
struct SmemLayout {
  static __device__ int k_vec(int dim, int half) { return (dim * 2 + (half ^ (dim >> 2 & 1))) * 16; }
  static __device__ int v_vec(int token_in_block, int vec) { return row_vec<kDim>(token_in_block, vec); }
};

static_assert(kTileTokens % kBlockOfTile == 0 && kTileRows == 8);
inline constexpr int kBlocksOfTile = kTileTokens / kBlockOfTile;

// A warp's running sums: o is unnormalized, m is for powers of two. Tile i of o has dimensions 16i + g in [0] and
// [1], and 16i + g + 8 in [2] and [3].
template <int kDim>
struct Sums {
  float o[kDim / 16][4];
  float d[4];  // sum of weights: rows 2t and 2t + 1 in [0] and [1], and again in [2] and [3]
  float m[2];

  __device__ void clear() {
#pragma unroll
    for (auto& tile : o) tile[0] = tile[1] = tile[2] = tile[3] = 0.0F;
    d[0] = d[1] = d[2] = d[3] = 0.0F;
    m[0] = m[1] = -INFINITY;
  }
};

struct MergeScales {
  float first, second;  // factors of the two sides
  SoftmaxState state;
};

// How the state of a chunk merges into that of the chunks before it, and that of a chunk group into that of the
// groups before it. Merging with an empty side changes no bit, except for the sign of a zero.
__device__ inline MergeScales merge_scales(const SoftmaxState& sum, const SoftmaxState& next) {
  const float m = fmaxf(sum.m, next.m);
  MergeScales out{0.0F, 0.0F, {m, 0.0F}};
  if (sum.m != -INFINITY) out.first = exp2_fast(__fsub_rn(sum.m, m));
  if (next.m != -INFINITY) out.second = exp2_fast(__fsub_rn(next.m, m));
  out.state.d = __fmaf_rn(next.d, out.second, __fmul_rn(sum.d, out.first));
  return out;
}
__device__ inline float merge_sums(const MergeScales& by, float sum, float next) {
  return __fmaf_rn(next, by.second, __fmul_rn(sum, by.first));
}

// The normalization of a finished row. Adding +0 removes the sign of zeros.
__device__ inline float inverse_of(const SoftmaxState& state) { return state.d == 0.0F ? 0.0F : __frcp_rn(state.d); }
__device__ inline float normalized(float sum, float inverse) { return __fmaf_rn(sum, inverse, 0.0F); }

// Block i has tokens 16i + g for rows 2t and 2t + 1, then 16i + g + 8 for both; or tokens in the format's order.
using Scores = float[kBlocksOfTile][4];

// The query fragments of a tile: fragment i has dimensions 16i ...
template <int kDim>
struct Queries {
  std::uint32_t b[kDim / 16][2];

  // Loads them from shared memory.
  __device__ void load(std::uint32_t rows) {
#pragma unroll
    for (int step = 0; step < kDim / 16; step += 2) load_pair(rows, step, b[step], b[step + 1]);
  }

  // Loads fragments `step` and `step` + 1.
  static __device__ void load_pair(std::uint32_t rows, int step, std::uint32_t (&first)[2],
                                   std::uint32_t (&second)[2]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    std::uint32_t tiles[4];
    load_tiles(tiles, rows + row_vec<kDim>(lane % 8, step * 2 + lane / 8));
    first[0] = tiles[0];
    first[1] = tiles[1];
    second[0] = tiles[2];
    second[1] = tiles[3];
  }
};

__device__ inline void clear(Scores& s) {
#pragma unroll
  for (auto& block : s) block[0] = block[1] = block[2] = block[3] = 0.0F;
}

// Loads 16 dimensions of the keys of a block: tokens 0-7 and 8-15 of dimensions 0-7, then of 8-15.
template <class Layout>
__device__ void load_keys(std::uint32_t block, int step, std::uint32_t (&a)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  load_tiles_transposed(a, block + Layout::k_vec(step * 16 + lane / 16 * 8 + lane % 8, lane / 8 % 2));
}

// Scores of a tile. `k` is the shared address of its kBlocksOfTile blocks.
template <class Half, class Layout, int kDim>
__device__ void multiply_keys(const Queries<kDim>& q, std::uint32_t k, Scores& s) {
  clear(s);
#pragma unroll
  for (int step = 0; step < kDim / 16; ++step) {
#pragma unroll
    for (int block = 0; block < kBlocksOfTile; ++block) {
      std::uint32_t a[4];
      load_keys<Layout>(k + block * kDim * kBlockOfTile * 2, step, a);
      Half::multiply(s[block], a, q.b[step][0], q.b[step][1]);
    }
  }
}

// The same for several tiles of rows, whose queries are loaded as they are needed.
template <class Half, class Layout, int kDim, int kTiles>
__device__ void multiply_keys(const std::uint32_t (&q)[kTiles], std::uint32_t k, Scores (&s)[kTiles]) {
#pragma unroll
  for (Scores& one : s) clear(one);
#pragma unroll
  for (int step = 0; step < kDim / 16; step += 2) {
    std::uint32_t b[kTiles][2][2];
#pragma unroll
    for (int i = 0; i < kTiles; ++i) Queries<kDim>::load_pair(q[i], step, b[i][0], b[i][1]);
#pragma unroll
    for (int next = 0; next < 2; ++next) {
#pragma unroll
      for (int block = 0; block < kBlocksOfTile; ++block) {
        std::uint32_t a[4];
        load_keys<Layout>(k + block * kDim * kBlockOfTile * 2, step + next, a);
#pragma unroll
        for (int i = 0; i < kTiles; ++i) Half::multiply(s[i][block], a, b[i][next][0], b[i][next][1]);
      }
    }
  }
}

// The largest score of row 2t + i, in all lanes.
__device__ inline float top_of(const Scores& s, int i) {
  float top = -INFINITY;
#pragma unroll
  for (const auto& block : s) top = fmaxf(top, fmaxf(block[i], block[i + 2]));
#pragma unroll
  for (int step = 4; step < 32; step *= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, step));
  return top;
}
// The shift of a row that has seen no key yet is 0, so that its weights are 0.
__device__ inline float shift_of(float m) { return m == -INFINITY ? 0.0F : m; }
// The factor of sums under the maximum `before` when it becomes m.
__device__ inline float rescale_to(float m, float before) {
  return before == -INFINITY ? 0.0F : exp2_fast(__fsub_rn(before, shift_of(m)));
}
// 2^(factor · score - m)
__device__ inline void to_weights(Scores& s, int i, float factor, float m) {
  const float shift = shift_of(m);
#pragma unroll
  for (auto& block : s) {
    block[i] = exp2_fast(__fmaf_rn(block[i], factor, -shift));
    block[i + 2] = exp2_fast(__fmaf_rn(block[i + 2], factor, -shift));
  }
}

// Online softmax: masked scores become weights, and the sums so far are rescaled to the new maximum.
template <int kDim>
__device__ void soften(const float (&factor)[2], Scores& s, Sums<kDim>& sums) {
  float rescale[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float top = fmaxf(sums.m[i], __fmul_rn(top_of(s, i), factor[i]));
    rescale[i] = rescale_to(top, sums.m[i]);
    sums.m[i] = top;
    to_weights(s, i, factor[i], top);
  }
  if (!__any_sync(0xffffffff, rescale[0] != 1.0F || rescale[1] != 1.0F)) return;  // the usual case
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sums.d[i] = __fmul_rn(sums.d[i], rescale[i % 2]);
#pragma unroll
    for (auto& tile : sums.o) tile[i] = __fmul_rn(tile[i], rescale[i % 2]);
  }
}

// Weights of 16 tokens as an mma operand: transposed across the warp.
struct WeightTile {
  std::uint32_t b[2];
};
template <class Half>
__device__ WeightTile transposed(const float (&block)[4]) {
  WeightTile out;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t pair = Half::pack(block[i * 2], block[i * 2 + 1]);
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out.b[i]) : "r"(pair));
  }
  return out;
}

template <class Half>
__device__ void add_to(const WeightTile& weights, float (&d)[4]) {
  const std::uint32_t ones[4] = {Half::kOnes, Half::kOnes, Half::kOnes, Half::kOnes};
  Half::multiply(d, ones, weights.b[0], weights.b[1]);
}
template <class Half, int kDim>
__device__ void add_weights(const WeightTile& weights, Sums<kDim>& sums) {
  add_to<Half>(weights, sums.d);
}

// Loads 16 dimensions of the values of a block: dimensions 0-7 and 8-15 of tokens 0-7, then of 8-15.
template <class Layout>
__device__ void load_values(std::uint32_t block, int tile, std::uint32_t (&a)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  load_tiles_transposed(a, block + Layout::v_vec(lane / 16 * 8 + lane % 8, tile * 2 + lane / 8 % 2));
}

// Adds V times the weights of one block. `v` is the shared address of its values.
template <class Half, class Layout, int kDim>
__device__ void add_values(const WeightTile& weights, std::uint32_t v, Sums<kDim>& sums) {
#pragma unroll
  for (int tile = 0; tile < kDim / 16; ++tile) {
    std::uint32_t a[4];
    load_values<Layout>(v, tile, a);
    Half::multiply(sums.o[tile], a, weights.b[0], weights.b[1]);
  }
}

// The same for a tile of 16-bit values without scales.
template <class Half, class Layout, int kDim>
__device__ void multiply_values(const Scores& weights, std::uint32_t v, Sums<kDim>& sums) {
#pragma unroll
  for (int block = 0; block < kBlocksOfTile; ++block) {
    const WeightTile tile = transposed<Half>(weights[block]);
    add_weights<Half>(tile, sums);
    add_values<Half, Layout>(tile, v + block * kDim * kBlockOfTile * 2, sums);
  }
}

// The same for several tiles of rows.
template <class Half, class Layout, int kDim, int kTiles>
__device__ void multiply_values(const Scores (&weights)[kTiles], std::uint32_t v, Sums<kDim> (&sums)[kTiles]) {
#pragma unroll
  for (int block = 0; block < kBlocksOfTile; ++block) {
    WeightTile tiles[kTiles];
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      tiles[i] = transposed<Half>(weights[i][block]);
      add_weights<Half>(tiles[i], sums[i]);
    }
#pragma unroll
    for (int tile = 0; tile < kDim / 16; ++tile) {
      std::uint32_t a[4];
      load_values<Layout>(v + block * kDim * kBlockOfTile * 2, tile, a);
#pragma unroll
      for (int i = 0; i < kTiles; ++i) Half::multiply(sums[i].o[tile], a, tiles[i].b[0], tiles[i].b[1]);
    }
  }
}

// Positions of a thread's two rows, and the factors of their scores.
struct RowsOfWarp {
  Position query[2];
  Position first, last;  // of all rows of the tile
  float factor[2];       // scale, times the query's
};

// Whether every row sees all keys of [first, first + kTileTokens).
__device__ inline bool sees_all(const KvView& view, const RowsOfWarp& rows, Position first) {
  return view.recent_override.full() && first + kTileTokens - 1 <= rows.first &&
         (view.retention.full() || rows.last - first < view.retention.window ||
          first + kTileTokens <= view.retention.sinks);
}

// Masks scores of keys that a row does not see. `token_of(half)`: the token of a block in elements 2 half and 2 half
// + 1.
template <class TokenOf>
__device__ void mask(const KvView& view, const RowsOfWarp& rows, Position first, const TokenOf& token_of, Scores& s) {
  if (sees_all(view, rows, first)) return;
#pragma unroll
  for (int block = 0; block < kBlocksOfTile; ++block) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Position key = first + block * kBlockOfTile + token_of(i / 2);
      if (!view.reads(rows.query[i % 2], key)) s[block][i] = -INFINITY;
    }
  }
}
__device__ inline void mask(const KvView& view, const RowsOfWarp& rows, Position first, Scores& s) {
  mask(
      view, rows, first, [](int half) { return lane_group() + half * 8; }, s);
}

// Adds a non-finite value of key `key` to the rows that see it.
template <int kDim>
__device__ void add_infinity(const KvView& view, const RowsOfWarp& rows, Position key, int dim, float value,
                             Sums<kDim>& sums) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (!view.reads(rows.query[i], key) || lane_group() != dim % 8) continue;
#pragma unroll
    for (int j = 0; j < kDim / 8; ++j) {  // a dynamic index would move the sums out of registers
      float& sum = sums.o[j / 2][i + j % 2 * 2];
      sum = j == dim / 8 ? sum + value : sum;
    }
  }
}

// Whether any value of the tile is infinite or NaN. It looks at all values: finding out which of them matter takes
// longer.
template <class Half, int kDim>
__device__ bool has_infinities(const std::byte* v) {
  constexpr std::uint32_t kExponents = Half::kExponent * 0x10001U;
  constexpr std::uint32_t kLowest = (Half::kExponent & (~Half::kExponent + 1U)) * 0x10001U;
  const auto carries = [](std::uint32_t two) { return (two & kExponents) + kLowest; };  // into the sign bits
  std::uint32_t found = 0;
#pragma unroll 8
  for (int i = static_cast<int>(threadIdx.x) % 32; i < kTileTokens * kDim / 8; i += 32) {
    const uint4 eight = reinterpret_cast<const uint4*>(v)[i];
    found |= carries(eight.x) | carries(eight.y) | carries(eight.z) | carries(eight.w);
  }
  return __any_sync(0xffffffff, (found & 0x80008000U) != 0);
}

// A weight of 0 times an infinite value is NaN. So non-finite values of tokens that not all rows see are cleared in
// the tile and added to the rows that see them. True: there were some. Only 16-bit formats can hold such values.
template <class Half, class Layout, int kDim>
__device__ bool keep_infinities_apart(const KvView& view, const RowsOfWarp& rows, Position first, std::byte* v,
                                      Sums<kDim>& sums) {
  if (sees_all(view, rows, first) || !has_infinities<Half, kDim>(v)) return false;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  bool found = false;
  for (int token = 0; token < kTileTokens; ++token) {
    const Position key = first + token;
    if (view.reads(rows.first, key) && view.reads(rows.last, key)) continue;  // then so do the rows between
    for (int begin = 0; begin < kDim; begin += 64) {
      const int dim = begin + lane * 2;
      const int at = token / kBlockOfTile * kDim * 32 + Layout::v_vec(token % kBlockOfTile, dim / 8) + dim % 8 * 2;
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
