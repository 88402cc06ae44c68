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

// o, d and m are of the split at hand, whose first tile's product overwrites o and d. What is needed once in a split
// or in a span only is in shared memory, since registers are scarce.
template <int kDim>
struct RowSums {
  SpanTotals<kDim>& totals;
  float o[kDim / 2];
  float d[4];            // of row g, twice, and of row g + 8
  float m[2];            // of the scores at hand: a split further on than o where a new one begins
  float span[kDim / 2];  // of the splits of the span at hand, those before
  float rescaling[2];    // what o and d are to be multiplied by, of a new m

  __device__ explicit RowSums(SpanTotals<kDim>& all) : totals(all) {
    clear_span();
    m[0] = m[1] = -INFINITY;
  }
  __device__ void begin_split() {
    totals.ended_m[thread()] = {m[0], m[1]};
    m[0] = m[1] = -INFINITY;
  }
  __device__ void fold_split() {
    float4& held = totals.span_states[thread()];
    const float4 states = held;
    const float2 ended = totals.ended_m[thread()];
    const Fold g = fold({states.x, states.y}, {ended.x, d[0]});
    const Fold h = fold({states.z, states.w}, {ended.y, d[2]});
    held = {g.state.m, g.state.d, h.state.m, h.state.d};
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) span[i] = fold(i / 2 % 2 == 0 ? g : h, span[i], o[i]);
  }
  // The spans that were put aside join the one at hand, as what lies before it.
  __device__ void add_totals() {
    const float4 before = totals.states[thread()];
    const Fold g = fold({before.x, before.y}, state(0));
    const Fold h = fold({before.z, before.w}, state(1));
    totals.span_states[thread()] = {g.state.m, g.state.d, h.state.m, h.state.d};
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i) {
      const float4 four = totals.o[i][thread()];
      span[i * 4] = fold(g, four.x, span[i * 4]);
      span[i * 4 + 1] = fold(g, four.y, span[i * 4 + 1]);
      span[i * 4 + 2] = fold(h, four.z, span[i * 4 + 2]);
      span[i * 4 + 3] = fold(h, four.w, span[i * 4 + 3]);
    }
  }
  // For the next span.
  __device__ void put_aside() {
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i) {
      totals.o[i][thread()] = {span[i * 4], span[i * 4 + 1], span[i * 4 + 2], span[i * 4 + 3]};
    }
    totals.states[thread()] = totals.span_states[thread()];
    clear_span();
  }
  __device__ SoftmaxState state(int i) const {
    const float4 states = totals.span_states[thread()];
    return i == 0 ? SoftmaxState{states.x, states.y} : SoftmaxState{states.z, states.w};
  }
  __device__ void rescale(const float (&by)[2]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) d[i] = __fmul_rn(d[i], by[i / 2]);
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) o[i] = __fmul_rn(o[i], by[i / 2 % 2]);
  }

  // What lies in `span` becomes outputs.
  __device__ void normalize() {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float inverse = inverse_of(state(i));
#pragma unroll
      for (int j = i * 2; j < kDim / 2; j += 4) {
        span[j] = normalized(span[j], inverse);
        span[j + 1] = normalized(span[j + 1], inverse);
      }
    }
  }
  // Which are turned, by four threads together: hadamard() of rows of which number 8j + 2t + e of row i is in
  // 4j + 2i + e. The same sums and differences, so the same bits.
  __device__ void turn() {
#pragma unroll
    for (int i = 0; i < kDim / 2; i += 2) exchange(span[i], span[i + 1]);
#pragma unroll
    for (int apart = 1; apart < 4; apart *= 2) {
      const bool second = (lane_pair() & apart) != 0;
#pragma unroll
      for (float& one : span) {
        const float other = __shfl_xor_sync(0xffffffff, one, apart);
        one = second ? __fsub_rn(other, one) : __fadd_rn(one, other);
      }
    }
#pragma unroll
    for (int half = 1; half < kDim / 8; half *= 2) {
#pragma unroll
      for (int pair = 0; pair < kDim / 16; ++pair) {
        const int at = pair / half * 2 * half + pair % half;
#pragma unroll
        for (int i = 0; i < 4; ++i) exchange(span[at * 4 + i], span[(at + half) * 4 + i]);
      }
    }
    static_assert(kDim == 64 || kDim == 128);
    constexpr float kRoot = kDim == 64 ? 0.125F : 0.125F * 0.70710678F;
#pragma unroll
    for (float& one : span) one = __fmul_rn(one, kRoot);
  }

 private:
  static __device__ void exchange(float& a, float& b) {
    const float sum = __fadd_rn(a, b);
    b = __fsub_rn(a, b);
    a = sum;
  }
  static __device__ int thread() { return static_cast<int>(threadIdx.x) % hopper::kGroupThreads; }
  __device__ void clear_span() {
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) span[i] = 0.0F;
    totals.span_states[thread()] = {-INFINITY, 0.0F, -INFINITY, 0.0F};
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
    return (args.first_kv_head + walk.kv_head) * args.heads_per_kv + walk.group->first_head +
           row % args.heads_of_tile;
  }
  __device__ std::int64_t batch_row(int row) const { return walk.group->row + row / args.heads_of_tile; }
  // Rows that are not there see what the last one sees.
  __device__ Position query(int row) const {
    return walk.group->query + min(row / args.heads_of_tile, walk.group->tokens - 1);
  }

  // Rows and heads of a batch, one after the other.
  template <int kDim>
  __device__ std::int64_t state(int row) const {
    return batch_row(row) * (args.out.cols / kDim) + head(row);
  }
  // What scores of the thread's row `i` of two are multiplied by, as TileRows has it.
  template <int kDim>
  __device__ float factor(int i) const {
    const int row = own(i);
    if (row >= count() || args.q_scales == nullptr) return args.scale;
    const float q_scale = args.q_scales[state<kDim>(row)];
    return q_scale != 0.0F ? __fmul_rn(args.scale, q_scale) : args.scale;
  }

  // Of the whole context, in `span`, as normalize() leaves it.
  template <int kDim>
  __device__ void write(const RowSums<kDim>& sums) const {
    const float(&out)[kDim / 2] = sums.span;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = own(i);
      if (row >= count()) continue;
      const SoftmaxState state = sums.state(i);
      const std::int64_t to_row = batch_row(row);  // and what follows: read once, before anything is written
      const std::int64_t state_at = this->state<kDim>(row);
      const int column = head(row) * kDim;
      const auto two = [&](int j) { return float2{out[j * 4 + i * 2], out[j * 4 + i * 2 + 1]}; };
      float* to = args.out.data + to_row * args.out.stride + column + lane_pair() * 2;
#pragma unroll
      for (int j = 0; j < kDim / 8; ++j) *reinterpret_cast<float2*>(to + j * 8) = two(j);
      const ProductRow product_row{args.also, to_row};
      product_row.visit([&](auto numbers) {
#pragma unroll
        for (int j = 0; j < kDim / 8; ++j) numbers.put(column + lane_pair() * 2 + j * 8, two(j));
      });
      if (column == 0) product_row.pad(args.out.cols, lane_pair(), 4);
      if (lane_pair() == 0 && args.states != nullptr) {
        args.states[state_at] = {__fmul_rn(state.m, kLn2), state.d};
      }
    }
  }

  // As they were prepared; rows that are not there are zeros.
  template <int kDim>
  __device__ void load_prepared(RowQueries<kDim>& q) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = own(i);
      const bool there = row < count();
      const std::uint16_t* numbers = args.q + (there ? state<kDim>(row) : 0) * args.k_stride + lane_pair() * 2;
#pragma unroll
      for (int j = 0; j < kDim / 8; ++j) {
        q[j / 2][i + j % 2 * 2] = there ? *reinterpret_cast<const std::uint32_t*>(numbers + j * 8) : 0;
      }
    }
  }

  // As they came, to 16 bits.
  template <class Half, int kDim>
  __device__ void round_queries(RowQueries<kDim>& q) const {
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
};

#endif

}  // namespace kvasir::cuda
