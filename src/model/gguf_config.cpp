#include "model/gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "backend/quant/decode.h"
#include "model/gguf_names.h"

namespace kvasir {
namespace {

// Architectures by the names that GGUF gives them; mistral's files say llama.
constexpr std::array<std::pair<std::string_view, Architecture>, 3> kKnown{
    {{"llama", Architecture::kLlama}, {"qwen2", Architecture::kQwen2}, {"qwen3", Architecture::kQwen3}}};

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

Architecture read_architecture(const GgufModel& model, std::string_view& name) {
  name = model.text_if("general.architecture").value_or("");
  std::string known;
  for (const auto& [theirs, ours] : kKnown) {
    if (theirs == name) return ours;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", theirs);
  }
  model.fail(fmt::format("general.architecture is '{}', and known are {}", name.substr(0, 40), known));
}

int read_vocab(const Reader& in, const GgufModel& model) {
  // The table decides: vocab_size is often absent, and a table may have rows beyond the tokens.
  const GgufTensor* table = model.find(gguf_name_of(LlamaTensors::kEmbedding));
  if (table == nullptr || table->shape.size() != 2) model.fail("there is no table token_embd.weight");
  if (table->shape[0] > ShapeLimits::kVocab) return in.size("vocab_size", ShapeLimits::kVocab);
  return static_cast<int>(table->shape[0]);
}

// What llama3 does to the frequencies comes as a tensor that divides them.
void read_rope_factors(const GgufModel& model, int head_dim, RopeConfig& rope) {
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
  rope.scaling = RopeConfig::Scaling::kFactors;
}

void read_rope(const Reader& in, const GgufModel& model, ModelConfig& config) {
  RopeConfig& rope = config.rope;
  rope.theta = in.positive_if("rope.freq_base").value_or(10000.0);
  rope.rotated = static_cast<double>(in.size_or("rope.dimension_count", ShapeLimits::kHeadDim, config.head_dim)) /
                 config.head_dim;
  const std::string_view type = in.text_if("rope.scaling.type").value_or("none");
  if (type == "linear") {
    rope.scaling = RopeConfig::Scaling::kLinear;
    rope.factor = in.positive_if("rope.scaling.factor").value_or(1.0);
  } else if (type != "none") {
    rope.scaling = RopeConfig::Scaling::kOther;
    rope.other = std::string(type.substr(0, 40));
  } else if (const auto factor = in.positive_if("rope.scale_linear")) {  // what old files say
    rope.scaling = RopeConfig::Scaling::kLinear;
    rope.factor = *factor;
  }
  if (rope.scaling == RopeConfig::Scaling::kNone) read_rope_factors(model, config.head_dim, rope);
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

void read_tokens(const GgufModel& model, ModelConfig& config) {
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

ModelConfig gguf_config(const GgufModel& model) {
  ModelConfig config;
  std::string_view name;
  config.architecture = read_architecture(model, name);
  const Reader in(model, name);
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
  if (model.integer_if(in.key("expert_count"), 0, INT32_MAX).value_or(0) > 0) {
    model.fail("mixtures of experts are not supported");
  }
  config.vocab = read_vocab(in, model);
  config.context = model.integer(in.key("context_length"), 1, ShapeLimits::kContext);
  config.norm_eps = in.positive_if("attention.layer_norm_rms_epsilon").value_or(1e-5);
  config.tied_embeddings = model.find(gguf_name_of(LlamaTensors::kHead)) == nullptr;
  config.attention_bias = model.find("blk.0.attn_q.bias") != nullptr;
  config.mlp_bias = model.find("blk.0.ffn_gate.bias") != nullptr;
  config.dtype = main_type(model);
  check_shape(config, model.where());
  read_rope(in, model, config);
  read_tokens(model, config);
  return config;
}

}  // namespace kvasir
