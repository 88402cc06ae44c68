#include "model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/mmap_file.h"
#include "model/gguf_config.h"

namespace kvasir {
namespace {

// What a family's configs may leave out. 0: must be given (kv_heads: as many as heads, head_dim: hidden / heads).
struct Family {
  std::string_view model_type;
  Architecture architecture;
  bool tied = false;
  double norm_eps = 1e-6;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab = 0;
  std::int64_t context = 0;
  std::int64_t window = 0;
  double rope_theta = 10000.0;
};

constexpr std::array<Family, 8> kFamilies{{
    {"llama", Architecture::kLlama},
    {.model_type = "mistral", .architecture = Architecture::kMistral, .window = 4096},
    {.model_type = "qwen2", .architecture = Architecture::kQwen2, .window = 4096},
    {.model_type = "qwen3", .architecture = Architecture::kQwen3, .head_dim = 128, .window = 4096},
    {.model_type = "gemma2", .architecture = Architecture::kGemma2, .tied = true, .head_dim = 256, .window = 4096},
    {.model_type = "gemma3_text",
     .architecture = Architecture::kGemma3,
     .tied = true,
     .heads = 8,
     .kv_heads = 4,
     .head_dim = 256,
     .vocab = 262208,
     .context = 131072,
     .window = 4096,
     .rope_theta = 1e6},
    {.model_type = "phi3", .architecture = Architecture::kPhi3, .norm_eps = 1e-5},
    {.model_type = "gpt2", .architecture = Architecture::kGpt2, .tied = true, .norm_eps = 1e-5},
}};

const Family& family_of(Architecture architecture) {
  return *std::ranges::find(kFamilies, architecture, &Family::architecture);
}

constexpr JsonFileKind kConfigFile{size_t{16} << 20, "check the file, or download it again"};

// `fallback` 0: the key must be there.
std::int64_t integer_of(const JsonReader& in, std::string_view key, IntegerRange range, std::int64_t fallback = 0) {
  return fallback != 0 && !in.find(key) ? fallback : in.get(key).integer(range);
}

int size_of(const JsonReader& in, std::string_view key, std::int64_t most, std::int64_t fallback = 0) {
  return static_cast<int>(integer_of(in, key, {1, most}, fallback));
}

double positive_or(const JsonReader& in, std::string_view key, double fallback) {
  const std::optional<JsonReader> value = in.find(key);
  return value ? value->positive() : fallback;
}

// A multimodal config keeps the language model in text_config, and some of what concerns it outside.
struct Source {
  const JsonReader& text;
  const JsonReader& root;

  // Whoever has the key, the inner one first.
  const JsonReader& holder_of(std::string_view key) const { return text.find(key) ? text : root; }
};

void add_end_tokens(const JsonReader& reader, ModelConfig& config) {
  const std::optional<JsonReader> value = reader.find("eos_token_id");
  if (!value) return;
  const auto add = [&](const JsonReader& id) {
    const auto token = static_cast<TokenId>(id.integer({0, config.vocab - 1}));
    if (std::ranges::find(config.eos, token) == config.eos.end()) config.eos.push_back(token);
  };
  if (!value->is_array()) return add(*value);
  if (value->items().size() > 256) value->fail("lists more than 256 tokens");
  for (const JsonReader id : value->items()) add(id);
}

int read_head_dim(const JsonReader& in, const Family& family, const ModelConfig& config) {
  if (family.architecture != Architecture::kGpt2 && in.find("head_dim")) {
    return size_of(in, "head_dim", ShapeLimits::kHeadDim);
  }
  if (family.head_dim != 0) return static_cast<int>(family.head_dim);
  if (config.hidden % config.heads != 0) {
    in.fail_inside(fmt::format("{} heads do not divide the hidden size {}, and there is no head_dim", config.heads,
                               config.hidden));
  }
  return config.hidden / config.heads;
}

void read_sizes(const JsonReader& in, const Family& family, ModelConfig& config) {
  const bool gpt2 = family.architecture == Architecture::kGpt2;
  config.layers = size_of(in, gpt2 ? "n_layer" : "num_hidden_layers", ShapeLimits::kLayers);
  config.hidden = size_of(in, gpt2 ? "n_embd" : "hidden_size", ShapeLimits::kHidden);
  config.heads = size_of(in, gpt2 ? "n_head" : "num_attention_heads", ShapeLimits::kHeads, family.heads);
  config.vocab = size_of(in, "vocab_size", ShapeLimits::kVocab, family.vocab);
  config.context =
      integer_of(in, gpt2 ? "n_positions" : "max_position_embeddings", {1, ShapeLimits::kContext}, family.context);
  config.norm_eps = positive_or(in, gpt2 ? "layer_norm_epsilon" : "rms_norm_eps", family.norm_eps);
  config.head_dim = read_head_dim(in, family, config);
  if (gpt2) {
    config.ffn = size_of(in, "n_inner", ShapeLimits::kFfn, std::int64_t{4} * config.hidden);
    config.kv_heads = config.heads;
    return;
  }
  config.ffn = size_of(in, "intermediate_size", ShapeLimits::kFfn);
  const std::int64_t kv_heads = family.kv_heads != 0 ? family.kv_heads : config.heads;
  config.kv_heads = size_of(in, "num_key_value_heads", ShapeLimits::kHeads, kv_heads);
}

// Which layers have the window, where the config has no layer_types: those from `first` on, but each
// `every`-th.
struct WindowRule {
  std::int64_t first = 0;
  std::int64_t every = 0;  // 0: no exception

  bool windowed(int layer) const { return layer >= first && (every == 0 || (layer + 1) % every != 0); }
};

WindowRule read_window_rule(const JsonReader& in, Architecture architecture) {
  switch (architecture) {
    case Architecture::kQwen2:
    case Architecture::kQwen3:
      return {.first = integer_of(in, "max_window_layers", {0, ShapeLimits::kLayers}, 28)};
    case Architecture::kGemma2:
      return {.every = 2};
    case Architecture::kGemma3:
      return {.every = integer_of(in, "sliding_window_pattern", {1, ShapeLimits::kLayers}, 6)};
    default:
      return {};
  }
}

// Mistral says "no window" with a null, Qwen with use_sliding_window, the others by not having the key.
std::int64_t read_window(const JsonReader& in, const Family& family) {
  if (family.architecture == Architecture::kLlama || family.architecture == Architecture::kGpt2) return 0;
  const bool qwen = family.architecture == Architecture::kQwen2 || family.architecture == Architecture::kQwen3;
  if (qwen && !in.flag_or("use_sliding_window", false)) return 0;
  if (!in.find("sliding_window")) return in.has_null("sliding_window") ? 0 : family.window;
  return integer_of(in, "sliding_window", {1, ShapeLimits::kContext});
}

void read_windows(const JsonReader& in, const Family& family, ModelConfig& config) {
  const std::int64_t window = read_window(in, family);
  if (window == 0) return;
  const std::optional<JsonReader> types = in.find("layer_types");
  if (types && types->items().size() != static_cast<size_t>(config.layers)) {
    types->fail(fmt::format("has {} entries for {} layers", types->items().size(), config.layers));
  }
  if (!types) {
    const WindowRule rule = read_window_rule(in, family.architecture);
    for (int layer = 0; layer < config.layers; ++layer) {
      config.windows.push_back(rule.windowed(layer) ? window : 0);
    }
    return;
  }
  for (const JsonReader type : types->items()) {
    const std::string_view name = type.text();
    if (name != "full_attention" && name != "sliding_attention") {
      type.fail(fmt::format("is '{}'", name), "known are full_attention and sliding_attention");
    }
    config.windows.push_back(name == "sliding_attention" ? window : 0);
  }
}

// `in` holds the scaling's own numbers: rope_scaling of old configs, rope_parameters of new ones.
void read_rope_scaling(const JsonReader& in, RopeConfig& rope) {
  const std::string_view type = in.text_or("rope_type", in.text_or("type", "default"));
  if (type == "default") return;
  if (type == "linear") {
    rope.scaling = RopeConfig::Scaling::kLinear;
    rope.factor = in.get("factor").positive();
  } else if (type == "llama3") {
    rope.scaling = RopeConfig::Scaling::kLlama3;
    rope.factor = in.get("factor").positive();
    rope.low_freq_factor = in.get("low_freq_factor").positive();
    rope.high_freq_factor = in.get("high_freq_factor").positive();
    rope.original_context = integer_of(in, "original_max_position_embeddings", {1, ShapeLimits::kContext});
    if (rope.high_freq_factor <= rope.low_freq_factor) {
      in.fail_inside("high_freq_factor is not above low_freq_factor");
    }
  } else {
    rope.scaling = RopeConfig::Scaling::kOther;
    rope.other = std::string(type.substr(0, 40));
  }
}

void read_rope(const JsonReader& in, const Family& family, RopeConfig& rope) {
  rope.theta = positive_or(in, "rope_theta", family.rope_theta);
  rope.rotated = positive_or(in, "partial_rotary_factor", 1.0);
  if (std::optional<JsonReader> parameters = in.find("rope_parameters")) {
    // A hybrid model has one set for each kind of layer; the one of its global layers is the model's.
    if (const std::optional<JsonReader> global = parameters->find("full_attention")) parameters.emplace(*global);
    rope.theta = positive_or(*parameters, "rope_theta", rope.theta);
    rope.rotated = positive_or(*parameters, "partial_rotary_factor", rope.rotated);
    read_rope_scaling(*parameters, rope);
  } else if (const std::optional<JsonReader> scaling = in.find("rope_scaling")) {
    read_rope_scaling(*scaling, rope);
  }
  if (rope.rotated > 1) in.fail_inside(fmt::format("partial_rotary_factor is {}, above 1", rope.rotated));
}

DType read_dtype(const Source& source) {
  const std::string_view key = source.holder_of("dtype").find("dtype") ? "dtype" : "torch_dtype";
  const JsonReader& in = source.holder_of(key);
  const std::string_view name = in.text_or(key, "float32");  // what absence means to those who write configs
  if (name == "bfloat16") return DType::kBF16;
  if (name == "float16") return DType::kF16;
  if (name != "float32") {
    in.fail_inside(fmt::format("{} '{}' is not supported", key, name), "supported: bfloat16, float16, float32");
  }
  return DType::kF32;
}

void read_biases(const JsonReader& in, ModelConfig& config) {
  const bool gpt2 = config.architecture == Architecture::kGpt2;
  const bool by_flag = config.architecture != Architecture::kMistral && config.architecture != Architecture::kPhi3;
  config.attention_bias = gpt2 || config.architecture == Architecture::kQwen2;
  config.mlp_bias = gpt2;
  if (config.attention_bias || !by_flag) return;
  config.attention_bias = in.flag_or("attention_bias", false);
  if (config.architecture == Architecture::kLlama) config.mlp_bias = in.flag_or("mlp_bias", false);
}

void check_activation(const JsonReader& in, Architecture architecture) {
  const bool gated_silu = architecture != Architecture::kGpt2 && architecture != Architecture::kGemma2 &&
                          architecture != Architecture::kGemma3;
  const std::string_view name = in.text_or("hidden_act", "silu");
  if (gated_silu && name != "silu") {
    in.fail_inside(fmt::format("hidden_act '{}' is not supported", name),
                   fmt::format("{} models are supported with silu", name_of(architecture)));
  }
}

ModelConfig read_config(const JsonReader& root) {
  const std::optional<JsonReader> nested = root.find("text_config");
  const Source source{nested ? *nested : root, root};
  const JsonReader& in = source.text;
  const JsonReader& typed = source.holder_of("model_type");
  const std::string_view model_type = typed.get("model_type").text();

  ModelConfig config;
  config.architecture = parse_architecture(model_type, typed.where());
  const Family& family = family_of(config.architecture);
  check_activation(in, config.architecture);
  read_sizes(in, family, config);
  read_windows(in, family, config);
  if (config.architecture != Architecture::kGpt2) read_rope(in, family, config.rope);
  read_biases(in, config);
  config.tied_embeddings = source.holder_of("tie_word_embeddings").flag_or("tie_word_embeddings", family.tied);
  config.dtype = read_dtype(source);
  if (const auto quantization = source.holder_of("quantization_config").find("quantization_config")) {
    config.quantization = std::string(quantization->text_or("quant_method", "unknown").substr(0, 40));
  }
  if (const auto bos = source.holder_of("bos_token_id").find("bos_token_id")) {
    const std::int64_t id = bos->integer();
    if (id >= 0 && id < config.vocab) config.bos = static_cast<TokenId>(id);
  }
  add_end_tokens(source.holder_of("eos_token_id"), config);
  return config;
}

}  // namespace

std::string_view name_of(Architecture architecture) { return family_of(architecture).model_type; }

Architecture parse_architecture(std::string_view model_type, const std::string& where) {
  std::string known;
  for (const Family& family : kFamilies) {
    if (family.model_type == model_type) return family.architecture;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", family.model_type);
  }
  if (model_type == "gemma3") return Architecture::kGemma3;  // the multimodal wrapper around gemma3_text
  fail_input(fmt::format("model_type '{}' is not known", model_type), where, "known are " + known);
}

ModelConfig parse_config(std::string_view json, const std::string& where) {
  const JsonDocument document(json, where, kConfigFile);
  ModelConfig config = read_config(document.root());
  check_shape(config, where);
  return config;
}

ModelConfig load_config(const std::filesystem::path& path) {
  if (const auto gguf = find_gguf(path)) return gguf_config(GgufModel(*gguf));
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  const std::filesystem::path file = folder ? path / "config.json" : path;
  if (folder && !std::filesystem::exists(file, ignored)) {
    fail_input("the folder has no config.json", path.string(), "name a folder that holds a model");
  }
  const MmapFile text(file);
  ModelConfig config = parse_config(text.text(), file.string());
  const std::filesystem::path generation = file.parent_path() / "generation_config.json";
  if (std::filesystem::exists(generation, ignored)) {
    const MmapFile more(generation);
    const JsonDocument document(more.text(), generation.string(), kConfigFile);
    add_end_tokens(document.root(), config);
  }
  return config;
}

void check_shape(const ModelConfig& config, const std::string& where) {
  const auto fail = [&](std::string what) { fail_input(std::move(what), where, "check the numbers"); };
  struct Size {
    const char* name;
    std::int64_t value;
    std::int64_t most;
  };
  for (const Size& size :
       {Size{"the number of layers", config.layers, ShapeLimits::kLayers},
        Size{"the hidden size", config.hidden, ShapeLimits::kHidden},
        Size{"the FFN size", config.ffn, ShapeLimits::kFfn},
        Size{"the number of heads", config.heads, ShapeLimits::kHeads},
        Size{"the number of KV heads", config.kv_heads, ShapeLimits::kHeads},
        Size{"the head size", config.head_dim, ShapeLimits::kHeadDim},
        Size{"the vocabulary", config.vocab, ShapeLimits::kVocab},
        Size{"the context", config.context, ShapeLimits::kContext},
        Size{"heads times head size", std::int64_t{config.heads} * config.head_dim, ShapeLimits::kQueryWidth}}) {
    if (size.value < 1 || size.value > size.most) {
      fail(fmt::format("{} is {}, outside 1..{}", size.name, size.value, size.most));
    }
  }
  if (config.heads % config.kv_heads != 0) {
    fail(fmt::format("{} KV heads do not divide {} heads", config.kv_heads, config.heads));
  }
  if (config.architecture != Architecture::kGpt2 && config.head_dim % 2 != 0) {
    fail(fmt::format("the head size {} is odd, and rope turns pairs", config.head_dim));
  }
}

void check_runnable(const ModelConfig& config, const std::string& where) {
  if (config.architecture != Architecture::kLlama) {
    fail_input(fmt::format("{} models are not supported yet", name_of(config.architecture)), where,
               "supported: llama");
  }
  if (config.rope.scaling == RopeConfig::Scaling::kOther) {
    fail_input(fmt::format("rope type '{}' is not supported yet", config.rope.other), where,
               "supported: default, linear, llama3");
  }
  if (config.rope.rotated != 1.0) {
    fail_input(fmt::format("partial_rotary_factor {} is not supported yet", config.rope.rotated), where,
               "supported: rope over the whole head");
  }
  if (!config.quantization.empty()) {
    fail_input(fmt::format("weights quantized with '{}' are not supported yet", config.quantization), where,
               "supported: plain bfloat16, float16 and float32 weights");
  }
}

namespace {

// Biases and norms, which the families arrange differently; the matrices they all have alike.
std::uint64_t layer_vectors(const ModelConfig& c, std::uint64_t query_width, std::uint64_t kv_width) {
  const auto hidden = static_cast<std::uint64_t>(c.hidden);
  const auto head_dim = static_cast<std::uint64_t>(c.head_dim);
  const bool gemma = c.architecture == Architecture::kGemma2 || c.architecture == Architecture::kGemma3;
  const bool head_norms = c.architecture == Architecture::kQwen3 || c.architecture == Architecture::kGemma3;
  std::uint64_t count = (gemma ? 4 : 2) * hidden + (head_norms ? 2 * head_dim : 0);
  if (c.architecture == Architecture::kGpt2) count += 2 * hidden;  // its norms have a bias
  if (c.attention_bias) count += query_width + 2 * kv_width;
  if (c.attention_bias && c.architecture != Architecture::kQwen2) count += hidden;
  const std::uint64_t up_matrices = c.architecture == Architecture::kGpt2 ? 1 : 2;
  if (c.mlp_bias) count += up_matrices * static_cast<std::uint64_t>(c.ffn) + hidden;
  return count;
}

}  // namespace

std::uint64_t parameter_count(const ModelConfig& config) {
  const bool gpt2 = config.architecture == Architecture::kGpt2;
  const auto hidden = static_cast<std::uint64_t>(config.hidden);
  const std::uint64_t query_width =
      static_cast<std::uint64_t>(config.heads) * static_cast<std::uint64_t>(config.head_dim);
  const std::uint64_t kv_width =
      static_cast<std::uint64_t>(config.kv_heads) * static_cast<std::uint64_t>(config.head_dim);
  const std::uint64_t mlp = static_cast<std::uint64_t>(config.ffn) * hidden * (gpt2 ? 2 : 3);
  const std::uint64_t layer =
      hidden * (2 * query_width + 2 * kv_width) + mlp + layer_vectors(config, query_width, kv_width);
  const std::uint64_t embedding = static_cast<std::uint64_t>(config.vocab) * hidden;
  const std::uint64_t positions = gpt2 ? static_cast<std::uint64_t>(config.context) * hidden : 0;
  return static_cast<std::uint64_t>(config.layers) * layer + embedding * (config.tied_embeddings ? 1 : 2) +
         positions + hidden * (gpt2 ? 2 : 1);
}

}  // namespace kvasir
