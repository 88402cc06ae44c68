// Gemma 4 (text): layers with a window and layers without one have heads of different sizes and numbers, and ropes of
// their own; the last layers may read keys and values of earlier ones, keys may be values, each layer may be given
// something of a token, and experts may stand beside the MLP.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "model/families/family.h"
#include "model/gguf/gguf_reader.h"

namespace kvasir {
namespace {

constexpr double kGemma4LocalTheta = 1e4;
constexpr std::int64_t kGemma4GlobalEvery = 6;
constexpr LayerNames kGemma4Names{.mlp_norm = {"pre_feedforward_layernorm", "ffn_norm"}};
constexpr ExpertNames kGemma4Experts{.router = "router.proj.weight",
                                     .gate = "experts.{}.gate_proj.weight",
                                     .up = "experts.{}.up_proj.weight",
                                     .down = "experts.{}.down_proj.weight",
                                     .shared_gate = {"mlp.gate_proj", "ffn_gate"},
                                     .shared_up = {"mlp.up_proj", "ffn_up"},
                                     .shared_down = {"mlp.down_proj", "ffn_down"}};

int gemma4_size(const JsonReader& in, std::string_view key, std::int64_t most, int fallback) {
  return static_cast<int>(config_integer(in, key, {1, most}, fallback));
}

void read_gemma4_experts(const JsonReader& in, DecoderConfig& config) {
  read_experts(in, "num_experts", "top_k_experts", config);
  config.expert_ffn = gemma4_size(in, "moe_intermediate_size", ShapeLimits::kFfn, config.ffn);
  config.moe.normalized = true;
  config.moe.expert_scale = true;
  config.moe.own_norms = true;
  config.moe.shared_width = config.ffn;
}

void read_gemma4(const JsonReader& in, DecoderConfig& config) {
  read_activation(in, "hidden_activation", Activation::kGeluTanh, config);
  config.attention_bias = in.flag_or("attention_bias", false);
  config.attention_scale = 1;
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden));
  if (in.find("final_logit_softcapping")) config.logit_softcap = in.get("final_logit_softcapping").positive();
  config.global_head_dim = gemma4_size(in, "global_head_dim", ShapeLimits::kHeadDim, config.head_dim);
  config.keys_as_values = in.flag_or("attention_k_eq_v", false);
  config.global_kv_heads = config.keys_as_values
                               ? gemma4_size(in, "num_global_key_value_heads", ShapeLimits::kHeads, config.kv_heads)
                               : config.kv_heads;
  config.shared_kv_layers = static_cast<int>(config_integer(in, "num_kv_shared_layers", {0, config.layers - 1}, 0));
  config.wide_shared_mlp = in.flag_or("use_double_wide_mlp", false);
  config.layer_input =
      static_cast<int>(config_integer(in, "hidden_size_per_layer_input", {0, ShapeLimits::kHidden}, 0));
  if (config.layer_input > 0 && in.find("vocab_size_per_layer_input") &&
      in.get("vocab_size_per_layer_input").integer() != config.vocab) {
    in.fail_inside("vocab_size_per_layer_input is not vocab_size, which is not supported");
  }
  RopeSpec local;
  local.theta = kGemma4LocalTheta;
  read_local_rope(in, local, config);
  read_windows(in, 512, {.every = kGemma4GlobalEvery}, config);
  if (config.windows.empty()) in.fail_inside("sliding_window is null, which is not supported");
  config.windows.back() = 0;  // the last layer always sees all
  if (in.flag_or("enable_moe_block", false)) read_gemma4_experts(in, config);
}

// The layer whose keys and values layer `i` reads: the last one of its kind that has its own.
int owner_of(const DecoderConfig& config, int i) {
  const auto windowed = [&config](int layer) {
    return !config.windows.empty() && config.windows[static_cast<size_t>(layer)] > 0;
  };
  int owner = config.layers - config.shared_kv_layers - 1;
  while (owner >= 0 && windowed(owner) != windowed(i)) --owner;
  return owner >= 0 ? owner : i;  // check_shape() refuses the latter
}

ModelSpec gemma4_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  for (int i = 0; i < config.layers; ++i) {
    LayerSpec& layer = spec.layers[static_cast<size_t>(i)];
    AttentionSpec& attention = layer.attention;
    layer.norms = NormPlacement::kSandwich;
    layer.scaled = true;
    attention.qk_norm = AttentionSpec::QkNorm::kPerHead;
    attention.v_norm = true;
    if (attention.window == 0) {
      const int dim = config.global_head_dim > 0 ? config.global_head_dim : config.head_dim;
      attention.kv = {config.global_kv_heads > 0 ? config.global_kv_heads : config.kv_heads, dim, dim};
      if (config.keys_as_values) attention.values = AttentionSpec::Values::kUnturnedKeys;
    }
    if (i < config.layers - config.shared_kv_layers) continue;
    attention.kv_layer = owner_of(config, i);
    if (config.wide_shared_mlp) layer.mlp.width *= 2;
  }
  return spec;
}

constexpr std::array<std::string_view, 7> kGemma4Known{"attention.sliding_window",
                                                       "attention.sliding_window_pattern[]",
                                                       "rope.freq_base_swa",
                                                       "attention.shared_kv_layers",
                                                       "embedding_length_per_layer_input",
                                                       "final_logit_softcapping",
                                                       kGgufRopeFactors};
constexpr std::array<std::string_view, 2> kGemma4Refused{"attn_q.bias", "attn_output.bias"};

// Sizes that stand alone are those of layers without a window.
void read_gemma4_gguf(const GgufReader& in, DecoderConfig& config) {
  config.activation = Activation::kGeluTanh;
  config.attention_scale = 1;
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden));
  config.global_head_dim = config.head_dim;
  config.head_dim = in.size_or("attention.key_length_swa", ShapeLimits::kHeadDim, config.head_dim);
  constexpr std::string_view kHeads = "attention.head_count_kv";
  config.global_kv_heads = of_kind(in, kHeads, LayerKind::kGlobal, config).value_or(config.kv_heads);
  config.kv_heads = of_kind(in, kHeads, LayerKind::kWindowed, config).value_or(config.global_kv_heads);
  set_plain_local_rope(in, kGemma4LocalTheta, config);
  const int turned = in.size_or("rope.dimension_count_swa", config.head_dim, config.head_dim);
  config.local_rope->rotated = static_cast<double>(turned) / config.head_dim;
  const auto global = std::ranges::find(config.windows, 0) - config.windows.begin();
  config.keys_as_values = !in.has_tensor(fmt::format("blk.{}.attn_v.weight", global));
  const auto widths = in.per_layer("feed_forward_length", {1, ShapeLimits::kFfn}, config.layers);
  config.wide_shared_mlp = widths && widths->back() == 2 * widths->front();
  if (config.moe.experts > 0) config.moe.shared_width = config.ffn;
}

// What only this family has, of the model and of each layer.
void add_own_tensors(const ModelSpec& spec, std::vector<TensorSpec>& out) {
  using enum TensorRole;
  const int inputs = spec.layer_input * spec.layer_count();
  const auto add = [&out](std::string name, std::string gguf, TensorSpec like) {
    like.name = std::move(name);
    like.gguf = std::move(gguf);
    out.push_back(std::move(like));
  };
  if (inputs > 0) {
    add("model.embed_tokens_per_layer.weight", "per_layer_token_embd.weight",
        {.rows = spec.vocab, .cols = inputs, .role = kLayerEmbedding});
    add("model.per_layer_model_projection.weight", "per_layer_model_proj.weight",
        {.rows = inputs, .cols = spec.hidden, .role = kLayerProjection});
    add("model.per_layer_projection_norm.weight", "per_layer_proj_norm.weight",
        {.rows = spec.layer_input, .role = kLayerProjectionNorm});
  }
  for (int i = 0; i < spec.layer_count(); ++i) {
    const auto own = [&](std::string_view name, std::string_view gguf, TensorSpec like) {
      like.layer = i;
      add(fmt::format("model.layers.{}.{}", i, name), fmt::format("blk.{}.{}", i, gguf), like);
    };
    const auto norm = [&](std::string_view name, std::string_view gguf, TensorRole role) {
      own(fmt::format("{}.weight", name), fmt::format("{}.weight", gguf), {.rows = spec.hidden, .role = role});
    };
    own("layer_scalar", "layer_output_scale.weight", {.rows = 1, .role = kLayerScale});
    if (inputs > 0) {
      own("per_layer_input_gate.weight", "inp_gate.weight",
          {.rows = spec.layer_input, .cols = spec.hidden, .role = kLayerGate});
      own("per_layer_projection.weight", "proj.weight",
          {.rows = spec.hidden, .cols = spec.layer_input, .role = kLayerOut});
      norm("post_per_layer_input_norm", "post_norm", kLayerPostNorm);
    }
    const MoeSpec& moe = spec.layers[static_cast<size_t>(i)].mlp.moe;
    if (moe.experts == 0) continue;
    own("router.scale", "ffn_gate_inp.scale", {.rows = spec.hidden, .role = kRouterScale});
    own("router.per_expert_scale", "ffn_down_exps.scale", {.rows = moe.experts, .role = kExpertScale});
    norm("pre_feedforward_layernorm_2", "pre_ffw_norm_2", kExpertNorm);
    norm("post_feedforward_layernorm_1", "post_ffw_norm_1", kSharedPostNorm);
    norm("post_feedforward_layernorm_2", "post_ffw_norm_2", kExpertPostNorm);
  }
}

std::vector<TensorSpec> gemma4_tensors(const ModelSpec& spec) {
  using enum TensorRole;
  std::vector<TensorSpec> out = decoder_tensors(spec, GgufRows::kAsStored, kGemma4Experts, kGemma4Names);
  add_own_tensors(spec, out);
  for (const TensorRole role : {kGate, kUp}) store_stacked(out, role, "experts.gate_up_proj");
  store_stacked(out, kDown, "experts.down_proj");
  store_together(out, std::array{kGate, kUp}, {"experts.gate_up_proj"}, {.of = JointRows::Of::kExperts});
  return out;
}

}  // namespace

extern constexpr Family kGemma4Family{.name = "gemma4_text",
                                      .also = "gemma4",  // the multimodal wrapper around it
                                      .gguf = {.architecture = "gemma4",
                                               .maybe_experts = true,
                                               .two_kinds = true,
                                               .moe = {.normalized = true, .expert_scale = true, .own_norms = true},
                                               .global_every = kGemma4GlobalEvery,
                                               .windows_need_pattern = false,
                                               .known = kGemma4Known,
                                               .refused = kGemma4Refused,
                                               .read = read_gemma4_gguf},
                                      .defaults = {.tied = true, .head_dim = 256, .vocab = 262144, .context = 131072},
                                      .known_norm_eps = 1e-6,
                                      .known_windows = {.every = kGemma4GlobalEvery},
                                      .read = read_gemma4,
                                      .spec = gemma4_spec,
                                      .tensors = gemma4_tensors};

}  // namespace kvasir
