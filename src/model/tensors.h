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
  kSinks,         // a logit a head that stands for no key
  kRelativeBias,  // [buckets][heads], added to scores by distance
  kMlpNorm,
  kMlpPostNorm,  // of what the MLP adds
  kGate,
  kUp,
  kDown,
  kRouter,
  kRouterChoice,  // a number for each expert: see RouterRule::choice_bias
  kOther,         // of a family that is planned and not run
};

// How the rows of a tensor lie in a GGUF file.
enum class GgufRows : std::uint8_t {
  kAsStored,
  // RoPE rotates pairs of a head's rows: Hugging Face pairs row i with i + head_dim / 2, some of llama.cpp's
  // architectures put the two side by side.
  kInterleaved,
};

struct TensorSpec {
  std::string name = {};  // Hugging Face's
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
  int expert = -1;  // -1: of no expert. GGUF has those of all experts of a layer as one tensor.
  int experts = 0;  // of its layer

  bool vector() const { return cols == 0; }
  int row_count() const { return static_cast<int>(rows); }  // REQUIRES: of a family that runs
  std::int64_t elements() const { return rows * (vector() ? 1 : cols); }
};

// All tensors of a model, in the order of a file.
std::vector<TensorSpec> tensors_of(const ModelSpec& spec);

// What a family calls a layer's norms and matrices, behind "model.layers.N.", and GGUF behind "blk.N.".
struct TensorName {
  std::string_view name;
  std::string_view gguf;
};
struct LayerNames {
  TensorName attention_norm{"input_layernorm", "attn_norm"};
  TensorName attention_post_norm{"post_attention_layernorm", "post_attention_norm"};  // where there is one
  TensorName mlp_norm{"post_attention_layernorm", "ffn_norm"};
  TensorName mlp_post_norm{"post_feedforward_layernorm", "post_ffw_norm"};
  TensorName up{"mlp.up_proj", "ffn_up"};
  TensorName down{"mlp.down_proj", "ffn_down"};
};

// What a family calls the tensors of experts, behind "model.layers.N."; the expert's number stands for "{}".
struct ExpertNames {
  std::string_view router = "mlp.gate.weight";
  std::string_view choice = "mlp.gate.e_score_correction_bias";
  std::string_view gate = "mlp.experts.{}.gate_proj.weight";
  std::string_view up = "mlp.experts.{}.up_proj.weight";
  std::string_view down = "mlp.experts.{}.down_proj.weight";
};

// Those of a decoder with Llama's names, whatever of them its layers have: the list of most families.
std::vector<TensorSpec> decoder_tensors(const ModelSpec& spec, GgufRows rotated, const ExpertNames& experts = {},
                                        const LayerNames& names = {});

// Where row r of one order lies in the other.
struct InterleavedRows {
  int head_dim;

  // The row that a GGUF file has at `row`, in Hugging Face's order.
  int hugging_face_row(int row) const {
    const int within = row % head_dim;
    return row - within + within / 2 + within % 2 * (head_dim / 2);
  }
  // The row that Hugging Face has at `row`, in GGUF's order.
  int gguf_row(int row) const {
    const int within = row % head_dim;
    const int half = head_dim / 2;
    return row - within + within % half * 2 + within / half;
  }
};

inline constexpr std::string_view kGgufRopeFactors = "rope_freqs.weight";  // [head_dim / 2], divide the frequencies

}  // namespace kvasir
