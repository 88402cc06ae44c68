// The kernels of attention, one launch each; cuda_attention.h puts them together.
#pragma once

#include <cuda_runtime.h>

#include "backend/backend.h"
#include "backend/cuda/attention_args.h"

namespace kvasir::cuda {

// K of these is multiplied as bf16, of all others as f16, which holds every code, and every fp8, exactly.
constexpr bool multiplies_bf16_keys(KvFormat format) { return format == KvFormat::kBF16; }
// Weights of values with scales are as small as those, too small for f16.
constexpr bool multiplies_bf16_values(KvFormat format) {
  return format != KvFormat::kF16 && format != KvFormat::kTop50 && format != KvFormat::kTop25;
}

// Queries as they meet the keys: turned, and rounded where keys are integers.
struct QueryRows {
  Matrix q;  // [rows][heads * k_dim]
  int heads = 0;
  int k_dim = 0;
  KvFormat k_format = KvFormat::kF16;
  std::uint16_t* halves = nullptr;  // [rows][heads][stride], zeros behind k_dim; or null
  float* floats = nullptr;          // [rows][heads][k_dim], scales multiplied in; or null
  float* scales = nullptr;          // [rows][heads], beside halves, where keys are integers
  int stride = 0;
};
void prepare_queries(const QueryRows& rows, cudaStream_t stream);

// Whether K and V are in one format, heads of 64 or 128, blocks of 16 tokens that begin at a multiple of `alignment`
// bytes: what fast kernels are made for.
bool usual_blocks(const KvView& view, int alignment);
constexpr bool is_half(KvFormat format) { return format == KvFormat::kF16 || format == KvFormat::kBF16; }

// Sums of every split of every tile into part_out and part_states, or of every span where folds_spans is true, which
// boxed_attention(), fp8_attention() and, over int8, packed_attention() can do.
void tile_attention(const AttentionArgs& args, cudaStream_t stream);
// The same for f16 and bf16 in blocks of 16 tokens; false: not for these.
bool block_attention(const AttentionArgs& args, cudaStream_t stream);
// The same on devices with a copy engine (sm_90), from queries as they came. REQUIRES: takes_boxes().
void boxed_attention(const AttentionArgs& args, cudaStream_t stream);
bool takes_boxes(const KvView& view);
// All splits of all tiles, merged, straight into out and states, by args.blocks_of_row thread blocks a row. REQUIRES:
// takes_boxes(), and whole_rows() suit it or those blocks are parts_of_rows().
void row_attention(const AttentionArgs& args, cudaStream_t stream);
// The same, faster where there are few items: whether these are.
void team_attention(const AttentionArgs& args, cudaStream_t stream);
bool suits_teams(const AttentionArgs& args);
// On those too, for K and V in the same format of integers. REQUIRES: takes_codes().
void packed_attention(const AttentionArgs& args, cudaStream_t stream);
bool takes_codes(const KvView& view);
// And for both in the same format of fp8, from queries as they came. REQUIRES: takes_fp8().
void fp8_attention(const AttentionArgs& args, cudaStream_t stream);
bool takes_fp8(const KvView& view);
// Groups of tiles, on devices with a copy engine, straight into out and states. REQUIRES: takes_boxes(), or widened
// blocks (wide_blocks.h). `scales`: of these, or null.
void prompt_attention(const AttentionArgs& args, const float* scales, cudaStream_t stream);
// Pieces of common prefixes, on devices with a copy engine, into begun_out and begun_states. REQUIRES: as
// prompt_attention(); all is seen; kRowsOfPrefix heads to a KV head at most.
void prefix_attention(const AttentionArgs& args, const PrefixArgs& prefixes, cudaStream_t stream);
// Prefixes and splits, in their order, into out and states, and turned where values are.
void merge_splits(const AttentionArgs& args, cudaStream_t stream);
// The same bits, faster where there are few rows and many splits. REQUIRES: folds_spans is false.
void merge_spans(const AttentionArgs& args, cudaStream_t stream);

// Everything in float32, where K or V is: a warp for each row and head.
struct PlainAttention {
  KvView view;
  const SequenceView* sequences = nullptr;  // on the device
  int rows = 0;                             // of all sequences
  int heads = 0;
  float scale = 1.0F;
  const float* q = nullptr;  // [rows][heads][k_dim], prepared
  Matrix out;
  SoftmaxState* states = nullptr;
};
void plain_attention(const PlainAttention& args, cudaStream_t stream);

// Rows of the sequences, each head of `dim` numbers, by hadamard().
void turn_rows(Matrix x, int heads, const SequenceView* sequences, int rows, cudaStream_t stream);

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
  const SequenceView* sequence = nullptr;  // on the device
  int heads = 0;
  float scale = 1.0F;
  const float* q = nullptr;  // [rows][heads][k_dim], prepared
  AttentionWatch watch;
  float* scratch = nullptr;  // [KV heads][stride]
};
void watch_rows(const WatchedRows& rows, cudaStream_t stream);

}  // namespace kvasir::cuda
