// The attention kernels, one launch each. cuda_attention chooses among them; README.md says which runs when.
#pragma once

#include <cuda_runtime.h>

#include "backend/backend.h"
#include "backend/cuda/attention/attention_args.h"

namespace kvasir::cuda {

// Longer heads are an Error on this device; tensor cores take heads of at most kMostTileDim.
inline constexpr int kMostHeadDim = 1024;
inline constexpr int kMostTileDim = 256;

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

// Attention by any rule of scores over any layout, in float32 (decode/any_rule.cu). A tile is up to kTileRows query
// heads of a KV head, of neighbouring tokens of a chain or one of a tree. Every chunk that a tile sees leaves
// partials, which merge in the order of the context.
struct RuleAttention {
  KvView view;
  const SequenceView* sequences = nullptr;  // device memory
  int sequence_count = 0;
  ScoreRule rule;
  int heads = 0;
  const float* q = nullptr;  // [rows][heads][k_dim], rotated and rounded as the keys' format wants it
  std::int64_t q_stride = 0;
  Matrix out;
  SoftmaxState* states = nullptr;
  int mixed_dim =
      0;  // numbers of a cached row that are mixed (row_codec.h): K's from `mixed_from` on if there is no V
  int mixed_from = 0;
  int out_from = 0;  // the first mixed number that is one of the output's
  bool rotated = false;
  int chunk_slots = 0;           // the most chunks that a tile sees
  int first_tile = 0;            // of a pass
  float* partial_out = nullptr;  // [tiles of the pass][KV heads][head tiles][chunk_slots][kTileRows][mixed_dim]
  SoftmaxState* partial_states = nullptr;  // the same but for the last

  KVASIR_HD int heads_per_kv() const { return heads / view.layout.shape.heads; }
  KVASIR_HD int heads_of_tile() const { return heads_per_kv() < kTileRows ? heads_per_kv() : kTileRows; }
  KVASIR_HD int head_tiles() const { return (heads_per_kv() + kTileRows - 1) / kTileRows; }
  KVASIR_HD int tokens_of_tile(const SequenceView& sequence) const {
    return sequence.ancestors == nullptr ? kTileRows / heads_of_tile() : 1;
  }
  KVASIR_HD int tiles_of(const SequenceView& sequence) const {
    const int tokens = tokens_of_tile(sequence);
    return (sequence.rows + tokens - 1) / tokens;
  }
};
// The chunks that tokens [first_token, first_token + tokens) of a sequence may see keys of: those before `sink_end`,
// and those from `first` on.
struct SeenChunks {
  int sink_end = 0;
  int first = 0;
  int end = 0;

  KVASIR_HD int count() const { return sink_end + end - first; }
  KVASIR_HD int at(int index) const { return index < sink_end ? index : first + index - sink_end; }
};
KVASIR_HD inline SeenChunks seen_chunks(const RuleAttention& args, const SequenceView& sequence, int first_token,
                                        int tokens) {
  if (args.rule.mask == ScoreRule::Mask::kAll) {
    return {0, 0, static_cast<int>((sequence.keys + kChunkTokens - 1) / kChunkTokens)};
  }
  const Retention& retention = args.view.retention;
  SeenChunks out;
  out.end = static_cast<int>(sequence.position_of(first_token + tokens - 1) / kChunkTokens) + 1;
  out.first = static_cast<int>(retention.window_begin(sequence.position_of(first_token)) / kChunkTokens);
  if (retention.full()) return out;
  const auto sinks = static_cast<int>((retention.sinks + kChunkTokens - 1) / kChunkTokens);
  out.sink_end = sinks < out.first ? sinks : out.first;
  return out;
}
// The tiles [first_tile, first_tile + tiles): their partials, and out and states from those.
void attend_by_rule(const RuleAttention& args, int tiles, cudaStream_t stream);

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
  ScoreRule rule;
  const float* q = nullptr;  // [rows][heads][k_dim], of prepare_queries()
  AttentionWatch watch;
  float* scratch = nullptr;  // [KV heads][stride]
};
// watch_rows.cu. REQUIRES: as WatchAttentionOp.
void watch_rows(const WatchedRows& rows, cudaStream_t stream);

}  // namespace kvasir::cuda
