#include "model/gguf/gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "backend/quant/decode.h"
#include "model/families/family.h"
#include "model/tensors.h"

namespace kvasir {
namespace {

// The metadata of one architecture: "llama.block_count" is key("block_count").
class Reader {
 public:
  Reader(const GgufModel& model, std::string_view architecture) : model_(model), prefix_(architecture) {}

  std::string key(std::string_view name) const { return fmt::format("{}.{}", prefix_, name); }
  int size(std::string_view name, std::int64_t most) const {
    return static_cast<int>(model_.integer(key(name), 1, most));
  }
  int size_or(std::string_view name, std::int64_t most, int fallback) const {
    return static_cast<int>(model_.integer_if(key(name), 1, most).value_or(fallback));
  }
  // One number, or a list of one for each layer that all say the same.
  int alike(std::string_view name, std::int64_t most, int fallback) const {
    const GgufValue* value = model_.value(key(name));
    if (value == nullptr || !std::holds_alternative<GgufNumbers>(*value)) return size_or(name, most, fallback);
    const GgufNumbers& numbers = std::get<GgufNumbers>(*value);
    if (numbers.size() == 0) model_.fail(fmt::format("{} is empty", key(name)));
    const double first = numbers.at(0);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (numbers.at(i) != first)
        model_.fail(fmt::format("{} differs between layers, which is not supported", key(name)));
    }
    if (!(first >= 1 && first <= static_cast<double>(most)) || first != std::floor(first)) {
      model_.fail(fmt::format("{} is {}, outside 1..{}", key(name), first, most));
    }
    return static_cast<int>(first);
  }
  std::optional<double> positive_if(std::string_view name) const { return model_.positive_if(key(name)); }
  std::optional<std::string_view> text_if(std::string_view name) const { return model_.text_if(key(name)); }

 private:
  const GgufModel& model_;
  std::string prefix_;
};

constexpr std::string_view kEmbedding = "token_embd.weight";
constexpr std::string_view kHead = "output.weight";

std::int64_t experts_of(const GgufModel& model, std::string_view architecture) {
  return model.integer_if(fmt::format("{}.expert_count", architecture), 0, ShapeLimits::kExperts).value_or(0);
}

const Family& read_family(const GgufModel& model) {
  const std::string_view name = model.text_if("general.architecture").value_or("");
  const bool experts = experts_of(model, name) > 0;
  std::string known;
  for (const Family* family : families()) {
    if (family->gguf.empty()) continue;
    if (family->gguf == name && family->experts == experts) return *family;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", family->gguf);
  }
  if (experts) model.fail(fmt::format("general.architecture is '{}' with experts", name.substr(0, 40)));
  model.fail(fmt::format("general.architecture is '{}', and known are {}", name.substr(0, 40), known));
}

void read_experts(const Reader& in, const GgufModel& model, DecoderConfig& config) {
  config.moe.experts = in.size("expert_count", ShapeLimits::kExperts);
  config.moe.used = in.size("expert_used_count", config.moe.experts);
  config.expert_ffn = in.size_or("expert_feed_forward_length", ShapeLimits::kFfn, config.ffn);
  config.moe.normalized = model.flag_if(in.key("expert_weights_norm")).value_or(config.family->gguf_normalized);
}

int read_vocab(const Reader& in, const GgufModel& model) {
  // The table decides: vocab_size is often absent, and a table may have rows beyond the tokens.
  const GgufTensor* table = model.find(kEmbedding);
  if (table == nullptr || table->shape.size() != 2) model.fail("there is no table token_embd.weight");
  if (table->shape[0] > ShapeLimits::kVocab) return in.size("vocab_size", ShapeLimits::kVocab);
  return static_cast<int>(table->shape[0]);
}

// What llama3 does to the frequencies comes as a tensor that divides them.
void read_rope_factors(const GgufModel& model, int head_dim, RopeSpec& rope) {
  const GgufTensor* factors = model.find(kGgufRopeFactors);
  if (factors == nullptr) return;
  const std::vector<std::int64_t> expected{head_dim / 2};
  if (factors->dtype != DType::kF32 || factors->shape != expected) {
    model.fail(fmt::format("{} is not {} numbers of type f32", kGgufRopeFactors, head_dim / 2));
  }
  rope.factors.resize(static_cast<std::size_t>(head_dim / 2));
  decode_row(DType::kF32, factors->bytes.data(), head_dim / 2, rope.factors.data());
  for (const float factor : rope.factors) {
    if (!std::isfinite(factor) || factor <= 0) model.fail(fmt::format("{} holds {}", kGgufRopeFactors, factor));
  }
  rope.scaling = RopeSpec::Scaling::kFactors;
}

void read_rope(const Reader& in, const GgufModel& model, DecoderConfig& config) {
  RopeSpec& rope = config.rope;
  rope.theta = in.positive_if("rope.freq_base").value_or(10000.0);
  rope.rotated = static_cast<double>(in.size_or("rope.dimension_count", ShapeLimits::kHeadDim, config.head_dim)) /
                 config.head_dim;
  const std::string_view type = in.text_if("rope.scaling.type").value_or("none");
  if (type == "linear") {
    rope.scaling = RopeSpec::Scaling::kLinear;
    rope.factor = in.positive_if("rope.scaling.factor").value_or(1.0);
  } else if (type == "yarn") {
    rope.scaling = RopeSpec::Scaling::kYarn;
    rope.factor = in.positive_if("rope.scaling.factor").value_or(1.0);
    rope.original_context = model.integer_if(in.key("rope.scaling.original_context_length"), 1, ShapeLimits::kContext)
                                .value_or(config.context);
    rope.beta_fast = in.positive_if("rope.scaling.yarn_beta_fast").value_or(rope.beta_fast);
    rope.beta_slow = in.positive_if("rope.scaling.yarn_beta_slow").value_or(rope.beta_slow);
    rope.magnitude = in.positive_if("rope.scaling.attn_factor").value_or(1.0) * (0.1 * std::log(rope.factor) + 1.0);
  } else if (type != "none") {
    rope.scaling = RopeSpec::Scaling::kOther;
    rope.other = std::string(type.substr(0, 40));
  } else if (const auto factor = in.positive_if("rope.scale_linear")) {  // what old files say
    rope.scaling = RopeSpec::Scaling::kLinear;
    rope.factor = *factor;
  }
  if (rope.scaling == RopeSpec::Scaling::kNone) read_rope_factors(model, config.head_dim, rope);
}

// The type that takes most bytes: a file mixes them.
DType main_type(const GgufModel& model) {
  std::array<std::uint64_t, kWeightTypes.size()> bytes{};
  for (const GgufFile& file : model.files()) {
    for (const auto& [name, tensor] : file.content.tensors) {
      if (tensor.dtype) bytes[static_cast<std::size_t>(*tensor.dtype)] += tensor.bytes.size();
    }
  }
  return static_cast<DType>(std::ranges::max_element(bytes) - bytes.begin());
}

void read_tokens(const GgufModel& model, DecoderConfig& config) {
  const auto token = [&](std::string_view key) { return model.integer_if(key, 0, config.vocab - 1); };
  // Whether a text begins with it is the tokenizer's matter: a model without it runs as well.
  const std::int64_t bos = model.integer_if("tokenizer.ggml.bos_token_id", INT64_MIN, INT64_MAX).value_or(-1);
  config.bos = bos >= 0 && bos < config.vocab ? static_cast<TokenId>(bos) : -1;
  for (const std::string_view key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    const auto id = static_cast<TokenId>(token(key).value_or(-1));
    if (id >= 0 && std::ranges::find(config.eos, id) == config.eos.end()) config.eos.push_back(id);
  }
}

}  // namespace

ModelSpec gguf_config(const GgufModel& model) {
  DecoderConfig config;
  config.family = &read_family(model);
  const Reader in(model, config.family->gguf);
  config.layers = in.size("block_count", ShapeLimits::kLayers);
  config.hidden = in.size("embedding_length", ShapeLimits::kHidden);
  config.ffn = in.alike("feed_forward_length", ShapeLimits::kFfn, 0);
  config.heads = in.alike("attention.head_count", ShapeLimits::kHeads, 0);
  config.kv_heads = in.alike("attention.head_count_kv", ShapeLimits::kHeads, config.heads);
  if (config.heads < 1) model.fail(fmt::format("{} is missing", in.key("attention.head_count")));
  config.head_dim = in.size_or("attention.key_length", ShapeLimits::kHeadDim, config.hidden / config.heads);
  if (in.size_or("attention.value_length", ShapeLimits::kHeadDim, config.head_dim) != config.head_dim) {
    model.fail("keys and values of different length are not supported");
  }
  if (config.family->experts) read_experts(in, model, config);
  config.vocab = read_vocab(in, model);
  config.context = model.integer(in.key("context_length"), 1, ShapeLimits::kContext);
  config.norm_eps = in.positive_if("attention.layer_norm_rms_epsilon").value_or(1e-5);
  config.tied_embeddings = model.find(kHead) == nullptr;
  config.attention_bias = model.find("blk.0.attn_q.bias") != nullptr;
  config.mlp_bias = model.find("blk.0.ffn_gate.bias") != nullptr;
  config.dtype = main_type(model);
  checked_spec(config, model.where());  // what follows counts on the sizes
  read_rope(in, model, config);
  read_tokens(model, config);
  return checked_spec(config, model.where());
}

}  // namespace kvasir
