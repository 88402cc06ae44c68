// Attention in float32 over any format: if K or V is float32, and to track scores. Simple, not fast.
#include "backend/cuda/attention/attention_kernels.h"
#include "backend/cuda/attention/kv_tile.cuh"
#include "backend/cuda/ops/warp_rows.cuh"
#include "backend/cuda/runtime/cuda_check.h"

namespace kvasir::cuda {
namespace {

constexpr float kLn2 = 0.6931471805599453F;
constexpr float kLog2E = 1.4426950408889634F;

// A number with its scale.
template <class Codec, Side kSide>
__device__ float value_at(const KvView& view, BlockId block, int head, int token_in_block, int dim) {
  const float number = number_at<Codec, kSide>(view, block, head, token_in_block, dim);
  if constexpr (kHasScale<Codec>) return __fmul_rn(number, scale_at<kSide>(view, block, head, token_in_block));
  return number;
}

// The unscaled score of a key, by one thread.
__device__ float score(const KvView& view, const float* q, BlockId block, int head, int token_in_block) {
  float sum = 0;
  visit_codec(view.layout.k_format, [&](auto codec) {
    for (int d = 0; d < view.layout.shape.k_dim; ++d) {
      sum = __fmaf_rn(q[d], value_at<decltype(codec), Side::kKeys>(view, block, head, token_in_block, d), sum);
    }
  });
  return sum;
}

constexpr int kMostDims = 16;  // of a lane: heads of up to 512

struct F32Row {
  const KvView& view;
  const BlockId* blocks;
  Position query;
  int kv_head;
};

// Adds 32 values. Lane i has the weight of key i; a lane sums dimensions lane, lane + 32, ...
__device__ void add_values(const F32Row& row, Position first, float weight, float (&o)[kMostDims]) {
  const KvLayout& layout = row.view.layout;
  const int lane = threadIdx.x;
  visit_codec(layout.v_format, [&](auto codec) {
    for (int i = 0; i < 32; ++i) {
      const float w = __shfl_sync(kAllLanes, weight, i);
      if (w == 0.0F) continue;
      const Position key = first + i;
      const BlockId block = row.blocks[key / layout.block_tokens];
      const int token_in_block = static_cast<int>(key % layout.block_tokens);
#pragma unroll
      for (int j = 0; j < kMostDims; ++j) {
        if (j * 32 + lane >= layout.shape.v_dim) break;
        o[j] = __fmaf_rn(
            w, value_at<decltype(codec), Side::kValues>(row.view, block, row.kv_head, token_in_block, j * 32 + lane),
            o[j]);
      }
    }
  });
}

__global__ void attend(const F32Attention args) {
  const int lane = threadIdx.x;
  const KvLayout& layout = args.view.layout;
  const RowOfBatch owner = row_of_batch(args.sequences, blockIdx.x);
  const SequenceView sequence = args.sequences[owner.sequence];
  const int head = blockIdx.y;
  const int batch_row = sequence.first_row + owner.row;
  const std::int64_t at = static_cast<std::int64_t>(batch_row) * args.heads + head;
  const F32Row row{args.view, sequence.blocks, sequence.start + owner.row, head / (args.heads / layout.shape.heads)};
  const float* q = args.q + at * layout.shape.k_dim;
  const float scale = args.scale * kLog2E;
  float o[kMostDims] = {};
  float m = -INFINITY;
  float d = 0.0F;  // this lane's part
  for (Position first = 0; first <= row.query; first += 32) {
    const Position key = first + lane;
    const bool sees = row.view.reads(row.query, key);
    if (__ballot_sync(kAllLanes, sees) == 0) continue;
    float s = -INFINITY;
    if (sees) {
      s = __fmul_rn(score(row.view, q, row.blocks[key / layout.block_tokens], row.kv_head,
                          static_cast<int>(key % layout.block_tokens)),
                    scale);
    }
    const float top = fmaxf(m, warp_max(s));
    const float rescale = m == -INFINITY ? 0.0F : exp2f(m - top);
    const float weight = sees ? exp2f(s - top) : 0.0F;
    m = top;
    d = __fmaf_rn(d, rescale, weight);
    for (float& value : o) value *= rescale;
    add_values(row, first, weight, o);
  }
  const float sum = warp_sum(d);
  float* to = args.out.data + batch_row * args.out.stride + head * layout.shape.v_dim;
#pragma unroll
  for (int j = 0; j < kMostDims; ++j) {
    if (j * 32 + lane < layout.shape.v_dim) to[j * 32 + lane] = sum == 0.0F ? 0.0F : __fdiv_rn(o[j], sum);
  }
  if (lane == 0 && args.states != nullptr) args.states[at] = {m * kLn2, sum};
}

constexpr int kWatchThreads = 512;

// Reduces over the CTA; the result is in all threads.
template <class Join>
__device__ float join_threads(float value, float* shared, const Join& join) {
  __syncthreads();
  shared[threadIdx.x] = value;
  for (int half = kWatchThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) shared[threadIdx.x] = join(shared[threadIdx.x], shared[threadIdx.x + half]);
  }
  __syncthreads();
  return shared[0];
}

// A CTA for each KV head. Queries run one after the other, so that sums have one order.
__global__ void watch(const WatchedRows rows) {
  __shared__ float shared[kWatchThreads];
  const KvLayout& layout = rows.view.layout;
  const SequenceView sequence = *rows.sequence;
  const int kv_head = blockIdx.x;
  const int heads_per_kv = rows.heads / layout.shape.heads;
  float* shares = rows.scratch + kv_head * rows.watch.stride;
  float* scores = rows.watch.scores + kv_head * rows.watch.stride;
  const float scale = rows.scale * kLog2E;
  for (int row = rows.watch.first; row < sequence.rows; ++row) {
    const Position query = sequence.start + row;
    const auto position = static_cast<float>(rows.watch.position + row - rows.watch.first);
    for (int h = kv_head * heads_per_kv; h < (kv_head + 1) * heads_per_kv; ++h) {
      const float* q =
          rows.q + (static_cast<std::int64_t>(sequence.first_row + row) * rows.heads + h) * layout.shape.k_dim;
      float top = -INFINITY;
      for (Position key = threadIdx.x; key <= query; key += kWatchThreads) {
        float s = -INFINITY;
        if (rows.view.reads(query, key)) {
          s = __fmul_rn(score(rows.view, q, sequence.blocks[key / layout.block_tokens], kv_head,
                              static_cast<int>(key % layout.block_tokens)),
                        scale);
        }
        shares[key] = s;
        top = fmaxf(top, s);
      }
      top = join_threads(top, shared, [](float a, float b) { return fmaxf(a, b); });
      float sum = 0;
      for (Position key = threadIdx.x; key <= query; key += kWatchThreads) {
        shares[key] = exp2f(shares[key] - top);
        sum += shares[key];
      }
      sum = join_threads(sum, shared, [](float a, float b) { return __fadd_rn(a, b); });
      for (Position key = threadIdx.x; key <= query; key += kWatchThreads) {
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

void f32_attention(const F32Attention& args, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(args.rows), static_cast<unsigned>(args.heads));
  attend<<<grid, 32, 0, stream>>>(args);
  check_launch("f32 attention");
}

void watch_rows(const WatchedRows& rows, cudaStream_t stream) {
  watch<<<static_cast<unsigned>(rows.view.layout.shape.heads), kWatchThreads, 0, stream>>>(rows);
  check_launch("tracking attention scores");
}

}  // namespace kvasir::cuda
