#include "model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/mmap_file.h"
#include "model/families/family.h"
#include "model/gguf/gguf_config.h"
#include "model/rope_config.h"
#include "model/sentence_files.h"

namespace kvasir {
namespace {

constexpr JsonFileKind kConfigFile{size_t{16} << 20, "check the file, or download it again"};

// `fallback` 0: the key must be there.
int size_of(const JsonReader& in, std::string_view key, std::int64_t most, std::int64_t fallback = 0) {
  return static_cast<int>(fallback == 0 ? in.get(key).integer({1, most})
                                        : config_integer(in, key, {1, most}, fallback));
}

// A multimodal config keeps the language model in text_config, and some of what concerns it outside.
struct Source {
  const JsonReader& text;
  const JsonReader& root;

  // Whoever has the key, the inner one first.
  const JsonReader& holder_of(std::string_view key) const { return text.find(key) ? text : root; }
};

void add_end_tokens(const JsonReader& reader, int vocab, std::vector<TokenId>& eos) {
  const std::optional<JsonReader> value = reader.find("eos_token_id");
  if (!value) return;
  const auto add = [&](const JsonReader& id) {
    const auto token = static_cast<TokenId>(id.integer({0, vocab - 1}));
    if (std::ranges::find(eos, token) == eos.end()) eos.push_back(token);
  };
  if (!value->is_array()) return add(*value);
  if (value->items().size() > 256) value->fail("lists more than 256 tokens");
  for (const JsonReader id : value->items()) add(id);
}

int read_head_dim(const JsonReader& in, const DecoderConfig& config) {
  const std::string_view key = config.family->keys.head_dim;
  if (!key.empty() && in.find(key)) return size_of(in, key, ShapeLimits::kHeadDim);
  if (config.family->defaults.head_dim != 0) return static_cast<int>(config.family->defaults.head_dim);
  if (config.hidden % config.heads != 0) {
    in.fail_inside(fmt::format("{} heads do not divide the hidden size {}, and there is no head_dim", config.heads,
                               config.hidden));
  }
  return config.hidden / config.heads;
}

int layer_count(const JsonReader& in, const ConfigKeys& keys) {
  const std::optional<JsonReader> list = keys.layer_list.empty() ? std::nullopt : in.find(keys.layer_list);
  if (!list) return size_of(in, keys.layers, ShapeLimits::kLayers);
  const size_t count = list->items().size();
  if (count < 1 || count > ShapeLimits::kLayers) list->fail(fmt::format("has {} entries", count));
  return static_cast<int>(count);
}

void read_sizes(const JsonReader& in, DecoderConfig& config) {
  const ConfigKeys& keys = config.family->keys;
  const ConfigDefaults& defaults = config.family->defaults;
  config.layers = layer_count(in, keys);
  config.hidden = size_of(in, keys.hidden, ShapeLimits::kHidden);
  config.heads = size_of(in, keys.heads, ShapeLimits::kHeads, defaults.heads);
  config.vocab = size_of(in, "vocab_size", ShapeLimits::kVocab, defaults.vocab);
  config.context = defaults.context == 0
                       ? in.get(keys.context).integer({1, ShapeLimits::kContext})
                       : config_integer(in, keys.context, {1, ShapeLimits::kContext}, defaults.context);
  config.norm_eps = positive_or(in, keys.norm_eps, defaults.norm_eps);
  config.head_dim = read_head_dim(in, config);
  config.ffn = size_of(in, keys.ffn, ShapeLimits::kFfn, defaults.ffn_times_hidden * config.hidden);
  const std::int64_t kv_heads = defaults.kv_heads != 0 ? defaults.kv_heads : config.heads;
  config.kv_heads =
      keys.kv_heads.empty() ? static_cast<int>(kv_heads) : size_of(in, keys.kv_heads, ShapeLimits::kHeads, kv_heads);
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

bool names_classifier(const JsonReader& root) {
  const std::optional<JsonReader> architectures = root.find("architectures");
  if (!architectures || !architectures->is_array() || architectures->items().size() == 0) return false;
  return (*architectures->items().begin()).text().ends_with("ForSequenceClassification");
}

// What a model has in place of its head that was trained to sort texts. Its class's name says so.
void read_classifier(const Source& source, DecoderConfig& config) {
  constexpr std::int64_t kMostLabels = 1 << 16;
  if (!names_classifier(source.root)) return;
  const RerankForm& form = config.family->rerank;
  RerankSpec& rerank = config.rerank;
  rerank.kind = RerankSpec::Kind::kClassifier;
  rerank.pooling = form.pooling;
  rerank.bias = form.bias;
  rerank.between = {!form.between.empty(), form.between_bias, !form.norm.empty(), form.activation};
  const JsonReader& named = source.holder_of("id2label");
  std::int64_t labels = 0;
  if (const auto names = named.find("id2label")) {
    for ([[maybe_unused]] const auto& one : names->members()) ++labels;
  }
  if (labels == 0) labels = config_integer(named, "num_labels", {1, kMostLabels}, 2);
  if (labels > kMostLabels) named.fail_inside("id2label has too many labels");
  rerank.labels = static_cast<int>(labels);
  rerank.end = rerank_end_of(source.root, rerank.labels == 1 ? RerankSpec::End::kSigmoid : RerankSpec::End::kLogit);
}

// Published files name the context before it was stretched.
std::int64_t stretched_context(const DecoderConfig& config) {
  const double stretched = config.rope.factor * static_cast<double>(config.rope.original_context);
  if (stretched >= static_cast<double>(ShapeLimits::kContext)) return config.context;
  return std::max(config.context, static_cast<std::int64_t>(stretched));
}

DecoderConfig read_config(const JsonReader& root) {
  const std::optional<JsonReader> nested = root.find("text_config");
  const Source source{nested ? *nested : root, root};
  const JsonReader& in = source.text;
  const JsonReader& typed = source.holder_of("model_type");

  DecoderConfig config;
  config.family = &family_named(typed.get("model_type").text(), typed.where());
  const Family& family = *config.family;
  read_sizes(in, config);
  config.rope.theta = family.defaults.rope_theta;
  config.rope.rotated = family.defaults.rotated;
  read_rope(in, config);
  if (config.rope.scaling == RopeSpec::Scaling::kYarn) config.context = stretched_context(config);
  read_classifier(source, config);
  if (family.read != nullptr) family.read(in, config);
  config.tied_embeddings =
      source.holder_of("tie_word_embeddings").flag_or("tie_word_embeddings", family.defaults.tied);
  config.dtype = read_dtype(source);
  if (const auto quantization = source.holder_of("quantization_config").find("quantization_config")) {
    config.quantization = std::string(quantization->text_or("quant_method", "unknown").substr(0, 40));
  }
  if (const auto bos = source.holder_of("bos_token_id").find("bos_token_id")) {
    const std::int64_t id = bos->integer();
    if (id >= 0 && id < config.vocab) config.bos = static_cast<TokenId>(id);
  }
  add_end_tokens(source.holder_of("eos_token_id"), config.vocab, config.eos);
  return config;
}

}  // namespace

double positive_or(const JsonReader& in, std::string_view key, double fallback) {
  const std::optional<JsonReader> value = in.find(key);
  return value ? value->positive() : fallback;
}

void read_activation(const JsonReader& in, std::string_view key, Activation fallback, DecoderConfig& config) {
  constexpr std::array<std::pair<std::string_view, Activation>, 8> kNames{
      {{"silu", Activation::kSilu},
       {"swish", Activation::kSilu},
       {"gelu", Activation::kGelu},
       {"gelu_pytorch_tanh", Activation::kGeluTanh},
       {"gelu_new", Activation::kGeluTanh},
       {"gelu_fast", Activation::kGeluTanh},
       {"relu", Activation::kRelu},
       {"relu2", Activation::kReluSquared}}};
  config.activation = fallback;
  if (!in.find(key)) return;
  const std::string_view name = in.get(key).text();
  const auto* found = std::ranges::find(kNames, name, &std::pair<std::string_view, Activation>::first);
  if (found == kNames.end()) {
    in.fail_inside(fmt::format("{} '{}' is not supported", key, name.substr(0, 40)),
                   "supported: silu, gelu, gelu_pytorch_tanh, gelu_new, gelu_fast, relu, relu2");
  }
  config.activation = found->second;
}

std::int64_t config_integer(const JsonReader& in, std::string_view key, IntegerRange range, std::int64_t fallback) {
  return in.find(key) ? in.get(key).integer(range) : fallback;
}

void read_experts(const JsonReader& in, std::string_view count_key, std::string_view used_key,
                  DecoderConfig& config) {
  config.moe.experts = size_of(in, count_key, ShapeLimits::kExperts);
  config.moe.used = size_of(in, used_key, config.moe.experts);
  config.expert_ffn = config.ffn;
}

void read_sigmoid_routing(const JsonReader& in, DecoderConfig& config) {
  MoeSpec& moe = config.moe;
  const auto count = [&in](std::string_view key, std::int64_t least, std::int64_t most, std::int64_t fallback) {
    return static_cast<int>(config_integer(in, key, {least, most}, fallback));
  };
  moe.score = RouterRule::Score::kSigmoid;
  moe.choice_bias = true;
  moe.normalized = in.flag_or("norm_topk_prob", true);
  moe.scale = static_cast<float>(positive_or(in, "routed_scaling_factor", 1.0));
  moe.groups = count("n_group", 1, moe.experts, 1);
  moe.used_groups = count("topk_group", 1, moe.groups, moe.groups);
  config.expert_ffn = size_of(in, "moe_intermediate_size", ShapeLimits::kFfn);
  const std::int64_t shared = count("n_shared_experts", 0, ShapeLimits::kExperts, 0);
  if (shared * config.expert_ffn > ShapeLimits::kFfn) in.fail_inside("n_shared_experts is too large");
  moe.shared_width = static_cast<int>(shared) * config.expert_ffn;
  const int dense = count("first_k_dense_replace", 0, config.layers, 0);
  for (int i = 0; i < dense; ++i) config.dense_layers.push_back(i);
}

void read_query_growth(const JsonReader& in, DecoderConfig& config) {
  const std::optional<JsonReader> rope = in.find("rope_parameters");
  if (!rope || !rope->find("llama_4_scaling_beta")) return;
  config.rope.query_growth = rope->get("llama_4_scaling_beta").positive();
  config.rope.query_length = rope->get("original_max_position_embeddings").integer({1, ShapeLimits::kContext});
}

void require_flag(const JsonReader& in, std::string_view key, bool needed) {
  if (in.flag_or(key, needed) == needed) return;
  in.fail_inside(fmt::format("{} is {}, which is not supported", key, !needed),
                 fmt::format("models of this family are supported with {}", needed));
}

void require_silu(const JsonReader& in) {
  const std::string_view name = in.text_or("hidden_act", "silu");
  if (name == "silu") return;
  in.fail_inside(fmt::format("hidden_act '{}' is not supported", name),
                 "models of this family are supported with silu");
}

void read_windows(const JsonReader& in, std::int64_t fallback, WindowRule rule, DecoderConfig& config) {
  std::int64_t window = in.has_null("sliding_window") ? 0 : fallback;
  if (in.find("sliding_window")) window = in.get("sliding_window").integer({1, ShapeLimits::kContext});
  if (window == 0) return;
  const std::optional<JsonReader> types = in.find("layer_types");
  if (!types) {
    for (int layer = 0; layer < config.layers; ++layer) {
      config.windows.push_back(rule.windowed(layer) ? window : 0);
    }
    return;
  }
  if (types->items().size() != static_cast<size_t>(config.layers)) {
    types->fail(fmt::format("has {} entries for {} layers", types->items().size(), config.layers));
  }
  for (const JsonReader type : types->items()) {
    const std::string_view name = type.text();
    if (name != "full_attention" && name != "sliding_attention") {
      type.fail(fmt::format("is '{}'", name), "known are full_attention and sliding_attention");
    }
    config.windows.push_back(name == "sliding_attention" ? window : 0);
  }
}

void read_later_windows(const JsonReader& in, DecoderConfig& config) {
  constexpr std::int64_t kFirstUnlessSaid = 28;
  if (!in.flag_or("use_sliding_window", false)) return;
  const std::int64_t first = config_integer(in, "max_window_layers", {0, ShapeLimits::kLayers}, kFirstUnlessSaid);
  read_windows(in, kUsualWindow, {.first = first}, config);
}

ModelSpec parse_config(std::string_view json, const std::string& where) {
  const JsonDocument document(json, where, kConfigFile);
  return checked_spec(read_config(document.root()), where);
}

ModelSpec load_config(const std::filesystem::path& path) {
  if (const auto gguf = find_gguf(path)) return gguf_config(GgufModel(*gguf));
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  const std::filesystem::path file = folder ? path / "config.json" : path;
  if (folder && !std::filesystem::exists(file, ignored)) {
    fail_input("the folder has no config.json", path.string(), "name a folder that holds a model");
  }
  const MmapFile text(file);
  ModelSpec spec = parse_config(text.text(), file.string());
  const std::filesystem::path generation = file.parent_path() / "generation_config.json";
  if (std::filesystem::exists(generation, ignored)) {
    const MmapFile more(generation);
    const JsonDocument document(more.text(), generation.string(), kConfigFile);
    add_end_tokens(document.root(), spec.vocab, spec.eos);
  }
  read_sentence_files(file.parent_path(), spec);
  return spec;
}

}  // namespace kvasir
