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

namespace kvasir {
namespace {

using Scaling = RopeSpec::Scaling;

// A row of the table below; the rest of a spec follows from the family.
struct Row {
  std::string_view name;
  std::string_view family;
  int layers, hidden, ffn, heads, kv_heads, head_dim, vocab;
  std::int64_t context;
  double theta;
  bool tied = false;
  DType dtype = DType::kBF16;
  double rope_factor = 0;   // 0: no scaling; else llama3 in the Llama family, linear in Gemma 3
  std::int64_t window = 0;  // which layers have it follows from the family
  int experts = 0;          // of each layer, with an MLP of `ffn` each
  int used_experts = 0;     // by a token
};

constexpr std::string_view kLlama = "llama";
constexpr std::string_view kMistral = "mistral";
constexpr std::string_view kQwen2 = "qwen2";
constexpr std::string_view kQwen3 = "qwen3";
constexpr std::string_view kQwen3Moe = "qwen3_moe";
constexpr std::string_view kMixtral = "mixtral";
constexpr std::string_view kOlmoe = "olmoe";
constexpr std::string_view kGemma2 = "gemma2";
constexpr std::string_view kGemma3 = "gemma3_text";
constexpr std::string_view kPhi3 = "phi3";
constexpr std::string_view kGpt2 = "gpt2";

// clang-format off
constexpr std::array kRows{
    //  name                    family   layers hidden  ffn   heads kv  dim  vocab  context theta    tied
    Row{"tales",                kLlama,   10,   384,  1024,   6,   2,  64,   8192,   2048, 1e4, true},
    Row{"tales-draft",          kLlama,    2,   192,   512,   3,   1,  64,   8192,   2048, 1e4, true},
    Row{"llama-2-7b",           kLlama,   32,  4096, 11008,  32,  32, 128,  32000,   4096, 1e4, false, DType::kF16},
    Row{"llama-2-13b",          kLlama,   40,  5120, 13824,  40,  40, 128,  32000,   4096, 1e4, false, DType::kF16},
    Row{"llama-2-70b",          kLlama,   80,  8192, 28672,  64,   8, 128,  32000,   4096, 1e4, false, DType::kF16},
    Row{"llama-3-8b",           kLlama,   32,  4096, 14336,  32,   8, 128, 128256,   8192, 5e5},
    Row{"llama-3-70b",          kLlama,   80,  8192, 28672,  64,   8, 128, 128256,   8192, 5e5},
    Row{"llama-3.1-8b",         kLlama,   32,  4096, 14336,  32,   8, 128, 128256, 131072, 5e5, false, DType::kBF16, 8},
    Row{"llama-3.1-70b",        kLlama,   80,  8192, 28672,  64,   8, 128, 128256, 131072, 5e5, false, DType::kBF16, 8},
    Row{"llama-3.1-405b",       kLlama,  126, 16384, 53248, 128,   8, 128, 128256, 131072, 5e5, false, DType::kBF16, 8},
    Row{"llama-3.2-1b",         kLlama,   16,  2048,  8192,  32,   8,  64, 128256, 131072, 5e5, true, DType::kBF16, 32},
    Row{"llama-3.2-3b",         kLlama,   28,  3072,  8192,  24,   8, 128, 128256, 131072, 5e5, true, DType::kBF16, 32},
    Row{"llama-3.3-70b",        kLlama,   80,  8192, 28672,  64,   8, 128, 128256, 131072, 5e5, false, DType::kBF16, 8},
    Row{"tinyllama-1.1b",       kLlama,   22,  2048,  5632,  32,   4,  64,  32000,   2048, 1e4},
    Row{"smollm2-135m",         kLlama,   30,   576,  1536,   9,   3,  64,  49152,   8192, 1e5, true},
    Row{"smollm2-360m",         kLlama,   32,   960,  2560,  15,   5,  64,  49152,   8192, 1e5, true},
    Row{"smollm2-1.7b",         kLlama,   24,  2048,  8192,  32,  32,  64,  49152,   8192, 1.3e5, true},
    Row{"mistral-7b-v0.1",      kMistral, 32,  4096, 14336,  32,   8, 128,  32000,  32768, 1e4, false, DType::kBF16, 0, 4096},
    Row{"mistral-7b-v0.2",      kMistral, 32,  4096, 14336,  32,   8, 128,  32000,  32768, 1e6},
    Row{"mistral-7b-v0.3",      kMistral, 32,  4096, 14336,  32,   8, 128,  32768,  32768, 1e6},
    Row{"mistral-nemo-12b",     kMistral, 40,  5120, 14336,  32,   8, 128, 131072, 131072, 1e6},
    Row{"qwen2.5-0.5b",         kQwen2,   24,   896,  4864,  14,   2,  64, 151936,  32768, 1e6, true},
    Row{"qwen2.5-1.5b",         kQwen2,   28,  1536,  8960,  12,   2, 128, 151936,  32768, 1e6, true},
    Row{"qwen2.5-3b",           kQwen2,   36,  2048, 11008,  16,   2, 128, 151936,  32768, 1e6, true},
    Row{"qwen2.5-7b",           kQwen2,   28,  3584, 18944,  28,   4, 128, 152064, 131072, 1e6},
    Row{"qwen2.5-14b",          kQwen2,   48,  5120, 13824,  40,   8, 128, 152064, 131072, 1e6},
    Row{"qwen2.5-32b",          kQwen2,   64,  5120, 27648,  40,   8, 128, 152064, 131072, 1e6},
    Row{"qwen2.5-72b",          kQwen2,   80,  8192, 29568,  64,   8, 128, 152064, 131072, 1e6},
    Row{"qwen3-0.6b",           kQwen3,   28,  1024,  3072,  16,   8, 128, 151936,  40960, 1e6, true},
    Row{"qwen3-1.7b",           kQwen3,   28,  2048,  6144,  16,   8, 128, 151936,  40960, 1e6, true},
    Row{"qwen3-4b",             kQwen3,   36,  2560,  9728,  32,   8, 128, 151936,  40960, 1e6, true},
    Row{"qwen3-8b",             kQwen3,   36,  4096, 12288,  32,   8, 128, 151936,  40960, 1e6},
    Row{"qwen3-14b",            kQwen3,   40,  5120, 17408,  40,   8, 128, 151936,  40960, 1e6},
    Row{"qwen3-32b",            kQwen3,   64,  5120, 25600,  64,   8, 128, 151936,  40960, 1e6},
    Row{"qwen3-30b-a3b",        kQwen3Moe, 48, 2048,   768,  32,   4, 128, 151936,  40960, 1e6, false, DType::kBF16, 0, 0, 128, 8},
    Row{"mixtral-8x7b",         kMixtral, 32,  4096, 14336,  32,   8, 128,  32000,  32768, 1e6, false, DType::kBF16, 0, 0, 8, 2},
    Row{"olmoe-1b-7b",          kOlmoe,   16,  2048,  1024,  16,  16, 128,  50304,   4096, 1e4, false, DType::kBF16, 0, 0, 64, 8},
    Row{"gemma-2-2b",           kGemma2,  26,  2304,  9216,   8,   4, 256, 256000,   8192, 1e4, true, DType::kBF16, 0, 4096},
    Row{"gemma-2-9b",           kGemma2,  42,  3584, 14336,  16,   8, 256, 256000,   8192, 1e4, true, DType::kBF16, 0, 4096},
    Row{"gemma-2-27b",          kGemma2,  46,  4608, 36864,  32,  16, 128, 256000,   8192, 1e4, true, DType::kBF16, 0, 4096},
    Row{"gemma-3-1b",           kGemma3,  26,  1152,  6912,   4,   1, 256, 262144,  32768, 1e6, true, DType::kBF16, 0, 512},
    Row{"gemma-3-4b",           kGemma3,  34,  2560, 10240,   8,   4, 256, 262208, 131072, 1e6, true, DType::kBF16, 8, 1024},
    Row{"gemma-3-12b",          kGemma3,  48,  3840, 15360,  16,   8, 256, 262208, 131072, 1e6, true, DType::kBF16, 8, 1024},
    Row{"gemma-3-27b",          kGemma3,  62,  5376, 21504,  32,  16, 128, 262208, 131072, 1e6, true, DType::kBF16, 8, 1024},
    Row{"phi-3-mini-4k",        kPhi3,    32,  3072,  8192,  32,  32,  96,  32064,   4096, 1e4, false, DType::kBF16, 0, 2047},
    Row{"phi-3-mini-128k",      kPhi3,    32,  3072,  8192,  32,  32,  96,  32064, 131072, 1e4},
    Row{"gpt2",                 kGpt2,    12,   768,  3072,  12,  12,  64,  50257,   1024, 0, true, DType::kF32},
    Row{"gpt2-medium",          kGpt2,    24,  1024,  4096,  16,  16,  64,  50257,   1024, 0, true, DType::kF32},
    Row{"gpt2-large",           kGpt2,    36,  1280,  5120,  20,  20,  64,  50257,   1024, 0, true, DType::kF32},
    Row{"gpt2-xl",              kGpt2,    48,  1600,  6400,  25,  25,  64,  50257,   1024, 0, true, DType::kF32},
};

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

ModelSpec spec_of(const Row& row) {
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
    config.rope.scaling = row.family == kLlama ? Scaling::kLlama3 : Scaling::kLinear;
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
  config.family = &family_named(kLlama, kShape);
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
    all.reserve(kRows.size() + known_configs().size());
    for (const Row& row : kRows) all.push_back({std::string(row.name), spec_of(row), {}});
    for (const auto& [name, json] : known_configs()) {
      all.push_back({std::string(name), parse_config(json, std::string(name)), {}});
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
