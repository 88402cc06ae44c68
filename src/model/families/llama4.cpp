// Llama 4 (text): layers with a rope see their own chunk alone and normalize queries and keys without weights; those
// without one see all, and sharpen queries with the position; experts read a row times its weight, and an MLP for all
// rows stands beside them.
#include <algorithm>
#include <array>

#include "model/families/family.h"
#include "model/gguf/gguf_reader.h"

namespace kvasir {
namespace {

constexpr std::int64_t kLlama4Chunk = 8192;
constexpr double kLlama4Growth = 0.1;
constexpr LayerNames kLlama4Names{.up = {"feed_forward.up_proj", "ffn_up"},
                                  .down = {"feed_forward.down_proj", "ffn_down"},
                                  .gate = {"feed_forward.gate_proj", "ffn_gate"}};
constexpr ExpertNames kLlama4Experts{.router = "feed_forward.router.weight",
                                     .gate = "feed_forward.experts.{}.gate_proj.weight",
                                     .up = "feed_forward.experts.{}.up_proj.weight",
                                     .down = "feed_forward.experts.{}.down_proj.weight",
                                     .shared_gate = {"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp"},
                                     .shared_up = {"feed_forward.shared_expert.up_proj", "ffn_up_shexp"},
                                     .shared_down = {"feed_forward.shared_expert.down_proj", "ffn_down_shexp"}};

// Those that have a 0 in the list, or each fourth.
void read_layers_without_rope(const JsonReader& in, DecoderConfig& config) {
  std::vector<bool> has_rope;
  if (const std::optional<JsonReader> listed = in.find("no_rope_layers")) {
    for (const JsonReader one : listed->items()) has_rope.push_back(one.integer({0, 1}) != 0);
    if (!has_rope.empty() && std::ssize(has_rope) != config.layers) listed->fail("has not a number for each layer");
  }
  for (int i = 0; i < config.layers; ++i) {
    const bool turns = has_rope.empty() ? (i + 1) % kGlobalEveryFourth != 0 : has_rope[static_cast<size_t>(i)];
    if (!turns) config.no_rope_layers.push_back(i);
  }
}

// Layers without experts: all but each interleave_moe_layer_step-th, or those that are not listed.
void read_layers_without_experts(const JsonReader& in, DecoderConfig& config) {
  std::vector<std::int64_t> listed;
  if (const auto layers = in.find("moe_layers")) {
    for (const JsonReader one : layers->items()) listed.push_back(one.integer({0, config.layers - 1}));
  } else {
    const std::int64_t step = config_integer(in, "interleave_moe_layer_step", {1, ShapeLimits::kLayers}, 1);
    for (std::int64_t i = step - 1; i < config.layers; i += step) listed.push_back(i);
  }
  for (int i = 0; i < config.layers; ++i) {
    if (std::ranges::find(listed, i) == listed.end()) config.dense_layers.push_back(i);
  }
}

void read_llama4(const JsonReader& in, DecoderConfig& config) {
  require_silu(in);
  config.attention_bias = in.flag_or("attention_bias", false);
  if (in.flag_or("use_qk_norm", true)) config.qk_norm = AttentionSpec::QkNorm::kPerHead;
  read_experts(in, "num_local_experts", "num_experts_per_tok", config);
  config.moe.score = RouterRule::Score::kSigmoid;
  config.moe.weighs = RouterRule::Weighs::kInputs;
  config.moe.shared_width = config.ffn;
  config.ffn = static_cast<int>(config_integer(in, "intermediate_size_mlp", {1, ShapeLimits::kFfn}, config.ffn));
  read_layers_without_experts(in, config);
  read_layers_without_rope(in, config);
  config.chunk = in.has_null("attention_chunk_size")
                     ? 0
                     : static_cast<int>(config_integer(in, "attention_chunk_size", {1, 1 << 30}, kLlama4Chunk));
  if (!in.flag_or("attn_temperature_tuning", true)) return;
  config.no_rope.rotated = 0;
  config.no_rope.query_growth = positive_or(in, "attn_scale", kLlama4Growth);
  config.no_rope.query_length = static_cast<std::int64_t>(positive_or(in, "floor_scale", kLlama4Chunk));
  config.no_rope.query_shift = 1;
}

constexpr std::array<std::string_view, 2> kLlama4Known{"interleave_moe_layer_step", kGgufRopeFactors};
constexpr std::array<std::string_view, 1> kLlama4Refused{"attn_output.bias"};

// Files say neither chunks nor which layers have no rope, and the largest model alone has no norms of heads. A
// window, where there is one, is the chunk.
void read_llama4_gguf(const GgufReader& in, DecoderConfig& config) {
  constexpr int kExpertsOfLargest = 128;
  config.chunk = static_cast<int>(in.integer_if("attention.sliding_window", 0, 1 << 30).value_or(kLlama4Chunk));
  if (config.chunk == 0) in.fail("llama4.attention.sliding_window is 0, and Llama 4 without chunks is not supported");
  for (int i = kGlobalEveryFourth - 1; i < config.layers; i += kGlobalEveryFourth) config.no_rope_layers.push_back(i);
  if (config.moe.experts != kExpertsOfLargest) config.qk_norm = AttentionSpec::QkNorm::kPerHead;
  config.no_rope.rotated = 0;
  config.no_rope.query_growth = kLlama4Growth;
  config.no_rope.query_length = kLlama4Chunk;
  config.no_rope.query_shift = 1;
}

ModelSpec llama4_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  for (LayerSpec& layer : spec.layers) {
    AttentionSpec& attention = layer.attention;
    attention.qk_norm_weights = false;
    if (attention.rope != kNoRope) {
      attention.chunk = config.chunk;
      continue;
    }
    attention.qk_norm = AttentionSpec::QkNorm::kNone;
    if (config.no_rope.query_growth == 0) continue;
    if (spec.ropes.size() == 1) spec.ropes.push_back(config.no_rope);
    attention.rope = 1;
  }
  return spec;
}

std::vector<TensorSpec> llama4_tensors(const ModelSpec& spec) {
  using enum TensorRole;
  std::vector<TensorSpec> out = decoder_tensors(spec, GgufRows::kInterleaved, kLlama4Experts, kLlama4Names);
  for (TensorSpec& tensor : out) {
    // Layers that turn nothing have rows in no order; llama.cpp's converter leaves them alone, too.
    const bool turns = tensor.layer >= 0 && spec.attention(tensor.layer).rope == 0;
    if (!turns) tensor.gguf_rows = GgufRows::kAsStored;
    tensor.hf_rows = tensor.gguf_rows;
  }
  for (const TensorRole role : {kGate, kUp}) store_stacked(out, role, "feed_forward.experts.gate_up_proj");
  store_stacked(out, kDown, "feed_forward.experts.down_proj");
  store_together(out, std::array{kGate, kUp}, {"feed_forward.experts.gate_up_proj"}, {.of = JointRows::Of::kExperts});
  for (TensorSpec& tensor : out) {
    if (tensor.expert >= 0) tensor.hf.axes = FilePlace::Axes::kTransposed;
  }
  return out;
}

}  // namespace

extern constexpr Family kLlama4Family{
    .name = "llama4_text",
    .also = "llama4",
    .gguf = {.architecture = "llama4",
             .moe = {.score = RouterRule::Score::kSigmoid, .weighs = RouterRule::Weighs::kInputs},
             .known = kLlama4Known,
             .refused = kLlama4Refused,
             .read = read_llama4_gguf},
    .experts = true,
    .defaults = {.norm_eps = 1e-5, .head_dim = 128, .rope_theta = 500000},
    .read = read_llama4,
    .spec = llama4_spec,
    .tensors = llama4_tensors};

}  // namespace kvasir
