// A model as data: what each of its layers is, and every constant of its arithmetic. A family (families/) makes it of
// config.json or of a GGUF file; the decoder, the loader, the cache's groups and the plan read nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/tensor.h"
#include "base/ids.h"
#include "layout/kv_layout.h"
#include "layout/kv_policy.h"

namespace kvasir {

// How positions become angles. Frequencies are 1 / theta^(2i/dim), changed by the scaling.
struct RopeSpec {
  enum class Scaling : std::uint8_t { kNone, kLinear, kLlama3, kFactors, kYarn, kOther };
  Scaling scaling = Scaling::kNone;
  double theta = 10000.0;
  double factor = 1.0;
  double low_freq_factor = 1.0;          // llama3
  double high_freq_factor = 4.0;         // llama3
  std::int64_t original_context = 8192;  // llama3, yarn
  double beta_fast = 32.0;               // yarn: what turns so often in the original context is kept …
  double beta_slow = 1.0;                // … and what turns so seldom is stretched by `factor`
  bool whole_pairs = true;               // yarn: both bounds are moved to the next pairs
  double magnitude = 1.0;                // of all cosines and sines
  std::vector<float> factors;            // kFactors: [head_dim / 2], what each frequency is divided by
  double rotated = 1.0;                  // the share of head_dim that is rotated (partial_rotary_factor)
  std::string other;                     // kOther: the type's name, such as "longrope"; known, but not computed here

  friend bool operator==(const RopeSpec&, const RopeSpec&) = default;
};

inline constexpr int kNoRope = -1;

// What is added to scores by how far a key is.
struct PositionBiasSpec {
  enum class Kind : std::uint8_t {
    kNone,
    kAlibi,    // a slope a head, which the number of heads gives
    kBuckets,  // T5's: a learned number for each head and bucket of distances
  };
  enum class Reach : std::uint8_t { kBefore, kBothWays };  // of the distances that have buckets

  Kind kind = Kind::kNone;
  int buckets = 0;        // relative_attention_num_buckets
  int most_distance = 0;  // relative_attention_max_distance: from there on all are in the last bucket
  Reach reach = Reach::kBefore;

  int before() const { return most_distance; }
  int after() const { return reach == Reach::kBothWays ? most_distance : 0; }
  friend bool operator==(const PositionBiasSpec&, const PositionBiasSpec&) = default;
};

struct AttentionSpec {
  enum class QkNorm : std::uint8_t {
    kNone,
    kPerHead,  // queries and keys of each head are normalized before RoPE
    kWhole,    // all heads' queries, and all heads' keys, together
  };

  int heads = 0;            // query heads
  KvShape kv;               // its heads divide `heads`
  std::int64_t window = 0;  // a query sees so many tokens, its own included; 0: all before it
  int rope = 0;             // of ModelSpec::ropes, or kNoRope
  float scale = 1.0F;       // of scores
  QkNorm qk_norm = QkNorm::kNone;
  bool qkv_bias = false;
  bool out_bias = false;
  float softcap = 0.0F;      // of scores: c tanh(s / c); 0: none (attn_logit_softcapping)
  bool sink_logits = false;  // a learned logit a head that stands for no key (a tensor of role kSinks)
  std::int64_t chunk = 0;    // a query sees nothing before its chunk of so many tokens; 0: no chunks
  PositionBiasSpec bias = {};
  ScoreRule::Mask mask = ScoreRule::Mask::kCausal;

  int q_width() const { return heads * kv.k_dim; }
  int k_width() const { return kv.heads * kv.k_dim; }
  int v_width() const { return kv.has_v() ? kv.heads * kv.v_dim : 0; }  // of what is projected
  int out_width() const { return heads * kv.v_dim; }                    // of what attention gives

  friend bool operator==(const AttentionSpec&, const AttentionSpec&) = default;
};

// Experts: a row goes to a few of many MLPs, and gets the weighted sum of what they make of it.
struct MoeSpec {
  int experts = 0;  // 0: the layer has one MLP for all rows
  int used = 0;     // by a row
  RouterRule::Score score = RouterRule::Score::kSoftmax;
  bool normalized = false;   // a row's weights sum to 1
  float scale = 1.0F;        // of the weights
  bool choice_bias = false;  // a number for each expert that decides who is chosen, and does not weigh

  friend bool operator==(const MoeSpec&, const MoeSpec&) = default;
};

struct MlpSpec {
  enum class Kind : std::uint8_t {
    kGated,  // down(activation(gate(x)) * up(x))
    kPlain,  // down(activation(up(x)))
  };

  int width = 0;  // of each expert, where there are any
  bool bias = false;
  MoeSpec moe;
  Kind kind = Kind::kGated;
  Activation activation = Activation::kSilu;

  friend bool operator==(const MlpSpec&, const MlpSpec&) = default;
};

// Where a layer's norms stand, around its attention and its MLP, which are branches from the stream x.
enum class NormPlacement : std::uint8_t {
  kPre,       // x += branch(norm(x))
  kSandwich,  // x += norm(branch(norm(x)))
  kPost,      // x += norm(branch(x))
  kParallel,  // x += attention(norm(x)) + mlp(norm(x)), one norm for both
};

struct LayerSpec {
  AttentionSpec attention;
  MlpSpec mlp;
  NormPlacement norms = NormPlacement::kPre;
  float branch_scale = 1.0F;  // of what a branch adds to x

  friend bool operator==(const LayerSpec&, const LayerSpec&) = default;
};

struct Family;

struct ModelSpec {
  const Family* family =
      nullptr;  // which tensors it has, and what they are called; never null in a spec that was made
  int hidden = 0;
  int vocab = 0;
  std::vector<LayerSpec> layers;
  std::vector<RopeSpec> ropes;
  std::int64_t context = 0;  // the longest text that it was trained for
  double norm_eps = 1e-5;
  NormRule::Kind norm = NormRule::Kind::kRms;
  bool norm_bias = false;
  float embedding_scale = 1.0F;
  float logit_scale = 1.0F;
  float logit_softcap = 0.0F;  // 0: none
  bool tied_embeddings = false;
  DType dtype = DType::kBF16;  // of the stored weights
  std::string quantization;    // quant_method of the stored weights, such as "fp8"; empty: plain numbers
  std::vector<TokenId> eos;    // any of them ends a text
  TokenId bos = -1;            // -1: none, or none of the vocabulary's: what texts begin with the tokenizer says

  int layer_count() const { return static_cast<int>(layers.size()); }
  const AttentionSpec& attention(int layer) const { return layers[static_cast<size_t>(layer)].attention; }
  std::int64_t query_width() const;      // of all layers' query heads: what a token multiplies with each cached one
  std::string_view family_name() const;  // as config.json's model_type spells it
  // Of all layers, if they have the same heads: what per-head tuning and shorter rows are made for. Else an Error.
  const AttentionSpec& uniform_attention() const;
};

// The largest sizes that are believed. With them no product of a spec (parameters, bytes per token) leaves 62 bits.
struct ShapeLimits {
  static constexpr std::int64_t kLayers = 4096;
  static constexpr std::int64_t kHidden = 1 << 20;
  static constexpr std::int64_t kFfn = 1 << 22;
  static constexpr std::int64_t kHeads = 1 << 16;
  static constexpr std::int64_t kExperts = 1 << 12;
  static constexpr std::int64_t kHeadDim = 1 << 14;
  static constexpr std::int64_t kQueryWidth = 1 << 24;  // heads * head_dim
  static constexpr std::int64_t kVocab = 1 << 24;
  static constexpr std::int64_t kContext = std::int64_t{1} << 40;
};

// Every number that decides what a layer computes, as text: its hash, with that of the weights, names the blocks of
// the cache. Two specs with one text compute the same.
std::string to_text(const ModelSpec& spec);

// Throws Error unless every size lies within ShapeLimits and the sizes agree with each other. Whatever makes specs of
// files and shapes has called it.
void check_shape(const ModelSpec& spec, const std::string& where);

// Throws Error when the engine cannot compute this model: its family, its rope, its mask, its quantization. A plan
// needs no forward pass, so the readers accept more than this does.
void check_runnable(const ModelSpec& spec, const std::string& where);

// Throws Error when a layer is beyond what the backend has kernels for; it names the field, the value and the limit.
void check_limits(const ModelSpec& spec, const Backend& backend, const std::string& where);

// All weights, in numbers of parameters; tied embeddings counted once.
std::uint64_t parameter_count(const ModelSpec& spec);

// The groups of layers that are cached alike under a policy. Recent tokens are kept as whole rows. Throws Error
// when it names a layer that the model does not have, or a rank beyond the heads' size, or asks for what a layer's
// attention does not allow: V apart where it is a part of K, or tokens elsewhere than they were where distances
// count.
std::vector<KvGroup> kv_groups(const ModelSpec& spec, const KvPolicy& policy);

}  // namespace kvasir
