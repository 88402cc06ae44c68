// A model as data: what each of its layers is, and every constant of its arithmetic. A family (families/) makes it of
// config.json or of a GGUF file; the decoder, the loader, the cache's groups and the plan read nothing else.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/tensor.h"
#include "base/ids.h"
#include "layout/kv_layout.h"
#include "layout/kv_policy.h"
#include "model/draft_head_spec.h"
#include "model/head_spec.h"

namespace kvasir {

// What positions do to queries and keys. Frequencies of a head's pairs are 1 / theta^(2i/dim), changed by the
// scaling.
struct RopeSpec {
  enum class Scaling : std::uint8_t {
    kNone,
    kLinear,
    kLlama3,
    kFactors,
    kYarn,
    kLongRope,      // `factors` for contexts above the original one, `short_factors` for others: see for_context()
    kDynamic,       // NTK: theta grows with the context: see for_context()
    kProportional,  // frequencies of whole heads, of which the first share turns and the rest does not
    kOther,
  };
  Scaling scaling = Scaling::kNone;
  double theta = 10000.0;
  double factor = 1.0;
  double low_freq_factor = 1.0;          // llama3
  double high_freq_factor = 4.0;         // llama3
  std::int64_t original_context = 8192;  // llama3, yarn, longrope, dynamic
  double beta_fast = 32.0;               // yarn: what turns so often in the original context is kept …
  double beta_slow = 1.0;                // … and what turns so seldom is stretched by `factor`
  bool whole_pairs = true;               // yarn: both bounds are moved to the next pairs
  double magnitude = 1.0;                // of all cosines and sines
  std::vector<float> factors;            // kFactors, kLongRope: what each frequency is divided by
  double rotated = 1.0;                  // the share of a head that is rotated (partial_rotary_factor); 0: none of it
  std::string other;                     // kOther: the type's name; known, but not computed here
  std::vector<float> short_factors = {};
  // Queries at position p are multiplied by 1 + growth ln(1 + floor((p + shift) / length)). growth 0: they are not.
  double query_growth = 0;
  std::int64_t query_length = 1;
  int query_shift = 0;

  int rotated_dim(int head_dim) const;  // even
  friend bool operator==(const RopeSpec&, const RopeSpec&) = default;
};

inline constexpr int kNoRope = -1;

// What is added to scores by how far a key is.
struct PositionBiasSpec {
  enum class Kind : std::uint8_t {
    kNone,
    kAlibi,    // a slope a head, which the number of heads gives
    kBuckets,  // T5's: a learned number for each head and bucket of distances
    kNear,     // nothing, up to `most_distance` away, and beyond that keys are out of sight: a window both ways
  };
  enum class Reach : std::uint8_t { kBefore, kBothWays };  // of the distances that have buckets

  Kind kind = Kind::kNone;
  int buckets = 0;        // relative_attention_num_buckets
  int most_distance = 0;  // relative_attention_max_distance: from there on all are in the last bucket
  Reach reach = Reach::kBefore;
  float slope_scale = 1.0F;  // kAlibi: of all slopes

  int before() const { return kind == Kind::kNear ? most_distance + 1 : most_distance; }
  int after() const { return reach == Reach::kBothWays ? before() : 0; }
  friend bool operator==(const PositionBiasSpec&, const PositionBiasSpec&) = default;
};

// Keys and values as one latent row a token (MLA): what is cached is [rope | latent], one head of both, of which
// values are the latent; queries are brought there by what a head makes its keys of (absorption).
struct LatentSpec {
  int kv_rank = 0;   // of the latent; 0: keys and values are plain
  int q_rank = 0;    // queries come through so many numbers; 0: from the stream itself
  int nope_dim = 0;  // of a query head: what meets the latent …
  int rope_dim = 0;  // … and what is rotated
  int v_dim = 0;     // of a head's values
  enum class Pairs : std::uint8_t { kHalves, kNeighbours } pairs = Pairs::kHalves;  // as files have what is rotated

  double norm_eps = 1e-6;  // of the norms of what queries come through and of the latent
  bool bias = false;       // of what leads to both

  bool none() const { return kv_rank == 0; }
  int q_dim() const { return nope_dim + rope_dim; }  // of a query head, as it is projected
  KvShape shape() const { return {1, rope_dim + kv_rank, kv_rank, KvSpace::kWhole, KvSpace::kWhole, rope_dim}; }
  friend bool operator==(const LatentSpec&, const LatentSpec&) = default;
};

// What mixes tokens without looking back at them: a state of fixed size a sequence, which every token changes.
struct RecurrentSpec {
  enum class Kind : std::uint8_t {
    kNone,
    kDeltaNet,   // gated DeltaNet: queries, keys and values through a convolution, then RecurrenceOp's delta rule
    kMamba2,     // the same with its other rule: keys are B, queries C, and values are weighed by their steps
    kShortConv,  // values times a gate, through a convolution alone, times another gate
    kKda,        // the delta rule where each row of a state decays by itself (Kimi Delta Attention)
  };
  // Where what a state gives is normalized: before its gate multiplies it, behind that, or nowhere.
  enum class NormStage : std::uint8_t { kBeforeGate, kBehindGate, kNone };
  // How files have what a token is projected to.
  enum class Packing : std::uint8_t {
    kByKeyHead,  // of each key head its query, key, values and gates; in another tensor its strengths and decays
    kByPart,     // queries, keys and values in one tensor, and gates, strengths and decays in others
  };

  Kind kind = Kind::kNone;
  int k_heads = 0;  // kShortConv: none
  int heads = 0;    // of values; a multiple of k_heads
  int k_dim = 0;    // kShortConv: 0
  int v_dim = 0;
  int conv_weights = 0;  // of each channel
  bool conv_bias = false;
  Packing packing = Packing::kByPart;
  NormStage norm_stage = NormStage::kBeforeGate;
  int norm_groups = 1;  // kMamba2: equal parts of a row, each normalized by itself with weights of its own
  int gate_rank = 0;    // kKda: gates come through so many numbers, and so do decays
  // kMamba2: what is projected is multiplied by these, by part: gates, values, keys, queries, steps.
  std::array<float, 5> in_scales = {1.0F, 1.0F, 1.0F, 1.0F, 1.0F};
  float out_scale = 1.0F;   // of what the layer adds
  float least_step = 0.0F;  // kMamba2: steps are held to these
  float most_step = std::numeric_limits<float>::infinity();
  // Which key head a value's head goes with: neighbours share one, or each so-many-th do (as GGUF files may have
  // them).
  enum class Heads : std::uint8_t { kGrouped, kTiled } value_heads = Heads::kGrouped;

  bool none() const { return kind == Kind::kNone; }
  int k_width() const { return k_heads * k_dim; }
  int v_width() const { return heads * v_dim; }
  int conv_channels() const { return 2 * k_width() + v_width(); }
  bool tiled() const { return value_heads == Heads::kTiled; }
  int in_width() const;   // of what a token is projected to
  int row_width() const;  // with what is made of it
  StateShape state() const {
    if (none()) return {};
    return {conv_channels(), conv_weights - 1, heads, k_dim, v_dim};
  }
  friend bool operator==(const RecurrentSpec&, const RecurrentSpec&) = default;
};

struct AttentionSpec {
  enum class QkNorm : std::uint8_t {
    kNone,
    kPerHead,   // queries and keys of each head are normalized before RoPE
    kWhole,     // all heads' queries, and all heads' keys, together
    kEachHead,  // as kPerHead, each head with weights of its own
  };
  enum class NormStage : std::uint8_t { kBeforeRope, kAfterRope };
  enum class Values : std::uint8_t {
    kProjected,
    kUnturnedKeys,  // what is projected for keys, before their norm and RoPE
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
  bool qk_norm_weights = true;
  NormStage qk_norm_stage = NormStage::kBeforeRope;
  bool v_norm = false;  // of each value head, without weights
  Values values = Values::kProjected;
  NormRule::Kind qk_norm_kind = NormRule::Kind::kRms;
  bool qk_norm_bias = false;
  float clip = 0;  // queries, keys and values are held to -clip … clip as they are projected; 0: they are not
  LatentSpec latent = {};  // `kv` is its shape where there is one
  bool of_source = false;  // what it looks at is the source of a text: keys and values are made of the encoder's rows
  int kv_layer = -1;       // whose keys and values it reads, an earlier one that caches its own; -1: its own
  bool out_gate = false;   // what attention gives is multiplied by sigmoids of as many numbers, projected beside q
  float out_scale = 1.0F;  // of what attention adds

  bool none() const { return heads == 0; }  // the layer has no attention
  bool owns_kv() const { return kv_layer < 0; }
  bool makes_kv() const { return owns_kv() && !of_source; }  // of the rows that ask
  bool projects_v() const { return makes_kv() && kv.has_v() && values == Values::kProjected; }
  int q_width() const { return heads * kv.k_dim; }
  int k_width() const { return makes_kv() ? kv.heads * kv.k_dim : 0; }
  int v_width() const { return makes_kv() && kv.has_v() ? kv.heads * kv.v_dim : 0; }
  int source_width() const { return of_source ? kv.heads * (kv.k_dim + kv.v_dim) : 0; }  // of a row of the source
  int gate_width() const { return out_gate ? out_width() : 0; }
  int projected_width() const { return q_width() + k_width() + (projects_v() ? v_width() : 0) + gate_width(); }
  int out_width() const { return heads * kv.v_dim; }  // of what attention gives

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
  bool router_bias = false;
  int groups = 1;  // of experts: those of the best `used_groups` may be chosen
  int used_groups = 1;
  RouterRule::GroupScore group_score = RouterRule::GroupScore::kTopTwo;
  RouterRule::Weighs weighs = RouterRule::Weighs::kOutputs;
  int shared_width = 0;       // of an MLP for all rows beside them; 0: none
  bool shared_gate = false;   // what that MLP adds is multiplied by a sigmoid of a learned product of the row
  bool expert_scale = false;  // a learned number for each expert that multiplies its weight
  // Experts and the MLP beside them have norms of their own before and behind them, and the router reads the stream,
  // normalized without weights and scaled (Gemma 4).
  bool own_norms = false;
  int latent = 0;  // experts read so many numbers that a matrix makes of a row, and another brings back; 0: the row

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
  float limit = 0;          // of Activation::kSwigluOai
  float gate_scale = 1.0F;  // of gates, before the activation bends them
  float out_scale = 1.0F;   // of what the MLP adds

  bool none() const { return width == 0; }
  int dense_width() const { return moe.experts > 0 ? moe.shared_width : width; }  // of the MLP for all rows; 0: none
  friend bool operator==(const MlpSpec&, const MlpSpec&) = default;
};

// Where a layer's norms stand, around its attention and its MLP, which are branches from the stream x.
enum class NormPlacement : std::uint8_t {
  kPre,            // x += branch(norm(x))
  kSandwich,       // x += norm(branch(norm(x)))
  kPost,           // x += norm(branch(x))
  kParallel,       // x += attention(norm(x)) + mlp(norm(x)), one norm for both
  kParallelApart,  // the same with a norm for each
  kAfterSum,       // x = norm(x + branch(x))
};

// A layer mixes tokens, by attention, by a state, or by both side by side, whose sum is one branch; or it feeds each
// token to an MLP; or both, one branch behind the other.
struct LayerSpec {
  AttentionSpec attention;
  RecurrentSpec recurrent = {};
  MlpSpec mlp;
  NormPlacement norms = NormPlacement::kPre;
  float branch_scale = 1.0F;  // of what a branch adds to x
  bool scaled = false;        // x is multiplied by a learned number behind the layer
  bool attention_norm = true;
  bool reads_embedding = false;  // attention reads [norm(embedding); norm(x)] of a draft head

  bool mixes() const { return !attention.none() || !recurrent.none(); }
  bool feeds() const { return !mlp.none(); }
  bool reads_norm() const {
    return mixes() && attention_norm && norms != NormPlacement::kPost;
  }  // has a norm before (or of x behind) attention
  bool norms_branches() const { return norms == NormPlacement::kSandwich || norms == NormPlacement::kPost; }
  bool has_mlp_norm() const { return feeds() && norms != NormPlacement::kPost && norms != NormPlacement::kParallel; }
  friend bool operator==(const LayerSpec&, const LayerSpec&) = default;
};

struct Family;

struct ModelSpec {
  enum class End : std::uint8_t {
    kLogits,
    kVectors,  // an encoder: a text is read in one step, each row sees all of it, and nothing is cached
  };

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
  int positions = 0;           // learned rows that are added to the embedding; 0: none
  int first_position = 0;      // rows before these that files have, and no text
  int embedding_width = 0;     // of the table, which a matrix brings to `hidden`, and back before the head; 0: hidden
  bool embedding_norm = false;
  bool final_norm = true;
  bool norm_weights = true;  // of the stream's norms
  bool head_bias = false;
  int layer_input = 0;  // the width of what each layer is given of a token (per-layer embeddings); 0: nothing
  int token_types = 0;  // learned rows that are added to the embedding by the kind of a token's text; 0: none
  End end = End::kLogits;
  VectorSpec vectors = {};  // of what embeds with it; decoders do, too
  RerankSpec rerank = {};   // of what reranks with it
  // One, of an encoder-decoder: it makes rows of a source, which the layers with of_source read; both share one table
  // of embeddings. The text then begins with `answer_start`, and what was asked is the source.
  std::vector<ModelSpec> encoder = {};
  std::vector<TokenId> answer_start = {};
  DraftHeadSpec draft = {};  // none: a model by itself

  bool reads_source() const { return !encoder.empty(); }
  bool encodes() const { return end == End::kVectors; }
  bool generates() const { return !encodes() && !rerank.classifies(); }  // has a head
  int table_width() const { return embedding_width == 0 ? hidden : embedding_width; }
  int layer_count() const { return static_cast<int>(layers.size()); }
  const AttentionSpec& attention(int layer) const { return layers[static_cast<size_t>(layer)].attention; }
  std::int64_t query_width() const;      // of all layers' query heads: what a token multiplies with each cached one
  std::string_view family_name() const;  // as config.json's model_type spells it
  bool recurs() const;                   // some layer has a state
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

// The spec of a model that is to read texts of up to `context` tokens (0: what it was trained for): ropes whose
// frequencies depend on that are settled, once for all texts, so that a cached key never changes. Throws Error.
ModelSpec for_context(ModelSpec spec, std::int64_t context);

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

// The groups of layers that are cached alike under a policy: those of rows, and behind them those of states, which
// are the same under every policy; none, of an encoder. Recent tokens are kept as whole rows. Throws Error when it
// names a layer that the model does not have, or a rank beyond the heads' size, or asks for what a layer does not
// allow: V apart where it is a part of K, tokens elsewhere than they were where distances count, or fewer of them
// where a state has seen them all.
std::vector<KvGroup> kv_groups(const ModelSpec& spec, const KvPolicy& policy);

// Of these groups: whether its rows are not the text's own, but those of its source, which layers read whole. Such
// groups are the last ones.
bool is_of_source(const ModelSpec& spec, const KvGroup& group);

// The same for steps whose keys and values nobody keeps: in float32, and in as few groups as layers need.
std::vector<KvGroup> scratch_groups(const ModelSpec& spec);

}  // namespace kvasir
