// DeepSeek-V2 (and Lite), V3, R1, Kimi K2, GLM-4.7-Flash, Mistral Small 4: one latent row a token is cached (MLA),
// and experts stand beside an MLP for all rows in all but the first layers.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "model/families/family.h"
#include "model/gguf/gguf_reader.h"
#include "model/gguf/gguf_rope.h"

namespace kvasir {
namespace {

int latent_size(const JsonReader& in, std::string_view key, std::int64_t most = ShapeLimits::kHeadDim) {
  return static_cast<int>(in.get(key).integer({1, most}));
}

// What cosines, sines and scores grow by where yarn stretches the context.
double latent_magnitude(double factor, double scale) {
  return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0;
}

void read_latent(const JsonReader& in, DecoderConfig& config) {
  require_silu(in);
  require_flag(in, "mlp_bias", false);
  if (config.kv_heads != config.heads) in.fail_inside("num_key_value_heads is not num_attention_heads");
  LatentSpec& latent = config.latent;
  latent.bias = config.attention_bias = in.flag_or("attention_bias", false);
  latent.kv_rank = latent_size(in, "kv_lora_rank");
  latent.q_rank = in.find("q_lora_rank") ? latent_size(in, "q_lora_rank", ShapeLimits::kHidden) : 0;
  latent.nope_dim = latent_size(in, "qk_nope_head_dim");
  latent.rope_dim = latent_size(in, "qk_rope_head_dim");
  latent.v_dim = latent_size(in, "v_head_dim");
  if (latent.rope_dim % 2 != 0) in.fail_inside("qk_rope_head_dim is odd, and rope turns pairs");
  latent.pairs = in.flag_or("rope_interleave", true) ? LatentSpec::Pairs::kNeighbours : LatentSpec::Pairs::kHalves;
  config.rope.rotated = static_cast<double>(latent.rope_dim) / (latent.rope_dim + latent.kv_rank);
  config.attention_scale = 1 / std::sqrt(static_cast<double>(latent.q_dim()));
}

// Scores grow with the context that yarn gives, squared: for queries and for keys.
void scale_scores(const JsonReader& in, DecoderConfig& config) {
  std::optional<JsonReader> rope = in.find("rope_parameters");
  if (!rope) rope = in.find("rope_scaling");
  if (!rope || config.rope.scaling != RopeSpec::Scaling::kYarn) return;
  const double all = positive_or(*rope, "mscale_all_dim", 0);
  if (all == 0) return;
  const double grown = latent_magnitude(config.rope.factor, all);
  config.attention_scale *= grown * grown;
}

void read_deepseek_v2(const JsonReader& in, DecoderConfig& config) {
  read_latent(in, config);
  config.latent.pairs = LatentSpec::Pairs::kNeighbours;
  scale_scores(in, config);
  require_flag(in, "norm_topk_prob", false);
  if (config_integer(in, "moe_layer_freq", {1, ShapeLimits::kLayers}, 1) != 1) {
    in.fail_inside("moe_layer_freq is not 1, which is not supported");
  }
  read_experts(in, "n_routed_experts", "num_experts_per_tok", config);
  read_sigmoid_routing(in, config);
  config.moe.score = RouterRule::Score::kSoftmax;
  config.moe.choice_bias = config.moe.normalized = false;
  config.moe.group_score = RouterRule::GroupScore::kBest;
  if (in.text_or("topk_method", "greedy") == "greedy") config.moe.groups = config.moe.used_groups = 1;
}

void read_deepseek_v3(const JsonReader& in, DecoderConfig& config) {
  read_latent(in, config);
  scale_scores(in, config);
  read_experts(in, "n_routed_experts", "num_experts_per_tok", config);
  read_sigmoid_routing(in, config);
}

// Layers say themselves whether they have experts, or the first has none.
void read_glm4_moe_lite(const JsonReader& in, DecoderConfig& config) {
  read_deepseek_v3(in, config);
  const std::optional<JsonReader> types = in.find("mlp_layer_types");
  if (!types) {
    if (!in.find("first_k_dense_replace")) config.dense_layers = {0};
    return;
  }
  config.dense_layers.clear();
  int layer = 0;
  for (const JsonReader type : types->items()) {
    if (type.text() == "dense") config.dense_layers.push_back(layer);
    ++layer;
  }
  if (layer != config.layers) types->fail(fmt::format("has {} entries for {} layers", layer, config.layers));
}

void read_mistral4(const JsonReader& in, DecoderConfig& config) {
  read_latent(in, config);
  read_experts(in, "n_routed_experts", "num_experts_per_tok", config);
  read_sigmoid_routing(in, config);
  config.moe.score = RouterRule::Score::kSoftmax;
  config.moe.choice_bias = false;
  read_query_growth(in, config);
}

std::vector<TensorSpec> deepseek_tensors(const ModelSpec& spec) {
  return decoder_tensors(spec, GgufRows::kInterleaved);
}

std::vector<TensorSpec> mistral4_tensors(const ModelSpec& spec) {
  using enum TensorRole;
  std::vector<TensorSpec> out = deepseek_tensors(spec);
  for (const TensorRole role : {kGate, kUp}) store_stacked(out, role, "mlp.experts.gate_up_proj");
  store_stacked(out, kDown, "mlp.experts.down_proj");
  store_together(out, std::array{kGate, kUp}, {"mlp.experts.gate_up_proj"}, {.of = JointRows::Of::kExperts});
  return out;
}

constexpr std::array<std::string_view, 9> kLatentKnown{
    "expert_shared_count",       "expert_gating_func",          "expert_weights_norm",
    "expert_weights_scale",      "expert_group_count",          "expert_group_used_count",
    "leading_dense_block_count", "attention.temperature_scale", "attention.temperature_length"};
constexpr std::array<std::string_view, 3> kLatentRefused{"attn_q_a.bias", "attn_kv_a_mqa.bias", "attn_output.bias"};

// Groups of experts are chosen by their best expert where scores are a softmax (V2), and by their best two where they
// are sigmoids. llama.cpp takes the best two of both. Files of GLM-4.7-Flash may leave the score out.
void read_deepseek_gguf(const GgufReader& in, DecoderConfig& config) {
  constexpr int kGlmVocab = 154880;
  read_latent_yarn(in, YarnMagnitude::kKept, config);
  const std::int64_t gating = in.integer_if("expert_gating_func", 0, UINT32_MAX).value_or(0);
  const bool glm = gating == 0 && (config.layers == 47 || config.layers == 48) && config.vocab == kGlmVocab;
  if (glm) config.moe.score = RouterRule::Score::kSigmoid;
  if (!glm && gating < 2) config.moe.group_score = RouterRule::GroupScore::kBest;
}

void read_mistral4_gguf(const GgufReader& in, DecoderConfig& config) {
  read_latent_yarn(in, YarnMagnitude::kDivided, config);
}

constexpr GgufForm kDeepseekGguf{.architecture = "deepseek2",
                                 .moe = {},
                                 .known = kLatentKnown,
                                 .refused = kLatentRefused,
                                 .read = read_deepseek_gguf};

constexpr ConfigKeys kLatentKeys{.head_dim = ""};
constexpr ConfigDefaults kLatentDefaults{.head_dim = 64};

}  // namespace

extern constexpr Family kDeepseekV2Family{.name = "deepseek_v2",
                                          .gguf = kDeepseekGguf,
                                          .experts = true,
                                          .keys = kLatentKeys,
                                          .defaults = kLatentDefaults,
                                          .read = read_deepseek_v2,
                                          .spec = plain_decoder,
                                          .tensors = deepseek_tensors};

extern constexpr Family kDeepseekV3Family{.name = "deepseek_v3",
                                          .also = "kimi_k2",
                                          .gguf = kDeepseekGguf,
                                          .experts = true,
                                          .keys = kLatentKeys,
                                          .defaults = kLatentDefaults,
                                          .next_n = kNextNLayer,
                                          .read = read_deepseek_v3,
                                          .spec = plain_decoder,
                                          .tensors = deepseek_tensors};

extern constexpr Family kGlm4MoeLiteFamily{.name = "glm4_moe_lite",
                                           .gguf = kDeepseekGguf,
                                           .experts = true,
                                           .keys = kLatentKeys,
                                           .defaults = kLatentDefaults,
                                           .next_n = kNextNLayer,
                                           .read = read_glm4_moe_lite,
                                           .spec = plain_decoder,
                                           .tensors = deepseek_tensors};

extern constexpr Family kMistral4Family{.name = "mistral4",
                                        .gguf = {.architecture = "mistral4",
                                                 .moe = {},
                                                 .known = kLatentKnown,
                                                 .refused = kLatentRefused,
                                                 .read = read_mistral4_gguf},
                                        .experts = true,
                                        .keys = kLatentKeys,
                                        .defaults = kLatentDefaults,
                                        .read = read_mistral4,
                                        .spec = plain_decoder,
                                        .tensors = mistral4_tensors};

}  // namespace kvasir
