#include "model/known_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <numeric>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "model/families/family.h"
#include "model/gguf/gguf_config.h"
#include "model/known_configs.h"
#include "model/known_sizes.h"

namespace kvasir {
namespace {

using Scaling = RopeSpec::Scaling;

constexpr std::string_view kShapeFamily = "llama";  // of shapes that name none

// clang-format off
// Other ways to say the same model. Without a version, the newest.
constexpr std::array<std::array<std::string_view, 2>, 11> kAliases{{
    {"mistral-7b", "mistral-7b-v0.3"},
    {"mistral-nemo", "mistral-nemo-12b"},
    {"mistral-nemo-2407", "mistral-nemo-12b"},
    {"tinyllama", "tinyllama-1.1b"},
    {"tinyllama-1.1b-v1.0", "tinyllama-1.1b"},
    {"phi-3-mini", "phi-3-mini-4k"},
    {"gpt2-small", "gpt2"},
    {"command-r", "command-r-v01"},
    {"deepseek-r1", "deepseek-v3"},
    {"deepseek-v3.1", "deepseek-v3"},
    {"c4ai-command-r-v01", "command-r-v01"},
}};
// clang-format on

void set_experts(DecoderConfig& config, int experts, int used) {
  config.moe.experts = experts;
  config.moe.used = used;
  config.moe.normalized = experts > 0 && config.family->gguf.moe.normalized;
  config.expert_ffn = config.ffn;
}

void set_windows(DecoderConfig& config, std::int64_t window) {
  for (int layer = 0; window > 0 && layer < config.layers; ++layer) {
    config.windows.push_back(config.family->known_windows.windowed(layer) ? window : 0);
  }
}

ModelSpec spec_of(const KnownShape& row) {
  DecoderConfig config;
  config.family = &family_named(row.family, std::string(row.name));
  config.layers = row.layers;
  config.hidden = row.hidden;
  config.ffn = row.ffn;
  config.heads = row.heads;
  config.kv_heads = row.kv_heads;
  config.head_dim = row.head_dim;
  config.vocab = row.vocab;
  config.context = row.context;
  config.tied_embeddings = row.tied;
  config.dtype = row.dtype;
  config.norm_eps = config.family->known_norm_eps;
  if (row.theta > 0) config.rope.theta = row.theta;
  if (row.rope_factor > 0) {
    config.rope.scaling = row.family == kShapeFamily ? Scaling::kLlama3 : Scaling::kLinear;
    config.rope.factor = row.rope_factor;
  }
  if (row.name == "phi-3-mini-128k") {
    config.rope.scaling = Scaling::kOther;
    config.rope.other = "longrope without its factors";
  }
  set_windows(config, row.window);
  set_experts(config, row.experts, row.used_experts);
  return checked_spec(config, std::string(row.name));
}

// "meta-llama/Llama-3.1-8B-Instruct" -> "llama-3-1-8b": words split at separators and where digits begin,
// less those that do not change the shape.
std::string canonical(std::string_view name) {
  constexpr std::array<std::string_view, 7> kDropped{"instruct", "chat", "it", "base", "hf", "pt", "meta"};
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (const size_t slash = name.rfind('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
  std::vector<std::string> words(1);
  for (const char raw : name) {
    const char c = raw >= 'A' && raw <= 'Z' ? static_cast<char>(raw - 'A' + 'a') : raw;
    const bool separator = std::string_view("-_.: ").find(c) != std::string_view::npos;
    if (separator || (is_digit(c) && !words.back().empty() && !is_digit(words.back().back()))) words.emplace_back();
    if (!separator) words.back() += c;
  }
  std::string joined;
  for (const std::string& word : words) {
    if (word.empty() || std::ranges::find(kDropped, word) != kDropped.end()) continue;
    joined += joined.empty() ? word : "-" + word;
  }
  return joined;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

[[noreturn]] void fail_unknown(std::string_view name) {
  constexpr size_t kNamed = 4;
  const std::string wanted = canonical(name.substr(0, 100));
  std::vector<std::pair<size_t, std::string_view>> near;
  for (const NamedShape& shape : known_models()) {
    near.emplace_back(edit_distance(wanted, canonical(shape.name)), shape.name);
  }
  std::ranges::stable_sort(near, {}, &std::pair<size_t, std::string_view>::first);
  std::string closest;
  for (size_t i = 0; i < kNamed; ++i) closest += fmt::format("{}{}", i == 0 ? "" : ", ", near[i].second);
  fail_usage(fmt::format("'{}' is neither a path nor a known model", name), {}, "the closest known are " + closest);
}

const NamedShape& find_shape(std::string_view name) {
  std::string wanted = canonical(name);
  for (const auto& [alias, target] : kAliases) {
    if (canonical(alias) == wanted) wanted = canonical(target);
  }
  for (const NamedShape& shape : known_models()) {
    if (canonical(shape.name) == wanted) return shape;
  }
  fail_unknown(name);
}

constexpr const char* kShape = "shape";

std::int64_t parse_size(std::string_view key, std::string_view value, std::int64_t most) {
  std::int64_t number = 0;
  const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (status != std::errc{} || end != value.data() + value.size() || number < 1 || number > most) {
    fail_usage(fmt::format("{}={} is not an integer in 1..{}", key, value, most), kShape, "correct it");
  }
  return number;
}

DType parse_dtype(std::string_view value) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    if (name_of(type) == value) return type;
  }
  fail_usage(fmt::format("dtype={} is not known", value), kShape, "use f32, f16 or bf16");
}

bool parse_switch(std::string_view key, std::string_view value) {
  if (value != "0" && value != "1") fail_usage(fmt::format("{}={} is not 0 or 1", key, value), kShape, "correct it");
  return value == "1";
}

struct SizeKey {
  std::string_view name;
  int DecoderConfig::*field;
  std::int64_t most;
};

constexpr std::array<SizeKey, 7> kSizeKeys{{{"layers", &DecoderConfig::layers, ShapeLimits::kLayers},
                                            {"hidden", &DecoderConfig::hidden, ShapeLimits::kHidden},
                                            {"ffn", &DecoderConfig::ffn, ShapeLimits::kFfn},
                                            {"heads", &DecoderConfig::heads, ShapeLimits::kHeads},
                                            {"kv_heads", &DecoderConfig::kv_heads, ShapeLimits::kHeads},
                                            {"head_dim", &DecoderConfig::head_dim, ShapeLimits::kHeadDim},
                                            {"vocab", &DecoderConfig::vocab, ShapeLimits::kVocab}}};

// Sets one key=value; the window is kept apart until the number of layers is known.
void apply(std::string_view key, std::string_view value, DecoderConfig& config, std::int64_t& window) {
  const auto* size = std::ranges::find(kSizeKeys, key, &SizeKey::name);
  if (size != kSizeKeys.end()) {
    config.*size->field = static_cast<int>(parse_size(key, value, size->most));
  } else if (key == "context") {
    config.context = parse_size(key, value, ShapeLimits::kContext);
  } else if (key == "window") {
    window = parse_size(key, value, ShapeLimits::kContext);
  } else if (key == "experts") {
    config.moe.experts = static_cast<int>(parse_size(key, value, ShapeLimits::kExperts));
  } else if (key == "used_experts") {
    config.moe.used = static_cast<int>(parse_size(key, value, ShapeLimits::kExperts));
  } else if (key == "tied") {
    config.tied_embeddings = parse_switch(key, value);
  } else if (key == "dtype") {
    config.dtype = parse_dtype(value);
  } else if (key == "arch") {
    config.family = &family_named(value, kShape);
  } else {
    fail_usage(fmt::format("'{}' is not a key of a shape", key), kShape,
               "known are layers, hidden, ffn, heads, kv_heads, head_dim, vocab, context, window, experts, "
               "used_experts, tied, dtype, arch");
  }
}

ModelSpec parse_list(std::string_view list) {
  DecoderConfig config;
  config.family = &family_named(kShapeFamily, kShape);
  config.context = 2048;
  std::int64_t window = 0;
  std::vector<std::string_view> seen;
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), item.size() + 1));
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos)
      fail_usage(fmt::format("'{}' has no '='", item), kShape, "write key=value,…");
    const std::string_view key = item.substr(0, equals);
    if (std::ranges::find(seen, key) != seen.end()) fail_usage(fmt::format("'{}' is given twice", key), kShape);
    seen.push_back(key);
    apply(key, item.substr(equals + 1), config, window);
  }
  for (const SizeKey& size : kSizeKeys) {
    const bool derived = size.name == "kv_heads" || size.name == "head_dim";
    if (config.*size.field == 0 && !derived) fail_usage(fmt::format("{} is missing", size.name), kShape, "add it");
  }
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  if (config.head_dim == 0 && config.hidden % config.heads != 0) {
    fail_usage("heads do not divide hidden", kShape, "give head_dim");
  }
  if (config.head_dim == 0) config.head_dim = config.hidden / config.heads;
  if (config.family->experts != (config.moe.experts > 0)) {
    fail_usage(fmt::format("arch={} {}", config.family->name,
                           config.family->experts ? "has experts, and their number is missing" : "has no experts"),
               kShape, config.family->experts ? "add experts=N,used_experts=K" : "give another arch");
  }
  config.norm_eps = config.family->known_norm_eps;
  set_windows(config, window);
  set_experts(config, config.moe.experts, config.moe.used);
  return checked_spec(config, kShape);
}

}  // namespace

const std::vector<NamedShape>& known_models() {
  static const std::vector<NamedShape> shapes = [] {
    std::vector<NamedShape> all;
    for (const KnownShape& row : known_sizes()) all.push_back({std::string(row.name), spec_of(row), {}});
    for (const std::span<const KnownConfig> configs : {known_configs(), known_dense_configs(), known_encoders()}) {
      for (const auto& [name, json] : configs) {
        all.push_back({std::string(name), parse_config(json, std::string(name)), {}});
      }
    }
    return all;
  }();
  return shapes;
}

ModelSpec shape_named(std::string_view name) { return find_shape(name).config; }

ModelSpec parse_shape(std::string_view name_or_list) {
  return name_or_list.find('=') == std::string_view::npos ? shape_named(name_or_list) : parse_list(name_or_list);
}

NamedShape resolve_shape(std::string_view folder_or_file_or_name) {
  const std::string text(folder_or_file_or_name);
  if (text.find('\0') != std::string::npos || text.empty()) fail_usage("no model is named", "-m");
  std::error_code ignored;
  const std::filesystem::path path(text);
  if (std::filesystem::exists(path, ignored)) {
    if (const auto gguf = find_gguf(path)) {
      const GgufModel model(*gguf);
      return {text, gguf_config(model), model.tensor_bytes()};
    }
    return {text, load_config(path), {}};
  }
  if (text[0] == '/' || text[0] == '.' || text[0] == '~') {
    fail_input("there is no such file or folder", text, "check the path");
  }
  if (text.find('=') != std::string::npos) return {text, parse_list(text), {}};
  return find_shape(text);
}

ModelSpec resolve_config(std::string_view folder_or_file_or_name) {
  return resolve_shape(folder_or_file_or_name).config;
}

}  // namespace kvasir
