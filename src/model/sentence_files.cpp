#include "model/sentence_files.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "base/json_reader.h"
#include "base/mmap_file.h"

namespace kvasir {
namespace {

constexpr JsonFileKind kFile{size_t{1} << 20, "check the file, or download it again"};
constexpr size_t kMostModules = 16;

struct PoolingKey {
  std::string_view key;
  std::optional<VectorSpec::Pooling> pooling;  // none: it is not computed here
};
constexpr std::array<PoolingKey, 6> kPoolingKeys{{{"pooling_mode_mean_tokens", VectorSpec::Pooling::kMean},
                                                  {"pooling_mode_cls_token", VectorSpec::Pooling::kCls},
                                                  {"pooling_mode_lasttoken", VectorSpec::Pooling::kLast},
                                                  {"pooling_mode_max_tokens", std::nullopt},
                                                  {"pooling_mode_mean_sqrt_len_tokens", std::nullopt},
                                                  {"pooling_mode_weightedmean_tokens", std::nullopt}}};

[[noreturn]] void fail_pooling(const JsonReader& in, std::string_view what) {
  in.fail_inside(fmt::format("pooling by {} is not supported", what),
                 "supported: mean, cls and last token, one of them");
}

VectorSpec::Pooling pooling_of(const JsonReader& in) {
  if (in.find("pooling_mode")) {  // as newer files have it
    const JsonReader mode = in.get("pooling_mode");
    const std::string_view name = mode.is_text() ? mode.text() : std::string_view("several ways together");
    if (name == "mean") return VectorSpec::Pooling::kMean;
    if (name == "cls") return VectorSpec::Pooling::kCls;
    if (name == "lasttoken") return VectorSpec::Pooling::kLast;
    fail_pooling(in, name.substr(0, 40));
  }
  std::optional<VectorSpec::Pooling> found;
  for (const PoolingKey& one : kPoolingKeys) {
    if (!in.flag_or(one.key, false)) continue;
    if (!one.pooling || found) fail_pooling(in, found ? "several ways together" : one.key);
    found = one.pooling;
  }
  return found.value_or(VectorSpec::Pooling::kMean);
}

VectorSpec::Dense dense_of(const JsonReader& in, std::string folder) {
  constexpr IntegerRange kSize{1, ShapeLimits::kHidden};
  VectorSpec::Dense out;
  out.folder = std::move(folder);
  out.inputs = static_cast<int>(in.get("in_features").integer(kSize));
  out.outputs = static_cast<int>(in.get("out_features").integer(kSize));
  out.bias = in.flag_or("bias", true);
  const std::string_view activation = in.text_or("activation_function", "torch.nn.modules.activation.Tanh");
  if (activation.ends_with(".Tanh")) {
    out.activation = VectorSpec::Dense::Activation::kTanh;
  } else if (!activation.ends_with(".Identity")) {
    in.fail_inside(fmt::format("activation_function '{}' is not supported", activation.substr(0, 80)),
                   "supported: Identity and Tanh");
  }
  return out;
}

// Calls body(reader) with a file's text.
template <class Body>
void read_file(const std::filesystem::path& path, const Body& body) {
  const MmapFile file(path);
  const JsonDocument document(file.text(), path.string(), kFile);
  body(document.root());
}

// The folder of a module lies beside the file that names it.
std::string folder_of(const JsonReader& module) {
  const std::string_view path = module.get("path").text();
  if (path.find('/') != std::string_view::npos || path == "..") {
    module.fail(fmt::format("has the path '{}', which is not a folder beside the file", path.substr(0, 80)));
  }
  return std::string(path);
}

// A decoder's logits of one token or two, as the score.
RerankSpec token_score_of(const JsonReader& in, const ModelSpec& spec) {
  RerankSpec out;
  out.kind = RerankSpec::Kind::kTokens;
  out.yes = static_cast<TokenId>(in.get("true_token_id").integer({0, spec.vocab - 1}));
  if (!in.find("false_token_id")) return out;
  out.no = static_cast<TokenId>(in.get("false_token_id").integer({0, spec.vocab - 1}));
  out.end = RerankSpec::End::kYesOrNo;
  return out;
}

void read_module(const std::filesystem::path& folder, const JsonReader& module, ModelSpec& spec) {
  VectorSpec& out = spec.vectors;
  const std::string_view type = module.get("type").text();
  if (type.ends_with(".Transformer")) return;
  if (type.ends_with(".Normalize")) {
    out.normalized = true;
    return;
  }
  const bool pooling = type.ends_with(".Pooling");
  const bool tokens = type.ends_with(".LogitScore");
  if (!pooling && !tokens && !type.ends_with(".Dense")) {
    module.fail(fmt::format("has the type '{}', which is not supported", type.substr(0, 80)),
                "supported: Transformer, Pooling, Dense, Normalize, LogitScore");
  }
  const std::string name = folder_of(module);
  read_file(folder / name / "config.json", [&](const JsonReader& in) {
    if (pooling) {
      out.pooling = pooling_of(in);
    } else if (tokens) {
      spec.rerank = token_score_of(in, spec);
    } else {
      out.dense.push_back(dense_of(in, name));
    }
  });
}

}  // namespace

RerankSpec::End rerank_end_of(const JsonReader& config, RerankSpec::End otherwise) {
  std::string_view name;
  if (const auto newer = config.find("sentence_transformers")) name = newer->text_or("activation_fn", "");
  if (name.empty()) name = config.text_or("sbert_ce_default_activation_function", "");
  if (name.empty()) name = config.text_or("activation_fn", "");
  if (name.empty()) return otherwise;
  if (name.ends_with(".Sigmoid")) return RerankSpec::End::kSigmoid;
  if (name.ends_with(".Identity")) return RerankSpec::End::kLogit;
  config.fail_inside(fmt::format("the activation function '{}' is not supported", name.substr(0, 80)),
                     "supported for cross-encoders: Identity and Sigmoid");
}

void read_sentence_files(const std::filesystem::path& folder, ModelSpec& spec) {
  std::error_code ignored;
  const std::filesystem::path modules = folder / "modules.json";
  if (std::filesystem::exists(modules, ignored)) {
    spec.vectors.normalized = false;
    read_file(modules, [&](const JsonReader& in) {
      if (in.items().size() > kMostModules) in.fail("lists too many modules");
      for (const JsonReader module : in.items()) read_module(folder, module, spec);
    });
  }
  // Of a model that embeds, the same file says other things.
  const std::filesystem::path further = folder / "config_sentence_transformers.json";
  if (!spec.rerank.classifies() || !std::filesystem::exists(further, ignored)) return;
  read_file(further, [&](const JsonReader& in) { spec.rerank.end = rerank_end_of(in, spec.rerank.end); });
}

}  // namespace kvasir
