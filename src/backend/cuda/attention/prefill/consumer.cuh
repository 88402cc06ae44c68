// A consumer warpgroup's query rows and their sums, in the register layout of wgmma_rows.cuh.
#pragma once

#include "backend/cuda/attention/attention_math.cuh"
#include "backend/cuda/attention/prefill/tile_scheduler.cuh"
#include "backend/cuda/attention/prefill/wgmma_rows.cuh"
#include "backend/cuda/gemm/gemm_rows.cuh"
#include "layout/row_numbers.h"

namespace kvasir::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

inline constexpr float kLn2 = 0.6931471805599453F;

// o, d and m are of the current chunk, whose first wgmma overwrites o and d. What is needed once a chunk or group is
// in shared memory, since registers are scarce.
template <int kDim>
struct RowSums {
  GroupTotals<kDim>& totals;
  float o[kDim / 2];
  float d[4];             // of row g, twice, and of row g + 8
  float m[2];             // of the current scores, which may be a chunk ahead of o
  float group[kDim / 2];  // of the current group's earlier chunks
  float rescaling[2];     // factors of o and d under the new m

  __device__ explicit RowSums(GroupTotals<kDim>& all) : totals(all) {
    clear_group();
    m[0] = m[1] = -INFINITY;
  }
  __device__ void begin_chunk() {
    totals.ended_m[thread()] = {m[0], m[1]};
    m[0] = m[1] = -INFINITY;
  }
  __device__ void merge_chunk() {
    float4& held = totals.group_states[thread()];
    const float4 states = held;
    const float2 ended = totals.ended_m[thread()];
    const MergeScales g = merge_scales({states.x, states.y}, {ended.x, d[0]});
    const MergeScales h = merge_scales({states.z, states.w}, {ended.y, d[2]});
    held = {g.state.m, g.state.d, h.state.m, h.state.d};
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) group[i] = merge_sums(i / 2 % 2 == 0 ? g : h, group[i], o[i]);
  }
  // Merges the earlier groups before the current one.
  __device__ void add_totals() {
    const float4 before = totals.states[thread()];
    const MergeScales g = merge_scales({before.x, before.y}, state(0));
    const MergeScales h = merge_scales({before.z, before.w}, state(1));
    totals.group_states[thread()] = {g.state.m, g.state.d, h.state.m, h.state.d};
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i) {
      const float4 four = totals.o[i][thread()];
      group[i * 4] = merge_sums(g, four.x, group[i * 4]);
      group[i * 4 + 1] = merge_sums(g, four.y, group[i * 4 + 1]);
      group[i * 4 + 2] = merge_sums(h, four.z, group[i * 4 + 2]);
      group[i * 4 + 3] = merge_sums(h, four.w, group[i * 4 + 3]);
    }
  }
  // Saves them for the next group.
  __device__ void put_aside() {
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i) {
      totals.o[i][thread()] = {group[i * 4], group[i * 4 + 1], group[i * 4 + 2], group[i * 4 + 3]};
    }
    totals.states[thread()] = totals.group_states[thread()];
    clear_group();
  }
  __device__ SoftmaxState state(int i) const {
    const float4 states = totals.group_states[thread()];
    return i == 0 ? SoftmaxState{states.x, states.y} : SoftmaxState{states.z, states.w};
  }
  __device__ void rescale(const float (&by)[2]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) d[i] = __fmul_rn(d[i], by[i / 2]);
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) o[i] = __fmul_rn(o[i], by[i / 2 % 2]);
  }

  // Normalizes `group`, which becomes the output.
  __device__ void normalize() {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float inverse = inverse_of(state(i));
#pragma unroll
      for (int j = i * 2; j < kDim / 2; j += 4) {
        group[j] = normalized(group[j], inverse);
        group[j + 1] = normalized(group[j + 1], inverse);
      }
    }
  }
  // hadamard() of the output, by four threads: number 8j + 2t + e of row i is in 4j + 2i + e. The same sums and
  // differences give the same bits.
  __device__ void hadamard() {
#pragma unroll
    for (int i = 0; i < kDim / 2; i += 2) exchange(group[i], group[i + 1]);
#pragma unroll
    for (int apart = 1; apart < 4; apart *= 2) {
      const bool second = (lane_pair() & apart) != 0;
#pragma unroll
      for (float& one : group) {
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
        for (int i = 0; i < 4; ++i) exchange(group[at * 4 + i], group[(at + half) * 4 + i]);
      }
    }
    static_assert(kDim == 64 || kDim == 128);
    constexpr float kRoot = kDim == 64 ? 0.125F : 0.125F * 0.70710678F;
#pragma unroll
    for (float& one : group) one = __fmul_rn(one, kRoot);
  }

 private:
  static __device__ void exchange(float& a, float& b) {
    const float sum = __fadd_rn(a, b);
    b = __fsub_rn(a, b);
    a = sum;
  }
  static __device__ int thread() { return static_cast<int>(threadIdx.x) % hopper::kWarpgroupThreads; }
  __device__ void clear_group() {
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) group[i] = 0.0F;
    totals.group_states[thread()] = {-INFINITY, 0.0F, -INFINITY, 0.0F};
  }
};

// The warpgroup's query rows in the batch.
struct ConsumerRows {
  const AttentionArgs& args;
  const WorkTile& work;
  int first;  // among the q tile's rows

  __device__ int count() const { return work.q_tile->tokens * args.heads_of_tile; }
  __device__ int own(int i) const {
    return first + static_cast<int>(threadIdx.x) % hopper::kWarpgroupThreads / 32 * 16 + lane_group() + i * 8;
  }
  __device__ int head(int row) const {
    return (args.first_kv_head + work.kv_head) * args.heads_per_kv + work.q_tile->first_head +
           row % args.heads_of_tile;
  }
  __device__ std::int64_t batch_row(int row) const { return work.q_tile->row + row / args.heads_of_tile; }
  // Missing rows get the last position.
  __device__ Position query(int row) const {
    return work.q_tile->query + min(row / args.heads_of_tile, work.q_tile->tokens - 1);
  }

  // Index over rows and heads of the batch.
  template <int kDim>
  __device__ std::int64_t state(int row) const {
    return batch_row(row) * (args.out.cols / kDim) + head(row);
  }
  // The factor of the scores of the thread's row `i` of two, as TileRows::factor().
  template <int kDim>
  __device__ float factor(int i) const {
    const int row = own(i);
    if (row >= count() || args.q_scales == nullptr) return args.scale;
    const float q_scale = args.q_scales[state<kDim>(row)];
    return q_scale != 0.0F ? __fmul_rn(args.scale, q_scale) : args.scale;
  }

  // Writes `group` after normalize().
  template <int kDim>
  __device__ void write(const RowSums<kDim>& sums) const {
    const float(&out)[kDim / 2] = sums.group;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = own(i);
      if (row >= count()) continue;
      const SoftmaxState state = sums.state(i);
      const std::int64_t to_row = batch_row(row);  // these are read once, before anything is written
      const std::int64_t state_at = this->state<kDim>(row);
      const int column = head(row) * kDim;
      const auto two = [&](int j) { return float2{out[j * 4 + i * 2], out[j * 4 + i * 2 + 1]}; };
      float* to = args.out.data + to_row * args.out.stride + column + lane_pair() * 2;
#pragma unroll
      for (int j = 0; j < kDim / 8; ++j) *reinterpret_cast<float2*>(to + j * 8) = two(j);
      const GemmInputRow gemm_row{args.also, to_row};
      gemm_row.visit([&](auto numbers) {
#pragma unroll
        for (int j = 0; j < kDim / 8; ++j) numbers.put(column + lane_pair() * 2 + j * 8, two(j));
      });
      if (column == 0) gemm_row.pad(args.out.cols, lane_pair(), 4);
      if (lane_pair() == 0 && args.states != nullptr) {
        args.states[state_at] = {__fmul_rn(state.m, kLn2), state.d};
      }
    }
  }

  // Loads prepared queries; missing rows become zeros.
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

  // Casts float32 queries.
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
