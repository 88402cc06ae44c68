#include "model/gguf/gguf_heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kvasir {
namespace {

using Pooling = VectorSpec::Pooling;

constexpr std::string_view kPoolingKey = "pooling_type";
constexpr std::uint32_t kRankPooling = 4;  // what is read of the rows the classifier knows
constexpr std::array<std::pair<std::uint32_t, Pooling>, 3> kPoolings{
    {{1, Pooling::kMean}, {2, Pooling::kCls}, {3, Pooling::kLast}}};

// Ours: llama.cpp has one way for each architecture, and gives logits.
constexpr std::string_view kClassifierPooling = "classifier.pooling";
constexpr std::string_view kClassifierActivation = "classifier.activation";
constexpr std::string_view kLabels = "classifier.output_labels";
constexpr std::string_view kClassifier = "cls.output.weight";

// Of a matrix, one row of which may be written as a vector.
int rows_or_one(const GgufReader& in, std::string_view tensor, std::int64_t most) {
  const GgufTensor* found = in.model().find(tensor);
  if (found != nullptr && found->shape.size() == 1) return 1;
  return in.rows_of(tensor, most);
}

void read_pooling(const GgufReader& in, DecoderConfig& config) {
  const auto number = in.integer_if(kPoolingKey, 0, UINT32_MAX);
  if (!number || *number == 0 || *number == kRankPooling) return;
  const auto* found = std::ranges::find(kPoolings, *number, &std::pair<std::uint32_t, Pooling>::first);
  if (found == kPoolings.end()) in.fail(fmt::format("{} is {}, which is not known", in.key(kPoolingKey), *number));
  config.pooling = found->second;
}

void read_classifier(const GgufReader& in, DecoderConfig& config) {
  constexpr std::int64_t kMostLabels = 1 << 16;
  if (!in.has_tensor(kClassifier)) return;
  const RerankForm& form = config.family->rerank;
  RerankSpec& rerank = config.rerank;
  rerank.kind = RerankSpec::Kind::kClassifier;
  rerank.labels = rows_or_one(in, kClassifier, kMostLabels);
  rerank.bias = in.has_tensor("cls.output.bias");
  rerank.between = {in.has_tensor("cls.weight"), in.has_tensor("cls.bias"), in.has_tensor("cls.norm.weight"),
                    form.activation};
  rerank.pooling = form.gguf_pooling.value_or(form.pooling);
  if (const auto name = in.text_if(kClassifierPooling)) rerank.pooling = pooling_named(*name, kClassifierPooling);
  rerank.end = rerank.labels == 1 ? RerankSpec::End::kSigmoid : RerankSpec::End::kLogit;
  if (rerank.labels == 2 && !form.text.empty()) rerank.end = RerankSpec::End::kYesOrNo;
  if (in.text_if(kClassifierActivation) == "identity") rerank.end = RerankSpec::End::kLogit;
}

void say_classifier(const ModelSpec& spec, GgufHeads& out) {
  const RerankSpec& rerank = spec.rerank;
  const RerankForm& form = spec.family->rerank;
  if (rerank.labels != 1) {
    std::vector<std::string> labels;
    for (int i = 0; i < rerank.labels; ++i) labels.push_back(fmt::format("LABEL_{}", i));
    out.keys.push_back({std::string(kLabels), std::move(labels)});
  }
  if (rerank.pooling != form.gguf_pooling.value_or(form.pooling)) {
    out.keys.push_back({std::string(kClassifierPooling), std::string(name_of(rerank.pooling))});
    out.notes.push_back(
        fmt::format("llama.cpp does not read {}, and pools another way for the classifier", kClassifierPooling));
  }
  if (rerank.labels == 1 && rerank.end == RerankSpec::End::kLogit)
    out.keys.push_back({std::string(kClassifierActivation), std::string("identity")});
  if (!spec.encodes()) out.notes.push_back("llama.cpp takes the softmax of a decoder's classifier");
}

}  // namespace

void read_gguf_heads(const GgufReader& in, DecoderConfig& config) {
  constexpr int kMostTokenTypes = 64;
  read_pooling(in, config);
  if (gguf_form_of(config).vectors && in.has_tensor("token_types.weight"))
    config.token_types = rows_or_one(in, "token_types.weight", kMostTokenTypes);
  read_classifier(in, config);
}

std::string gguf_dense_name(size_t index) { return fmt::format("dense_{}.weight", index + 2); }

void read_gguf_dense(const GgufReader& in, ModelSpec& spec) {
  for (int i = 0; i < gguf_form_of(spec).dense; ++i) {
    const GgufTensor* found = in.model().find(gguf_dense_name(static_cast<size_t>(i)));
    if (found == nullptr) return;
    const auto fits = [](std::int64_t one) { return one > 0 && one <= ShapeLimits::kHidden; };
    if (found->shape.size() != 2 || !std::ranges::all_of(found->shape, fits))
      in.fail(gguf_dense_name(static_cast<size_t>(i)) + " is no matrix");
    VectorSpec::Dense dense;
    dense.outputs = static_cast<int>(found->shape[0]);
    dense.inputs = static_cast<int>(found->shape[1]);
    spec.vectors.dense.push_back(dense);
  }
}

GgufHeads gguf_heads_of(const ModelSpec& spec) {
  GgufHeads out;
  const GgufForm& form = gguf_form_of(spec);
  const auto say = [&out](std::string_view key, std::int64_t value) {
    out.keys.push_back({std::string(key), static_cast<std::uint32_t>(value)});
  };
  if (spec.encodes()) out.keys.push_back({"attention.causal", false});
  if (spec.rerank.classifies()) {
    say(kPoolingKey, kRankPooling);
    say_classifier(spec, out);
  } else if (spec.encodes() || spec.vectors.pooling != Pooling::kLast) {
    say(kPoolingKey,
        std::ranges::find(kPoolings, spec.vectors.pooling, &std::pair<std::uint32_t, Pooling>::second)->first);
  }
  if (form.vectors && spec.token_types > 0) say("tokenizer.ggml.token_type_count", spec.token_types);
  for (size_t i = 0; i < spec.vectors.dense.size(); ++i) {
    say(fmt::format("dense_{}_feat_in", i + 2), spec.vectors.dense[i].inputs);
    say(fmt::format("dense_{}_feat_out", i + 2), spec.vectors.dense[i].outputs);
  }
  if (spec.encodes() && !spec.rerank.classifies() && !spec.vectors.normalized)
    out.notes.push_back("a GGUF file does not say that vectors keep their length: they will be of length 1");
  return out;
}

std::string lost_of_heads(const ModelSpec& want, const ModelSpec& got) {
  const auto plain = [](const VectorSpec::Dense& one) {
    return !one.bias && one.activation == VectorSpec::Dense::Activation::kNone;
  };
  const auto& dense = want.vectors.dense;
  const bool said = static_cast<int>(dense.size()) <= gguf_form_of(want).dense;
  if (!said || !std::ranges::all_of(dense, plain)) return "what lies behind its pooling";
  if (want.token_types != got.token_types || want.positions != got.positions) return "what its embeddings are";
  if (want.rerank.classifies() && want.rerank != got.rerank) return "how its classifier is built";
  const bool pooled = want.rerank.classifies() || want.vectors.pooling == got.vectors.pooling;
  return pooled ? "" : "how its rows are pooled";
}

}  // namespace kvasir
