// The rows of a prompt that a warpgroup has, and their sums, as wide_rows.cuh has them.
#pragma once

#include "backend/cuda/attention_math.cuh"
#include "backend/cuda/product_rows.cuh"
#include "backend/cuda/prompt_walk.cuh"
#include "backend/cuda/wide_rows.cuh"
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
      const ProductRow product_row{args.also, batch_row(row)};
      float* to = args.out.data + batch_row(row) * args.out.stride + head(row) * kDim + lane_pair() * 2;
#pragma unroll
      for (int j = 0; j < kDim / 8; ++j) {
        const float2 two{__fmul_rn(sums.total[j * 4 + i * 2], inverse),
                         __fmul_rn(sums.total[j * 4 + i * 2 + 1], inverse)};
        *reinterpret_cast<float2*>(to + j * 8) = two;
        product_row.put(head(row) * kDim + lane_pair() * 2 + j * 8, two);
      }
      if (head(row) == 0) product_row.pad(args.out.cols, lane_pair(), 4);
      if (lane_pair() == 0 && args.states != nullptr) {
        const int heads = args.heads_per_kv * args.view.layout.shape.heads;
        args.states[batch_row(row) * heads + head(row)] = {__fmul_rn(state.m, kLn2), state.d};
      }
    }
  }
};

#endif

}  // namespace kvasir::cuda
