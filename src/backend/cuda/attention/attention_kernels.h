// The attention kernels, one launch each. cuda_attention chooses among them; README.md says which runs when.
#pragma once

#include <cuda_runtime.h>

#include "backend/backend.h"
#include "backend/cuda/attention/attention_args.h"

namespace kvasir::cuda {

// Whether K is multiplied as bf16. All other formats use f16, which holds every integer code and every fp8 exactly.
constexpr bool multiplies_bf16_keys(KvFormat format) { return format == KvFormat::kBF16; }
// Whether V is. Scales are multiplied into the softmax weights, which may then be too small for f16.
constexpr bool multiplies_bf16_values(KvFormat format) {
  return format != KvFormat::kF16 && format != KvFormat::kTop50 && format != KvFormat::kTop25;
}

// Queries as the keys want them: rotated, and rounded to integers, if keys are integers.
struct QueryRows {
  Matrix q;  // [rows][heads * k_dim]
  int heads = 0;
  int k_dim = 0;
  KvFormat k_format = KvFormat::kF16;
  std::uint16_t* halves = nullptr;  // [rows][heads][stride], zeros from k_dim on; or null
  float* floats = nullptr;          // [rows][heads][k_dim], scaled; or null
  float* scales = nullptr;          // [rows][heads], beside halves, if keys are integers
  int stride = 0;
};
void prepare_queries(const QueryRows& rows, cudaStream_t stream);

// Whether the fast kernels apply: K and V in one format, heads of 64 or 128, blocks of 16 tokens that begin at
// multiples of `alignment` bytes.
bool usual_blocks(const KvView& view, int alignment);
constexpr bool is_half(KvFormat format) { return format == KvFormat::kF16 || format == KvFormat::kBF16; }

// decode/generic.cu: partials of every chunk of every tile. With merges_chunk_groups, tma_attention(),
// fp8_attention() and, over int8, int_attention() leave partials of chunk groups instead.
void generic_attention(const AttentionArgs& args, cudaStream_t stream);
// decode/cp_async.cu: the same for usual f16 and bf16. False: it does not apply, and nothing was launched.
bool cp_async_attention(const AttentionArgs& args, cudaStream_t stream);
// decode/tma.cu: the same on sm_90a. REQUIRES: supports_tma().
void tma_attention(const AttentionArgs& args, cudaStream_t stream);
bool supports_tma(const KvView& view);
// decode/tma_whole_row.cu: out and states, without partials, by args.ctas_per_row CTAs a row. REQUIRES:
// supports_tma(), and WholeRows::fits() or ctas_per_row() > 0.
void whole_row_attention(const AttentionArgs& args, cudaStream_t stream);
// decode/tma_low_latency.cu: as tma_attention(), faster if fits_low_latency().
void low_latency_attention(const AttentionArgs& args, cudaStream_t stream);
bool fits_low_latency(const AttentionArgs& args);
// decode/int.cu: partials, or out if args.whole_rows is there. REQUIRES: supports_int().
void int_attention(const AttentionArgs& args, cudaStream_t stream);
bool supports_int(const KvView& view);
// decode/fp8.cu: the same. REQUIRES: supports_fp8().
void fp8_attention(const AttentionArgs& args, cudaStream_t stream);
bool supports_fp8(const KvView& view);
// prefill/wgmma.cu: out and states of prefill tiles. REQUIRES: supports_tma(), or dequantized blocks (dequant_kv.h),
// whose scales are `scales` or null.
void wgmma_attention(const AttentionArgs& args, const float* scales, cudaStream_t stream);
// prefill/shared_prefix.cu: partials into prefix_out and prefix_states. REQUIRES: as wgmma_attention(); full
// retention; at most kCohortRows query heads a KV head.
void shared_prefix_attention(const AttentionArgs& args, const PrefixArgs& prefixes, cudaStream_t stream);
// Merges prefix partials and partials, in order, into out and states; rotates outputs if hadamard_out.
void merge_states(const AttentionArgs& args, cudaStream_t stream);
// The same bits, faster with few rows of many chunks. REQUIRES: merges_chunk_groups is false.
void merge_states_wide(const AttentionArgs& args, cudaStream_t stream);

// decode/f32.cu: everything in float32, if K or V is; a warp for each row and head.
struct F32Attention {
  KvView view;
  const SequenceView* sequences = nullptr;  // device memory
  int rows = 0;                             // summed over the sequences
  int heads = 0;
  float scale = 1.0F;
  const float* q = nullptr;  // [rows][heads][k_dim], of prepare_queries()
  Matrix out;
  SoftmaxState* states = nullptr;
};
void f32_attention(const F32Attention& args, cudaStream_t stream);

// Rotates each head of the rows by hadamard().
void hadamard_rows(Matrix x, int heads, const SequenceView* sequences, int rows, cudaStream_t stream);

struct MergeRows {
  Matrix into, from;
  SoftmaxState* into_states = nullptr;
  const SoftmaxState* from_states = nullptr;
  int heads = 0;
  const SequenceView* sequences = nullptr;
};
void merge_rows(const MergeRows& rows, int row_count, cudaStream_t stream);

struct WatchedRows {
  KvView view;
  const SequenceView* sequence = nullptr;  // device memory
  int heads = 0;
  float scale = 1.0F;
  const float* q = nullptr;  // [rows][heads][k_dim], of prepare_queries()
  AttentionWatch watch;
  float* scratch = nullptr;  // [KV heads][stride]
};
void watch_rows(const WatchedRows& rows, cudaStream_t stream);

}  // namespace kvasir::cuda
