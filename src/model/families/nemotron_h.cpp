// Nemotron-H and Nemotron-3: each layer is one branch: Mamba-2, attention that knows no positions, an MLP without
// gates, or such experts beside an MLP, which may read fewer numbers than the stream has.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/families/mamba_config.h"

namespace kvasir {
namespace {

enum class Block : std::uint8_t { kMamba, kAttention, kMlp, kExperts };

Block block_named(const JsonReader& type) {
  const std::string_view name = type.text();
  if (name == "mamba" || name == "linear_attention") return Block::kMamba;
  if (name == "attention" || name == "full_attention") return Block::kAttention;
  if (name == "mlp") return Block::kMlp;
  if (name != "moe") type.fail(fmt::format("is '{}'", name.substr(0, 40)), "known are mamba, attention, mlp and moe");
  return Block::kExperts;
}

std::vector<Block> read_blocks(const JsonReader& in) {
  std::vector<Block> out;
  if (const auto types = in.find("layers_block_type")) {
    for (const JsonReader type : types->items()) out.push_back(block_named(type));
    return out;
  }
  const JsonReader pattern = in.get("hybrid_override_pattern");
  constexpr std::string_view kLetters = "M*-E";  // by Block
  for (const char letter : pattern.text()) {
    const size_t block = kLetters.find(letter);
    if (block == std::string_view::npos) pattern.fail(fmt::format("has a '{}'", letter), "known are M, *, - and E");
    out.push_back(static_cast<Block>(block));
  }
  return out;
}

void read_blocks(const JsonReader& in, DecoderConfig& config) {
  const std::vector<Block> blocks = read_blocks(in);
  if (std::ssize(blocks) != config.layers) {
    in.fail_inside(fmt::format("hybrid_override_pattern has {} layers, and num_hidden_layers is {}", blocks.size(),
                               config.layers));
  }
  for (int i = 0; i < config.layers; ++i) {
    const Block block = blocks[static_cast<size_t>(i)];
    const bool mixes = block == Block::kMamba || block == Block::kAttention;
    (mixes ? config.unfed_layers : config.unmixed_layers).push_back(i);
    if (block == Block::kMamba) config.recurrent_layers.push_back(i);
    if (block == Block::kAttention) config.no_rope_layers.push_back(i);
    if (block == Block::kMlp) config.dense_layers.push_back(i);
  }
}

void read_nemotron_experts(const JsonReader& in, DecoderConfig& config) {
  read_experts(in, "n_routed_experts", "num_experts_per_tok", config);
  read_sigmoid_routing(in, config);
  config.dense_layers.clear();  // the pattern says which these are
  config.moe.shared_width =
      static_cast<int>(in.get("moe_shared_expert_intermediate_size").integer({1, ShapeLimits::kFfn}));
  config.moe.latent = static_cast<int>(config_integer(in, "moe_latent_size", {1, ShapeLimits::kHidden}, 0));
}

void read_nemotron_mamba(const JsonReader& in, RecurrentSpec& recurrent) {
  const auto size = [&in](const char* key, std::int64_t most, std::int64_t fallback) {
    return static_cast<int>(config_integer(in, key, {1, most}, fallback));
  };
  if (in.text_or("mamba_hidden_act", "silu") != "silu") in.fail_inside("mamba_hidden_act is not silu");
  require_flag(in, "use_bias", false);
  require_flag(in, "mamba_proj_bias", false);
  recurrent.kind = RecurrentSpec::Kind::kMamba2;
  recurrent.heads = size("mamba_num_heads", ShapeLimits::kHeads, 128);
  recurrent.v_dim = size("mamba_head_dim", ShapeLimits::kHeadDim, 64);
  recurrent.k_heads = size("n_groups", ShapeLimits::kHeads, 8);
  recurrent.k_dim = size("ssm_state_size", kMostStateRows, 128);
  recurrent.conv_weights = size("conv_kernel", kMostConvWeights, 4);
  recurrent.conv_bias = in.flag_or("use_conv_bias", true);
  recurrent.norm_stage = RecurrentSpec::NormStage::kBehindGate;
  recurrent.norm_groups = recurrent.k_heads;
  read_step_limits(in, recurrent);
}

void read_nemotron_h(const JsonReader& in, DecoderConfig& config) {
  require_flag(in, "attention_bias", false);
  require_flag(in, "mlp_bias", false);
  if (in.find("sliding_window")) in.get("sliding_window").fail("is not supported in this family");
  if (!in.find("head_dim")) {
    config.head_dim =
        static_cast<int>(config_integer(in, "attention_head_dim", {1, ShapeLimits::kHeadDim}, config.head_dim));
  }
  read_activation(in, "mlp_hidden_act", Activation::kReluSquared, config);
  read_nemotron_mamba(in, config.recurrent);
  const std::vector<Block> blocks = read_blocks(in);
  if (std::ranges::find(blocks, Block::kExperts) != blocks.end()) read_nemotron_experts(in, config);
  read_blocks(in, config);
}

ModelSpec nemotron_h_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  for (LayerSpec& layer : spec.layers) {
    if (layer.feeds()) layer.mlp.kind = MlpSpec::Kind::kPlain;
  }
  return spec;
}

constexpr ExpertNames kNemotronExperts{.router = "mixer.gate.weight",
                                       .choice = "mixer.gate.e_score_correction_bias",
                                       .up = "mixer.experts.{}.up_proj.weight",
                                       .down = "mixer.experts.{}.down_proj.weight",
                                       .latent_in = "mixer.fc1_latent_proj.weight",
                                       .latent_out = "mixer.fc2_latent_proj.weight",
                                       .shared_up = {"mixer.shared_experts.up_proj", "ffn_up_shexp"},
                                       .shared_down = {"mixer.shared_experts.down_proj", "ffn_down_shexp"}};
constexpr LayerNames kNemotronNames{.attention_norm = {"norm", "attn_norm"},
                                    .mlp_norm = {"norm", "attn_norm"},
                                    .up = {"mixer.up_proj", "ffn_up"},
                                    .down = {"mixer.down_proj", "ffn_down"},
                                    .q = {"mixer.q_proj", "attn_q"},
                                    .k = {"mixer.k_proj", "attn_k"},
                                    .v = {"mixer.v_proj", "attn_v"},
                                    .out = {"mixer.o_proj", "attn_output"},
                                    .state = "mixer",
                                    .layers = "backbone.layers",
                                    .embedding = "backbone.embeddings.weight",
                                    .final_norm = "backbone.norm_f"};

std::vector<TensorSpec> nemotron_h_tensors(const ModelSpec& spec) {
  std::vector<TensorSpec> out = decoder_tensors(spec, GgufRows::kAsStored, kNemotronExperts, kNemotronNames);
  out.front().hf_else.push_back({.name = "backbone.embedding.weight"});  // as transformers 5 saves it
  return out;
}

void read_nemotron_gguf(const GgufReader& /*in*/, DecoderConfig& config) {
  config.activation = Activation::kReluSquared;
  for (int i = 0; i < config.layers; ++i) config.no_rope_layers.push_back(i);
}

constexpr GgufStates kNemotronStates{.layers = GgufStates::Layers::kOneBranch,
                                     .kind = RecurrentSpec::Kind::kMamba2,
                                     .norms = GgufStates::Norms::kByGroup};
constexpr std::array<std::string_view, 7> kNemotronKnown{
    "expert_shared_count", "expert_shared_feed_forward_length", "expert_weights_norm", "expert_weights_scale",
    "expert_group_count",  "expert_group_used_count",           "moe_latent_size"};

}  // namespace

extern constexpr Family kNemotronHFamily{
    .name = "nemotron_h",
    .gguf = {.architecture = "nemotron_h",
             .maybe_experts = true,
             .states = kNemotronStates,
             .read = read_nemotron_gguf},
    .gguf_experts = {.architecture = "nemotron_h_moe",
                     .maybe_experts = true,
                     .moe = {.score = RouterRule::Score::kSigmoid, .normalized = true},
                     .states = kNemotronStates,
                     .known = kNemotronKnown,
                     .read = read_nemotron_gguf},
    .experts = true,
    .keys = {.layer_list = "layers_block_type", .norm_eps = "layer_norm_epsilon"},
    .defaults = {.norm_eps = 1e-5},
    .read = read_nemotron_h,
    .spec = nemotron_h_spec,
    .tensors = nemotron_h_tensors};

}  // namespace kvasir
