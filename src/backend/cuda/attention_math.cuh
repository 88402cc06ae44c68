// The arithmetic of attention on tensor cores: what every kernel does with a tile of keys and values in shared
// memory, a warp with 8 rows at a time. Kernels differ in how the tile gets there; the bits come from here.
//
// Few rows look at many keys, so keys and values are the side of 16: scores are K qᵀ, [tokens][rows], and sums are
// Vᵀ P, [dimensions][rows]. Weights are summed on the tensor cores too, as if they had a value of 1 beside the
// others. A sum over 16 tokens, or 16 dimensions, does not depend on their order there, so each format has its tokens
// and dimensions in the order that suits it.
//
// Thread `lane`, g = lane / 4 and t = lane % 4, has rows 2t and 2t + 1 of both.
#pragma once

#include <cmath>

#include "backend/cuda/attention_args.h"
#include "backend/cuda/tensor_core.cuh"

namespace kvasir::cuda {

__device__ inline int lane_group() { return static_cast<int>(threadIdx.x) % 32 / 4; }
__device__ inline int lane_pair() { return static_cast<int>(threadIdx.x) % 4; }

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

static_assert(kTileTokens % kBlockOfTile == 0 && kTileRows == 8);
inline constexpr int kBlocksOfTile = kTileTokens / kBlockOfTile;

// A warp's sums over keys so far: o unnormalized, m for powers of two. Tile i of o has dimensions 16i + g, in [0] and
// [1], and 16i + g + 8.
template <int kDim>
struct Sums {
  float o[kDim / 16][4];
  float d[4];  // of weights: rows 2t and 2t + 1 in [0] and [1], and again in [2] and [3]
  float m[2];

  __device__ void clear() {
#pragma unroll
    for (auto& tile : o) tile[0] = tile[1] = tile[2] = tile[3] = 0.0F;
    d[0] = d[1] = d[2] = d[3] = 0.0F;
    m[0] = m[1] = -INFINITY;
  }
};

struct Fold {
  float first, second;  // what both sides are scaled by
  SoftmaxState state;
};

// A later split joins the sum of those before it, or a span those before it. Nothing on one side leaves the other as
// it is, to the bit, but for the sign of a zero.
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

// What a row's sums are multiplied by at last, and how: a zero has no sign then.
__device__ inline float inverse_of(const SoftmaxState& state) { return state.d == 0.0F ? 0.0F : __frcp_rn(state.d); }
__device__ inline float normalized(float sum, float inverse) { return __fmaf_rn(sum, inverse, 0.0F); }

// Block i has tokens 16i + g for rows 2t and 2t + 1, then 16i + g + 8 for both; or tokens in an order of the format.
using Scores = float[kBlocksOfTile][4];

// Queries of an item: fragment i is of dimensions 16i …
template <int kDim>
struct Queries {
  std::uint32_t b[kDim / 16][2];

  // From rows in shared memory.
  __device__ void load(std::uint32_t rows) {
#pragma unroll
    for (int step = 0; step < kDim / 16; step += 2) load_pair(rows, step, b[step], b[step + 1]);
  }

  // Fragments `step` and the next one.
  static __device__ void load_pair(std::uint32_t rows, int step, std::uint32_t (&first)[2],
                                   std::uint32_t (&second)[2]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    std::uint32_t tiles[4];
    load_tiles(tiles, rows + row_chunk<kDim>(lane % 8, step * 2 + lane / 8));
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

// Keys of one block, 16 dimensions: tokens 0-7 and 8-15 of dimensions 0-7, then of 8-15, in tiles of 8 by 8.
template <class Places>
__device__ void load_keys(std::uint32_t block, int step, std::uint32_t (&a)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  load_tiles_transposed(a, block + Places::k_chunk(step * 16 + lane / 16 * 8 + lane % 8, lane / 8 % 2));
}

// K · q. `k` is an address in shared memory, of kBlocksOfTile blocks one behind the other.
template <class Half, class Places, int kDim>
__device__ void multiply_keys(const Queries<kDim>& q, std::uint32_t k, Scores& s) {
  clear(s);
#pragma unroll
  for (int step = 0; step < kDim / 16; ++step) {
#pragma unroll
    for (int block = 0; block < kBlocksOfTile; ++block) {
      std::uint32_t a[4];
      load_keys<Places>(k + block * kDim * kBlockOfTile * 2, step, a);
      Half::multiply(s[block], a, q.b[step][0], q.b[step][1]);
    }
  }
}

// The same for several tiles of rows, whose queries are read as they are needed.
template <class Half, class Places, int kDim, int kTiles>
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
        load_keys<Places>(k + block * kDim * kBlockOfTile * 2, step + next, a);
#pragma unroll
        for (int i = 0; i < kTiles; ++i) Half::multiply(s[i][block], a, b[i][next][0], b[i][next][1]);
      }
    }
  }
}

// The largest score of the warp's row 2t + i, in all its lanes.
__device__ inline float top_of(const Scores& s, int i) {
  float top = -INFINITY;
#pragma unroll
  for (const auto& block : s) top = fmaxf(top, fmaxf(block[i], block[i + 2]));
#pragma unroll
  for (int step = 4; step < 32; step *= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, step));
  return top;
}
// A row that saw nothing yet has weights of 0.
__device__ inline float shift_of(float m) { return m == -INFINITY ? 0.0F : m; }
// What sums under the maximum `before` are scaled by when it becomes m.
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

// Masked scores become weights. The sums so far are scaled to the new maximum.
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
  if (!__any_sync(0xffffffff, rescale[0] != 1.0F || rescale[1] != 1.0F)) return;  // mostly: all stays as it is
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sums.d[i] = __fmul_rn(sums.d[i], rescale[i % 2]);
#pragma unroll
    for (auto& tile : sums.o) tile[i] = __fmul_rn(tile[i], rescale[i % 2]);
  }
}

// Weights of 16 tokens as the other side of a product: the warp turns them over.
struct WeightTile {
  std::uint32_t b[2];
};
template <class Half>
__device__ WeightTile turned_over(const float (&block)[4]) {
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

// 16 dimensions of one block's values: dimensions 0-7 and 8-15 of tokens 0-7, then of 8-15, in tiles of 8 by 8.
template <class Places>
__device__ void load_values(std::uint32_t block, int tile, std::uint32_t (&a)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  load_tiles_transposed(a, block + Places::v_chunk(lane / 16 * 8 + lane % 8, tile * 2 + lane / 8 % 2));
}

// V · the weights of one block. `v` is an address in shared memory, of the block's values.
template <class Half, class Places, int kDim>
__device__ void add_values(const WeightTile& weights, std::uint32_t v, Sums<kDim>& sums) {
#pragma unroll
  for (int tile = 0; tile < kDim / 16; ++tile) {
    std::uint32_t a[4];
    load_values<Places>(v, tile, a);
    Half::multiply(sums.o[tile], a, weights.b[0], weights.b[1]);
  }
}

// A tile of values in 16 bits, without scales.
template <class Half, class Places, int kDim>
__device__ void multiply_values(const Scores& weights, std::uint32_t v, Sums<kDim>& sums) {
#pragma unroll
  for (int block = 0; block < kBlocksOfTile; ++block) {
    const WeightTile tile = turned_over<Half>(weights[block]);
    add_weights<Half>(tile, sums);
    add_values<Half, Places>(tile, v + block * kDim * kBlockOfTile * 2, sums);
  }
}

// The same for several tiles of rows.
template <class Half, class Places, int kDim, int kTiles>
__device__ void multiply_values(const Scores (&weights)[kTiles], std::uint32_t v, Sums<kDim> (&sums)[kTiles]) {
#pragma unroll
  for (int block = 0; block < kBlocksOfTile; ++block) {
    WeightTile tiles[kTiles];
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      tiles[i] = turned_over<Half>(weights[i][block]);
      add_weights<Half>(tiles[i], sums[i]);
    }
#pragma unroll
    for (int tile = 0; tile < kDim / 16; ++tile) {
      std::uint32_t a[4];
      load_values<Places>(v + block * kDim * kBlockOfTile * 2, tile, a);
#pragma unroll
      for (int i = 0; i < kTiles; ++i) Half::multiply(sums[i].o[tile], a, tiles[i].b[0], tiles[i].b[1]);
    }
  }
}

// What a thread's two rows see, and what their scores are multiplied by.
struct RowsOfWarp {
  Position query[2];
  Position first, last;  // the least and the greatest of the tile's rows
  float factor[2];       // scale, and that of q
};

// Whether every row sees all keys of [first, first + kTileTokens).
__device__ inline bool sees_all(const KvView& view, const RowsOfWarp& rows, Position first) {
  return view.finer.full() && first + kTileTokens - 1 <= rows.first &&
         (view.retention.full() || rows.last - first < view.retention.window ||
          first + kTileTokens <= view.retention.sinks);
}

// Scores of what a row does not see become -inf. `token_of(half)`: the token of 16 that is in elements 2 half and
// 2 half + 1 of a block.
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

// The value at `dim` of a token, which is no number, for the rows that see it.
template <int kDim>
__device__ void add_infinity(const KvView& view, const RowsOfWarp& rows, Position key, int dim, float value,
                             Sums<kDim>& sums) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (!view.reads(rows.query[i], key) || lane_group() != dim % 8) continue;
#pragma unroll
    for (int j = 0; j < kDim / 8; ++j) {  // chosen by comparing: an index would move all sums out of their registers
      float& sum = sums.o[j / 2][i + j % 2 * 2];
      sum = j == dim / 8 ? sum + value : sum;
    }
  }
}

// Whether any of the tile's values is no number, or infinite. All are looked at: that takes a fraction of the time of
// finding out which of them matter.
template <class Half, int kDim>
__device__ bool has_infinities(const std::byte* v) {
  constexpr std::uint32_t kExponents = Half::kExponent * 0x10001U;
  constexpr std::uint32_t kLowest = (Half::kExponent & (~Half::kExponent + 1U)) * 0x10001U;
  const auto carries = [](std::uint32_t two) { return (two & kExponents) + kLowest; };  // into the places of signs
  std::uint32_t found = 0;
#pragma unroll 8
  for (int i = static_cast<int>(threadIdx.x) % 32; i < kTileTokens * kDim / 8; i += 32) {
    const uint4 eight = reinterpret_cast<const uint4*>(v)[i];
    found |= carries(eight.x) | carries(eight.y) | carries(eight.z) | carries(eight.w);
  }
  return __any_sync(0xffffffff, (found & 0x80008000U) != 0);
}

// A weight of 0 times a value that is infinite is no number: such values of tokens that not all rows see are taken
// out of the tile, and given to those that see them. True: some were. Of 16-bit formats alone; others hold finite
// numbers.
template <class Half, class Places, int kDim>
__device__ bool keep_infinities_apart(const KvView& view, const RowsOfWarp& rows, Position first, std::byte* v,
                                      Sums<kDim>& sums) {
  if (sees_all(view, rows, first) || !has_infinities<Half, kDim>(v)) return false;
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
