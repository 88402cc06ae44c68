// A family's tensors, as one list: what the loader, `synth`, `convert`, GGUF and the count of parameters read.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/spec.h"

namespace kvasir {

// What a tensor is to the decoder.
enum class TensorRole : std::uint8_t {
  kEmbedding,
  kEmbeddingNorm,    // of the embedding's rows
  kEmbeddingIn,      // from the table's width to the stream's, where they differ
  kEmbeddingOut,     // and back, before the head
  kPositions,        // learned: a row for each position
  kTokenTypes,       // learned: a row for each kind of text
  kLayerEmbedding,   // [vocab][layers * width]: what each layer is given of a token (per-layer embeddings)
  kLayerProjection,  // the same of the embedding: [layers * width][hidden]
  kLayerProjectionNorm,
  kFinalNorm,
  kHead,
  kAttentionNorm,
  kAttentionPostNorm,  // of what attention adds
  kQ,
  kK,
  kV,
  kO,
  kQNorm,
  kKNorm,
  kQA,            // of latent attention: to the numbers that queries come through …
  kQANorm,        // … and their norm
  kQB,            // queries of all heads
  kLatentRope,    // what is rotated of a key
  kLatent,        // the latent …
  kLatentNorm,    // … and its norm
  kLatentKeys,    // what heads make their keys of the latent by …
  kLatentValues,  // … and their values
  kOutGate,       // of each head as many numbers as it gives: see AttentionSpec::out_gate
  kSinks,         // a logit a head that stands for no key
  kRelativeBias,  // [buckets][heads], added to scores by distance
  kMlpNorm,
  kMlpPostNorm,  // of what the MLP adds
  kGate,
  kUp,
  kDown,
  kRouter,
  kRouterChoice,    // a number for each expert: see RouterRule::choice_bias
  kRouterScale,     // of the rows that the router reads, number by number
  kExpertScale,     // a number for each expert: see RouterRule::expert_scale
  kExpertIn,        // from the stream to what experts read, where that is less: see MoeSpec::latent …
  kExpertOut,       // … and back
  kExpertNorm,      // of what experts read, where it is not what the MLP beside them reads
  kExpertPostNorm,  // of what they add together
  kSharedGate,      // a vector: see MoeSpec::shared_gate
  kSharedPostNorm,  // of what the MLP beside them adds
  kLayerGate,       // from the stream to the width of what a layer is given of a token
  kLayerOut,        // and back
  kLayerPostNorm,   // of what that adds
  kLayerScale,      // one number, of the stream behind the layer
  kStateQ,          // of recurrent layers: queries, …
  kStateK,          // … keys …
  kStateV,          // … and values, as the convolution reads them
  kStateGate,       // of what they give
  kStateStrength,   // a number a head
  kStateDecay,      // likewise
  kStateGateIn,     // to what gates come through, where they do not come from the stream …
  kStateGateOut,    // … and from there
  kStateDecayIn,    // the same of decays
  kStateDecayOut,
  kStateConv,      // [channels][weights] …
  kStateConvQ,     // … or that of queries, …
  kStateConvK,     // … that of keys …
  kStateConvV,     // … and that of values
  kStateStepBias,  // of the decay's numbers
  kStateRate,      // a logarithm a head: how fast it forgets
  kStateSkip,      // a number a head: how much of a value goes past the state
  kStateNorm,      // of each head's values
  kStateOut,
  kDraftEmbeddingNorm,  // of a draft head: of the embedding, …
  kDraftGivenNorm,      // … of what it is given, …
  kDraftJoin,           // … and what makes one row of both, or of several rows that are given
  kRerankBetween,       // of a classifier: the layer before it …
  kRerankNorm,          // … that layer's norm …
  kRerankOut,           // … and itself: [labels][hidden]
  kOther,               // of a family that is planned and not run
};

// In which order the rows of a tensor lie in a file.
enum class GgufRows : std::uint8_t {
  kAsStored,
  // RoPE rotates pairs of a head's rows: Hugging Face pairs row i with i + head_dim / 2, some of llama.cpp's
  // architectures put the two side by side.
  kInterleaved,
};

// Which rows of a file's tensor are a matrix: `block` of each `period` rows, from `first` on. One tensor may hold q,
// k and v one below the other, or by head; gates and ups one below the other, or in turn.
struct RowSlice {
  std::int64_t file_rows = 0;  // of the file's tensor; 0: it holds this matrix alone
  std::int64_t first = 0;
  std::int64_t block = 0;
  std::int64_t period = 0;

  bool whole() const { return file_rows == 0; }
  bool contiguous() const { return whole() || block == period; }
  std::int64_t file_row(std::int64_t row) const { return whole() ? row : first + row / block * period + row % block; }
};

// Where a matrix or a vector lies in a file.
struct FilePlace {
  enum class Axes : std::uint8_t { kRowMajor, kTransposed };  // kTransposed: [cols][rows] of the file's tensor

  std::string name = {};  // of the file's tensor; empty: TensorSpec::name
  RowSlice slice = {};
  Axes axes = Axes::kRowMajor;
  bool all_experts = false;  // the file's tensor holds those of all experts of the layer: [experts][…]
  int parts =
      0;  // in so many parts, one for each head: [parts][rows / parts][cols], each of them by `axes`; 0: as one
  bool channels = false;  // of a convolution of each channel by itself: [rows][1][cols]
};

// Heads that a GGUF file has in another order than we: the first head of each group, then the second ones. They lie
// behind the first `first` rows, or columns.
struct HeadTiles {
  enum class Of : std::uint8_t { kRows, kColumns };

  int groups = 0;  // 0: in our order
  int heads = 0;
  int width = 1;  // of a head
  int first = 0;
  Of of = Of::kRows;

  // Where we have what the file has at `at`.
  int our_place(int at) const;
};

struct TensorSpec {
  std::string name = {};  // no other has it; Hugging Face's, unless `hf` says otherwise
  std::string gguf = {};  // GGUF's; empty: it is in no GGUF file
  std::int64_t rows = 0;
  int cols = 0;  // 0: a vector of `rows`
  TensorRole role = TensorRole::kOther;
  int layer = -1;  // -1: of no layer
  bool bias = false;
  GgufRows gguf_rows = GgufRows::kAsStored;
  int head_dim = 0;                        // of interleaved rows
  GgufRows hf_rows = GgufRows::kAsStored;  // likewise, in Hugging Face's file
  float offset = 0.0F;                     // of a vector: what is added to Hugging Face's numbers; GGUF has it added
  // -1: of no expert; also the head that a norm is of, where each has its own. GGUF has those of all experts (heads)
  // of a layer as one tensor.
  int expert = -1;
  int experts = 0;        // of its layer
  int rotated_dim = 0;    // of interleaved rows: how many of a head's are; 0: all
  int rotated_first = 0;  // the first of these
  FilePlace hf = {};
  std::vector<FilePlace> hf_else = {};  // where a file that has no such tensor may have it
  FilePlace gguf_at = {};               // of the tensor that GGUF calls `gguf`, whose name it leaves out
  HeadTiles gguf_tiles = {};
  bool gguf_negated_exp = false;  // GGUF has minus the exponential of Hugging Face's numbers
  int gguf_vector_cols = 0;       // of a vector: that GGUF has it as a matrix with so many columns; 0: it does not
  std::vector<FilePlace> gguf_else = {};  // where a file that has no such tensor may have it

  bool vector() const { return cols == 0; }
  int row_count() const { return static_cast<int>(rows); }  // REQUIRES: of a family that runs
  std::int64_t elements() const { return rows * (vector() ? 1 : cols); }
  const std::string& hf_name() const { return hf.name.empty() ? name : hf.name; }
  FilePlace gguf_place() const;
  int gguf_cols() const;  // of a matrix: how long the rows of GGUF's tensor are
};

// All tensors of a model, in the order of a file: its own, and those of its encoder that are not the same.
std::vector<TensorSpec> tensors_of(const ModelSpec& spec);
std::vector<TensorSpec> own_tensors(
    const ModelSpec& spec);  // without its encoder's: what roles and layers tell apart

// Appends those of the spec's classifier, where it has one.
void add_rerank_tensors(const ModelSpec& spec, std::vector<TensorSpec>& out);

// What a family calls the tensors of a layer, behind "model.layers.N.", and GGUF behind "blk.N.".
struct TensorName {
  std::string_view name;
  std::string_view gguf = {};
};
struct LayerNames {
  TensorName attention_norm{"input_layernorm", "attn_norm"};
  TensorName attention_post_norm{"post_attention_layernorm", "post_attention_norm"};  // where there is one
  TensorName mlp_norm{"post_attention_layernorm", "ffn_norm"};
  TensorName mlp_post_norm{"post_feedforward_layernorm", "post_ffw_norm"};
  TensorName up{"mlp.up_proj", "ffn_up"};
  TensorName down{"mlp.down_proj", "ffn_down"};
  TensorName q{"self_attn.q_proj", "attn_q"};
  TensorName k{"self_attn.k_proj", "attn_k"};
  TensorName v{"self_attn.v_proj", "attn_v"};
  TensorName out{"self_attn.o_proj", "attn_output"};
  TensorName q_norm{"self_attn.q_norm", "attn_q_norm"};
  TensorName k_norm{"self_attn.k_norm", "attn_k_norm"};
  TensorName gate{"mlp.gate_proj", "ffn_gate"};
  TensorName relative_bias{"self_attn.relative_attention_bias", "attn_rel_b"};
  std::string_view state = {};  // of what remembers a text, before its tensors' own names; empty: the usual one
  std::string_view layers = "model.layers";
  std::string_view gguf_list =
      {};  // of an encoder-decoder: which of GGUF's two lists of layers; empty: in no such file
  std::string_view embedding = "model.embed_tokens.weight";
  std::string_view positions = "model.embed_positions.weight";
  std::string_view final_norm = "model.norm";
  std::string_view head = "lm_head.weight";
};

// What a family calls the tensors of experts, behind "model.layers.N."; the expert's number stands for "{}".
struct ExpertNames {
  std::string_view router = "mlp.gate.weight";
  std::string_view router_bias = "mlp.gate.bias";
  std::string_view choice = "mlp.gate.e_score_correction_bias";
  std::string_view gate = "mlp.experts.{}.gate_proj.weight";
  std::string_view up = "mlp.experts.{}.up_proj.weight";
  std::string_view down = "mlp.experts.{}.down_proj.weight";
  std::string_view shared_share = "mlp.shared_expert_gate.weight";  // of MoeSpec::shared_gate
  std::string_view latent_in = "mlp.fc1_latent_proj.weight";        // of MoeSpec::latent
  std::string_view latent_out = "mlp.fc2_latent_proj.weight";
  TensorName shared_gate{"mlp.shared_experts.gate_proj", "ffn_gate_shexp"};
  TensorName shared_up{"mlp.shared_experts.up_proj", "ffn_up_shexp"};
  TensorName shared_down{"mlp.shared_experts.down_proj", "ffn_down_shexp"};
};

// Those of a decoder with Llama's names, whatever of them its layers have: the list of most families.
std::vector<TensorSpec> decoder_tensors(const ModelSpec& spec, GgufRows rotated, const ExpertNames& experts = {},
                                        const LayerNames& names = {});

// What a file's tensor is called that holds those of several roles, behind "model.layers.N.". GGUF's name may be
// empty: there they are apart, as some of its files have them anyway.
struct JointName {
  std::string_view weight;
  std::string_view bias = {};
  std::string_view gguf = {};  // without suffix
};

// How the rows of several matrices lie in one tensor.
struct JointRows {
  enum class Of : std::uint8_t { kAll, kExperts };  // kExperts: those of MLPs for all rows are apart

  // In Hugging Face's file. 1: one matrix below the other; else by equal parts of each: of q, k and v the queries of
  // a KV head, its key and its value; of gates and ups by pair.
  std::int64_t groups = 1;
  Of of = Of::kAll;
};

// Of a list: the tensors of these roles, of each layer and of each expert, and their biases, lie in one. GGUF has
// them one below the other, or apart.
void store_together(std::vector<TensorSpec>& tensors, std::span<const TensorRole> roles, const JointName& as,
                    JointRows rows = {});

// GGUF files may have those of these roles of an expert, or those of none, in one tensor of this name.
void may_be_together(std::vector<TensorSpec>& tensors, std::span<const TensorRole> roles, std::string_view gguf,
                     JointRows::Of of);

// Hugging Face's file has the matrices of these roles as [inputs][outputs].
void store_transposed(std::vector<TensorSpec>& tensors, std::span<const TensorRole> roles);

// Hugging Face's file has the experts' of this role of a layer in one tensor of this name, behind "model.layers.N.".
void store_stacked(std::vector<TensorSpec>& tensors, TensorRole role, std::string_view weight,
                   std::string_view bias = {});

// Where row r of one order lies in the other.
struct InterleavedRows {
  int head_dim;
  int rotated_dim = 0;  // of a head; 0: all. The others stay where they are.
  int first = 0;        // of those

  // The row that a GGUF file has at `row`, in Hugging Face's order.
  int hugging_face_row(int row) const {
    const int within = row % head_dim - first;
    if (within < 0 || within >= rotated()) return row;
    return row - within + within / 2 + within % 2 * (rotated() / 2);
  }
  // The row that Hugging Face has at `row`, in GGUF's order.
  int gguf_row(int row) const {
    const int within = row % head_dim - first;
    if (within < 0 || within >= rotated()) return row;
    const int half = rotated() / 2;
    return row - within + within % half * 2 + within / half;
  }
  int rotated() const { return rotated_dim == 0 ? head_dim : rotated_dim; }
};

inline constexpr std::string_view kGgufRopeFactors = "rope_freqs.weight";  // [head_dim / 2], divide the frequencies

}  // namespace kvasir
