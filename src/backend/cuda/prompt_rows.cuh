// The rows of a prompt that a warpgroup has, and their sums, as wgmma leaves them in registers. Thread `lane` of a
// warp, g = lane / 4 and t = lane % 4, has rows g and g + 8 of its 16; numbers 8i + 2t and the next one of row g are
// in 4i and 4i + 1, of row g + 8 in the two behind them.
#pragma once

#include "backend/cuda/attention_math.cuh"
#include "backend/cuda/prompt_walk.cuh"
#include "backend/cuda/warpgroup.cuh"
#include "layout/row_numbers.h"

namespace kvasir::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

inline constexpr float kLn2 = 0.6931471805599453F;

// o, d and m are of the split at hand, whose first tile's product overwrites o and d.
template <int kDim>
struct RowSums {
  float o[kDim / 2];
  float d[4];             // of row g, twice, and of row g + 8
  float m[2];             // of the scores at hand: a split further on than o where a new one begins
  float ended_m[2];       // of the split before those, until it is folded
  float total[kDim / 2];  // of the splits before
  SoftmaxState states[2];

  __device__ void clear() {
#pragma unroll
    for (float& value : total) value = 0.0F;
    states[0] = states[1] = {};
    m[0] = m[1] = -INFINITY;
  }
  __device__ void begin_split() {
    ended_m[0] = m[0];
    ended_m[1] = m[1];
    m[0] = m[1] = -INFINITY;
  }
  __device__ void fold_split() {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const Fold by = fold(states[i], {ended_m[i], d[i * 2]});
      states[i] = by.state;
#pragma unroll
      for (int j = i * 2; j < kDim / 2; j += 4) {
        total[j] = fold(by, total[j], o[j]);
        total[j + 1] = fold(by, total[j + 1], o[j + 1]);
      }
    }
  }
  __device__ void rescale(const float (&by)[2]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      d[i * 2] = __fmul_rn(d[i * 2], by[i]);
      d[i * 2 + 1] = __fmul_rn(d[i * 2 + 1], by[i]);
#pragma unroll
      for (int j = i * 2; j < kDim / 2; j += 4) {
        o[j] = __fmul_rn(o[j], by[i]);
        o[j + 1] = __fmul_rn(o[j + 1], by[i]);
      }
    }
  }
};

template <int kDim>
using RowQueries = std::uint32_t[kDim / 16][4];  // fragments of 16 numbers each
using TileScores = float[kTileTokens / 2];
using TileWeights = std::uint32_t[kBlocksOfTile][4];

// As soften() of attention_math.cuh.
__device__ __forceinline__ void soften(float factor, TileScores& s, float (&m)[2], float (&rescale)[2]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float top = -INFINITY;
#pragma unroll
    for (int j = i * 2; j < kTileTokens / 2; j += 4) top = fmaxf(top, fmaxf(s[j], s[j + 1]));
    top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 2));
    top = fmaxf(m[i], __fmul_rn(top, factor));
    const float shift = top == -INFINITY ? 0.0F : top;  // a row that saw nothing yet has weights of 0
    rescale[i] = m[i] == -INFINITY ? 0.0F : exp2_fast(__fsub_rn(m[i], shift));
    m[i] = top;
#pragma unroll
    for (int j = i * 2; j < kTileTokens / 2; j += 4) {
      s[j] = exp2_fast(__fmaf_rn(s[j], factor, -shift));
      s[j + 1] = exp2_fast(__fmaf_rn(s[j + 1], factor, -shift));
    }
  }
}

template <class Half>
__device__ __forceinline__ void pack(const TileScores& s, TileWeights& p) {
#pragma unroll
  for (int i = 0; i < kTileTokens / 4; ++i) p[i / 4][i % 4] = Half::pack(s[i * 2], s[i * 2 + 1]);
}

// Which rows they are.
struct ConsumerRows {
  const AttentionArgs& args;
  const GroupWalk& walk;
  int first;  // of the group's rows

  __device__ int count() const { return walk.group->tokens * args.heads_of_tile; }
  __device__ int own(int i) const {
    return first + static_cast<int>(threadIdx.x) % hopper::kGroupThreads / 32 * 16 + lane_group() + i * 8;
  }
  __device__ int head(int row) const {
    return walk.kv_head * args.heads_per_kv + walk.group->first_head + row % args.heads_of_tile;
  }
  __device__ std::int64_t batch_row(int row) const { return walk.group->row + row / args.heads_of_tile; }
  // Rows that are not there see what the last one sees.
  __device__ Position query(int row) const {
    return walk.group->query + min(row / args.heads_of_tile, walk.group->tokens - 1);
  }

  // To 16 bits; rows that are not there are zeros.
  template <class Half, int kDim>
  __device__ void load_queries(RowQueries<kDim>& q) const {
    const Matrix& from = args.queries;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = own(i);
      const bool there = row < count();
      const float* numbers = from.data + batch_row(row) * from.stride + head(row) * kDim + lane_pair() * 2;
#pragma unroll
      for (int j = 0; j < kDim / 8; ++j) {
        const float2 two = there ? *reinterpret_cast<const float2*>(numbers + j * 8) : float2{0.0F, 0.0F};
        q[j / 2][i + j % 2 * 2] = Half::pack(held(two.x), held(two.y));
      }
    }
  }

  template <int kDim>
  __device__ void write(const RowSums<kDim>& sums) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = own(i);
      if (row >= count()) continue;
      const SoftmaxState& state = sums.states[i];
      const float inverse = state.d == 0.0F ? 0.0F : __frcp_rn(state.d);
      float* to = args.out.data + batch_row(row) * args.out.stride + head(row) * kDim + lane_pair() * 2;
#pragma unroll
      for (int j = 0; j < kDim / 8; ++j) {
        *reinterpret_cast<float2*>(to + j * 8) = {__fmul_rn(sums.total[j * 4 + i * 2], inverse),
                                                  __fmul_rn(sums.total[j * 4 + i * 2 + 1], inverse)};
      }
      if (lane_pair() == 0 && args.states != nullptr) {
        const int heads = args.heads_per_kv * args.view.layout.shape.heads;
        args.states[batch_row(row) * heads + head(row)] = {__fmul_rn(state.m, kLn2), state.d};
      }
    }
  }
};

#endif

}  // namespace kvasir::cuda
