// What each cached row gets of the queries that are watched, in float32. Simple, not fast.
#include "backend/cuda/attention/attention_kernels.h"
#include "backend/cuda/attention/kv_tile.cuh"
#include "backend/cuda/attention/score_rule.cuh"
#include "backend/cuda/runtime/cuda_check.h"

namespace kvasir::cuda {
namespace {

constexpr int kThreads = 512;

// A query's product with a key, by one thread.
__device__ float product(const KvView& view, const float* q, BlockId block, int head, int token_in_block) {
  const std::byte* keys = view.k_head(block, head);
  float sum = 0;
  visit_codec(view.layout.k_format, [&](auto codec) {
    using Codec = decltype(codec);
    for (int d = 0; d < view.layout.shape.k_dim; ++d) {
      sum = __fmaf_rn(q[d], number_in<Codec, Side::kKeys>(keys, view, token_in_block, d), sum);
    }
    if constexpr (kHasScale<Codec>) sum = __fmul_rn(sum, scale_at<Side::kKeys>(view, block, head, token_in_block));
  });
  return sum;
}

// Reduces over the CTA; the result is in all threads.
template <class Join>
__device__ float join_threads(float value, float* shared, const Join& join) {
  __syncthreads();
  shared[threadIdx.x] = value;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) shared[threadIdx.x] = join(shared[threadIdx.x], shared[threadIdx.x + half]);
  }
  __syncthreads();
  return shared[0];
}

// The weights of a query head over the keys up to its own, into `shares`; returns their sum. A thread has every
// kThreads-th key, here and wherever shares are read.
__device__ float weigh_keys(const WatchedRows& rows, const SequenceView& sequence, int row, int head, float* shares) {
  __shared__ float shared[kThreads];
  const KvLayout& layout = rows.view.layout;
  const int kv_head = static_cast<int>(blockIdx.x);
  const Position query = sequence.start + row;
  const float* q =
      rows.q + (static_cast<std::int64_t>(sequence.first_row + row) * rows.heads + head) * layout.shape.k_dim;
  const float sink = rows.rule.sink_logits == nullptr ? -INFINITY : rows.rule.sink_logits[head];
  float top = sink;
  for (Position key = threadIdx.x; key <= query; key += kThreads) {
    float s = -INFINITY;
    if (rows.view.reads(query, key)) {
      const float by_q = product(rows.view, q, sequence.block_of(key, layout.block_tokens), kv_head,
                                 static_cast<int>(key % layout.block_tokens));
      s = score_of(rows.rule, head, by_q, key - query);
    }
    shares[key] = s;
    top = fmaxf(top, s);
  }
  top = join_threads(top, shared, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0;
  for (Position key = threadIdx.x; key <= query; key += kThreads) {
    shares[key] = expf(shares[key] - top);
    sum = __fadd_rn(sum, shares[key]);
  }
  sum = join_threads(sum, shared, [](float a, float b) { return __fadd_rn(a, b); });
  return sink == -INFINITY ? sum : __fadd_rn(sum, expf(sink - top));
}

// A CTA for each KV head. Queries run one after the other, so that sums have one order.
__global__ void watch(const WatchedRows rows) {
  const SequenceView sequence = *rows.sequence;
  const int kv_head = static_cast<int>(blockIdx.x);
  const int heads_per_kv = rows.heads / rows.view.layout.shape.heads;
  float* shares = rows.scratch + kv_head * rows.watch.stride;
  float* scores = rows.watch.scores + kv_head * rows.watch.stride;
  for (int row = rows.watch.first; row < sequence.rows; ++row) {
    const Position query = sequence.start + row;
    const auto position = static_cast<float>(rows.watch.position + row - rows.watch.first);
    for (int head = kv_head * heads_per_kv; head < (kv_head + 1) * heads_per_kv; ++head) {
      const float sum = weigh_keys(rows, sequence, row, head, shares);
      for (Position key = threadIdx.x; key <= query; key += kThreads) {
        const float share = __fdiv_rn(shares[key], sum);
        if (rows.watch.note == AttentionWatch::Note::kShares) {
          scores[key] = __fadd_rn(scores[key], share);
        } else if (key == query || share * static_cast<float>(query + 1) > 1.0F) {
          scores[key] = position;
        }
      }
    }
  }
}

}  // namespace

void watch_rows(const WatchedRows& rows, cudaStream_t stream) {
  watch<<<static_cast<unsigned>(rows.view.layout.shape.heads), kThreads, 0, stream>>>(rows);
  check_launch("watching attention");
}

}  // namespace kvasir::cuda
