// gpt-oss: windows in each second layer, a learned logit a head that stands for no key, biases everywhere, and
// experts whose gates are clamped; files of a hub have the experts in MXFP4.
#include <array>

#include "model/families/family.h"
#include "model/gguf/gguf_reader.h"

namespace kvasir {
namespace {

constexpr float kSwigluLimit = 7;
constexpr ExpertNames kGptOssExperts{.router = "mlp.router.weight", .router_bias = "mlp.router.bias"};
constexpr LayerNames kGptOssNames{.mlp_norm = {"post_attention_layernorm", "post_attention_norm"}};

void read_gpt_oss(const JsonReader& in, DecoderConfig& config) {
  require_silu(in);
  config.attention_bias = in.flag_or("attention_bias", true);
  read_experts(in, in.find("num_local_experts") ? "num_local_experts" : "num_experts",
               in.find("num_experts_per_tok") ? "num_experts_per_tok" : "experts_per_token", config);
  config.moe.score = RouterRule::Score::kSoftmaxOfChosen;
  config.moe.router_bias = true;
  config.activation = Activation::kSwigluOai;
  config.swiglu_limit = static_cast<float>(positive_or(in, "swiglu_limit", kSwigluLimit));
  read_windows(in, 128, {.every = 2}, config);
}

constexpr std::array<std::string_view, 3> kGptOssKnown{"attention.sliding_window", "attention.sliding_window_pattern",
                                                       "rope.freq_base_swa"};
constexpr std::array<std::string_view, 2> kGptOssNeeded{"output.weight", "attn_output.bias"};

// Released models stretch parts of pairs, which no key says; llama.cpp moves the bounds to whole ones.
void read_gpt_oss_gguf(const GgufReader& /*in*/, DecoderConfig& config) { config.rope.whole_pairs = false; }

ModelSpec gpt_oss_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  for (LayerSpec& layer : spec.layers) {
    layer.attention.sink_logits = true;
    layer.mlp.bias = true;
    layer.mlp.limit = config.swiglu_limit > 0 ? config.swiglu_limit : kSwigluLimit;
    layer.mlp.activation = Activation::kSwigluOai;
  }
  return spec;
}

std::vector<TensorSpec> gpt_oss_tensors(const ModelSpec& spec) {
  using enum TensorRole;
  std::vector<TensorSpec> out = decoder_tensors(spec, GgufRows::kAsStored, kGptOssExperts, kGptOssNames);
  const std::int64_t width = spec.layers.front().mlp.width;
  store_stacked(out, kDown, "mlp.experts.down_proj", "mlp.experts.down_proj_bias");
  store_stacked(out, kGate, "mlp.experts.gate_up_proj", "mlp.experts.gate_up_proj_bias");
  store_stacked(out, kUp, "mlp.experts.gate_up_proj", "mlp.experts.gate_up_proj_bias");
  store_together(out, std::array{kGate, kUp}, {"mlp.experts.gate_up_proj", "mlp.experts.gate_up_proj_bias"}, {width});
  store_transposed(out, std::array{kGate, kUp, kDown});
  return out;
}

}  // namespace

extern constexpr Family kGptOssFamily{.name = "gpt_oss",
                                      .gguf = {.architecture = "gpt-oss",
                                               .moe = {.score = RouterRule::Score::kSoftmaxOfChosen},
                                               .global_every = 2,
                                               .windows_need_pattern = false,
                                               .known = kGptOssKnown,
                                               .needed = kGptOssNeeded,
                                               .read = read_gpt_oss_gguf},
                                      .experts = true,
                                      .defaults = {.norm_eps = 1e-5, .head_dim = 64, .rope_theta = 150000},
                                      .known_windows = {.every = 2},
                                      .read = read_gpt_oss,
                                      .spec = gpt_oss_spec,
                                      .tensors = gpt_oss_tensors};

}  // namespace kvasir
