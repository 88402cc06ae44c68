// A family of models: how its config.json and its GGUF files become a ModelSpec, and what its tensors are called. One
// file a family, and a line in families.cpp; everything else reads specs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_reader.h"
#include "model/gguf/gguf_form.h"
#include "model/spec.h"
#include "model/tensors.h"

namespace kvasir {

// What files say of a decoder whose layers are alike but for their windows: what config.json, GGUF and the list of
// known models have in common.
struct DecoderConfig {
  const Family* family = nullptr;
  int layers = 0;
  int hidden = 0;
  int ffn = 0;
  int heads = 0;     // query heads
  int kv_heads = 0;  // divides heads
  int head_dim = 0;
  int vocab = 0;
  std::int64_t context = 0;
  double norm_eps = 1e-5;
  bool tied_embeddings = false;
  bool attention_bias = false;      // what a config says; a family may have some of these biases without a word
  bool attention_out_bias = false;  // where a config has it apart
  bool mlp_bias = false;
  DType dtype = DType::kBF16;
  std::string quantization;
  RopeSpec rope;
  Activation activation = Activation::kSilu;
  double attention_scale = 0;  // of scores; 0: 1 / sqrt(head_dim)
  double attention_softcap = 0;
  double embedding_scale = 1;
  double branch_scale = 1;
  double logit_scale = 1;
  double logit_softcap = 0;
  std::optional<RopeSpec> local_rope = {};  // of layers with a window, where these have another one
  std::vector<int> no_rope_layers = {};
  MoeSpec moe = {};
  std::vector<int> dense_layers = {};  // ascending: those that have one MLP, of `ffn`, in a model with experts
  int expert_ffn = 0;
  NormPlacement norms = NormPlacement::kPre;
  AttentionSpec::QkNorm qk_norm = AttentionSpec::QkNorm::kNone;
  double clip = 0;             // AttentionSpec's
  PositionBiasSpec bias = {};  // of scores
  int positions = 0;           // ModelSpec's
  int first_position = 0;
  int embedding_width = 0;
  bool norm_weights = true;
  bool scale_by_layer = false;  // scores of layer i are divided by i + 1
  bool final_norm = true;
  bool by_head = false;   // q, k and v of a head lie together in Hugging Face's file
  int chunk = 0;          // of layers with a rope
  RopeSpec no_rope = {};  // of no_rope_layers, where it scales queries
  float swiglu_limit = 0;
  int global_head_dim = 0;       // of layers without a window; 0: as the others
  int global_kv_heads = 0;       // likewise
  bool keys_as_values = false;   // in layers without a window
  int shared_kv_layers = 0;      // the last ones, which read keys and values of earlier ones
  bool wide_shared_mlp = false;  // of these, twice as wide
  int layer_input = 0;
  int token_types = 0;
  RerankSpec rerank = {};                      // of a classifier
  std::optional<VectorSpec::Pooling> pooling;  // what a GGUF file says
  LatentSpec latent = {};
  struct Encoder {
    int layers = 0;  // 0: there is none
    int heads = 0;
    int ffn = 0;
  };
  Encoder encoder = {};  // of an encoder-decoder, as far as it is another than the decoder
  std::vector<TokenId> answer_start = {};
  bool plain_mlp = false;                  // without gates
  bool both_ways = false;                  // an encoder: see make_encoder()
  RecurrentSpec recurrent = {};            // of those layers that …
  std::vector<int> recurrent_layers = {};  // … have a state in place of attention, …
  bool side_by_side = false;               // … or beside it
  std::vector<int> unmixed_layers = {};    // have neither attention nor a state
  std::vector<int> unfed_layers = {};      // have no MLP
  double attention_out_scale = 1;          // AttentionSpec's and MlpSpec's
  double gate_scale = 1;
  double mlp_out_scale = 1;
  std::vector<std::int64_t> windows;  // per layer, 0 = all earlier tokens; empty: no layer has a window
  std::vector<TokenId> eos;
  TokenId bos = -1;
};

// Which layers have the window: those from `first` on, but each `every`-th.
struct WindowRule {
  std::int64_t first = 0;
  std::int64_t every = 0;  // 0: no exception
  std::int64_t phase = 1;

  bool windowed(int layer) const { return layer >= first && (every == 0 || (layer + phase) % every != 0); }
};

// The keys of config.json that families spell differently. An empty one: the family's files never have it.
struct ConfigKeys {
  std::string_view layers = "num_hidden_layers";
  std::string_view layer_list = {};  // has an item a layer, and says how many there are where it is given
  std::string_view hidden = "hidden_size";
  std::string_view ffn = "intermediate_size";
  std::string_view heads = "num_attention_heads";
  std::string_view kv_heads = "num_key_value_heads";
  std::string_view head_dim = "head_dim";
  std::string_view context = "max_position_embeddings";
  std::string_view norm_eps = "rms_norm_eps";
};

// What a family's config.json may leave out. 0: must be given (kv_heads: as many as heads, head_dim: hidden / heads,
// ffn: where it must not, four times the hidden size).
struct ConfigDefaults {
  bool tied = false;
  double norm_eps = 1e-6;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn_times_hidden = 0;
  std::int64_t vocab = 0;
  std::int64_t context = 0;
  double rope_theta = 10000.0;
  double rotated = 1.0;  // of a head
};

// What a family's files call a head that guesses the next tokens (MTP): a layer like the model's last one that has
// attention. "{}" is the number behind that of the model's last layer.
struct NextNForm {
  std::string_view layer = {};  // what stands before a layer's tensors; empty: the family has no such heads
  std::string_view ends = {};   // … before the head's other tensors:
  std::string_view embedding_norm = "enorm";
  std::string_view given_norm = "hnorm";
  std::string_view join = "eh_proj";
  std::string_view final_norm = "shared_head.norm";
  DraftHeadSpec::Feeds feeds = DraftHeadSpec::Feeds::kStream;

  bool none() const { return layer.empty(); }
};

inline constexpr NextNForm kNextNLayer{.layer = "model.layers.{}", .ends = "model.layers.{}"};

struct Family {
  std::string_view name;       // config.json's model_type
  std::string_view also = {};  // another one that means the same
  GgufForm gguf{};
  GgufForm gguf_encoder{};        // of its encoders, where they have an architecture of their own
  GgufForm gguf_experts{};        // of its models with experts, likewise
  bool experts = false;           // its layers have some: of several families with one GGUF architecture
  std::string_view not_yet = {};  // why it can be planned and not run: "the decoder has no …"; empty: it runs
  ConfigKeys keys{};
  ConfigDefaults defaults{};
  RerankForm rerank{};  // of its classifiers
  // Of models that are known by name (known_models.h), whose configs say it.
  double known_norm_eps = 1e-5;
  WindowRule known_windows{};
  NextNForm next_n{};  // of heads that its files may have

  // What config.json says beyond the sizes, the rope and the tokens, which all decoders have. May be null.
  void (*read)(const JsonReader& in, DecoderConfig& config) = nullptr;
  ModelSpec (*spec)(const DecoderConfig& config) = nullptr;
  std::vector<TensorSpec> (*tensors)(const ModelSpec& spec) = nullptr;
};

std::span<const Family* const> families();
const Family& family_named(std::string_view model_type, const std::string& where);  // or an Error listing them

// The family's spec of it. Throws Error unless it passes check_shape().
ModelSpec checked_spec(const DecoderConfig& config, const std::string& where);

// What families are made of.

// A decoder of layers that are all alike but for their windows, with nothing beyond what the config says.
ModelSpec plain_decoder(const DecoderConfig& config);

// Every token sees all others, and where a layer has a window, those that are at most half of it away. Rows become
// vectors.
void make_encoder(ModelSpec& spec);

// Of an encoder-decoder, whose config says where an answer begins: config.answer_start.
void read_answer_start(const JsonReader& in, DecoderConfig& config);

// The spec's layers are blocks of an encoder-decoder's decoder. It is given an encoder of layers of the same kind,
// and each block becomes two layers: one over the text, and one over the source, with the MLP.
void add_encoder(ModelSpec& spec, const DecoderConfig& config);

// Tensors of the encoder, and of such a decoder's blocks: `text` has names of what is over the text.
std::vector<TensorSpec> encoder_tensors(const ModelSpec& spec, const LayerNames& names);
std::vector<TensorSpec> block_tensors(const ModelSpec& spec, const LayerNames& text, const LayerNames& source);

// config.windows from "sliding_window" (`fallback` where it is not there, none where it is null) and "layer_types",
// or the rule where there are no layer_types.
void read_windows(const JsonReader& in, std::int64_t fallback, WindowRule rule, DecoderConfig& config);

inline constexpr std::int64_t kUsualWindow = 4096;     // what configs that have windows and do not say how long mean
inline constexpr std::int64_t kGlobalEveryFourth = 4;  // which layers have no window, in several families

// The same where "use_sliding_window" asks for it, for layers from "max_window_layers" on, as Qwen has it.
void read_later_windows(const JsonReader& in, DecoderConfig& config);

// The value of a key, a positive integer up to `most`; `fallback` where it is not there.
std::int64_t config_integer(const JsonReader& in, std::string_view key, IntegerRange range, std::int64_t fallback);

// config.moe from the keys that give the number of experts and how many a token goes to.
void read_experts(const JsonReader& in, std::string_view count_key, std::string_view used_key, DecoderConfig& config);

// config.dense_layers from "decoder_sparse_step" and "mlp_only_layers": a layer has experts where its number, counted
// from one, is a multiple of the one, unless the other lists it.
void read_sparse_steps(const JsonReader& in, DecoderConfig& config);

// Routing by sigmoids in groups, an MLP beside the experts, and the first layers without any, as DeepSeek-V3's
// configs and others have it. REQUIRES: read_experts().
void read_sigmoid_routing(const JsonReader& in, DecoderConfig& config);

// config.rope's growth of queries from "llama_4_scaling_beta" of "rope_parameters", where it is there.
void read_query_growth(const JsonReader& in, DecoderConfig& config);

// Throws Error where a flag that changes what is computed is not as this says.
void require_flag(const JsonReader& in, std::string_view key, bool needed);

// config.activation from a key's name for it ("silu", "gelu_pytorch_tanh", …), or what its absence means.
void read_activation(const JsonReader& in, std::string_view key, Activation fallback, DecoderConfig& config);

// config.local_rope where "rope_parameters" has sets for both kinds of layers.
void read_local_rope(const JsonReader& in, const RopeSpec& fallback, DecoderConfig& config);

double positive_or(const JsonReader& in, std::string_view key, double fallback);

// Throws Error unless "hidden_act" is silu, or absent: the decoder's gated MLP has no other.
void require_silu(const JsonReader& in);

}  // namespace kvasir
