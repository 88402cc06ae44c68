#include "model/rerank_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "backend/weight_reader.h"
#include "base/check.h"
#include "base/error.h"
#include "model/tensors.h"
#include "model/weights.h"

namespace kvasir {
namespace {

// The tensors of a role, its bias behind it.
DenseWeights read_dense(const Weights& stored, std::span<const TensorSpec> tensors, TensorRole role) {
  DenseWeights out;
  for (const TensorSpec& tensor : tensors) {
    if (tensor.role != role) continue;
    if (tensor.vector()) {
      std::vector<float>& to = tensor.bias ? out.bias : out.weight;
      to = read_vector(stored.vector(tensor.name, tensor.row_count()));
      continue;
    }
    const HostWeight matrix = stored.matrix(tensor.name, tensor.row_count(), tensor.cols);
    out.weight.resize(static_cast<size_t>(tensor.elements()));
    for (int r = 0; r < matrix.rows; ++r) {
      read_row(matrix, r, out.weight.data() + static_cast<std::ptrdiff_t>(r) * matrix.cols);
    }
  }
  return out;
}

// The rows of the head that are those tokens' own.
DenseWeights read_tokens(const Weights& stored, std::span<const TensorSpec> tensors, const ModelSpec& spec) {
  const TensorRole role = spec.tied_embeddings ? TensorRole::kEmbedding : TensorRole::kHead;
  const auto head =
      std::ranges::find_if(tensors, [role](const TensorSpec& one) { return one.role == role && !one.bias; });
  CHECK(head != tensors.end() && head->cols == spec.hidden);
  const HostWeight matrix = stored.matrix(head->name, head->row_count(), head->cols);
  DenseWeights out;
  out.weight.resize(static_cast<size_t>(spec.rerank.logits()) * static_cast<size_t>(spec.hidden));
  read_row(matrix, spec.rerank.yes, out.weight.data());
  if (spec.rerank.logits() == 2) read_row(matrix, spec.rerank.no, out.weight.data() + spec.hidden);
  stored.done_with(matrix);
  return out;
}

double activated(RerankSpec::Activation activation, double x) {
  if (activation == RerankSpec::Activation::kTanh) return std::tanh(x);
  return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
}

// LayerNorm, without a bias.
std::vector<float> normalized(std::span<const double> x, std::span<const float> weight, double eps) {
  const auto count = static_cast<double>(x.size());
  double mean = 0;
  for (const double one : x) mean += one;
  mean /= count;
  double variance = 0;
  for (const double one : x) variance += (one - mean) * (one - mean);
  const double scale = 1.0 / std::sqrt(variance / count + eps);
  std::vector<float> out(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    out[i] = static_cast<float>((x[i] - mean) * scale * (weight.empty() ? 1.0F : weight[i]));
  }
  return out;
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

}  // namespace

RerankHead::RerankHead(const std::filesystem::path& model, const ModelSpec& spec)
    : spec_(spec.rerank), hidden_(spec.hidden), norm_eps_(spec.norm_eps) {
  CHECK(spec_.ranks());
  const std::vector<TensorSpec> tensors = tensors_of(spec);
  const Weights stored(model, tensors);
  if (spec_.kind == RerankSpec::Kind::kTokens) {
    for (const TokenId token : {spec_.yes, spec_.logits() == 2 ? spec_.no : spec_.yes}) {
      if (token < 0 || token >= spec.vocab)
        fail_input(fmt::format("token {} is not in the vocabulary of {}", token, spec.vocab), model.string());
    }
    if (spec.table_width() != spec.hidden || spec.head_bias) {
      fail_input("the head is not a plain matrix, and no score is made of it", model.string(),
                 "use another reranker");
    }
    logit_scale_ = spec.logit_scale;
    logit_softcap_ = spec.logit_softcap;
    out_ = read_tokens(stored, tensors, spec);
    return;
  }
  between_ = read_dense(stored, tensors, TensorRole::kRerankBetween);
  norm_ = read_dense(stored, tensors, TensorRole::kRerankNorm).weight;
  out_ = read_dense(stored, tensors, TensorRole::kRerankOut);
}

std::vector<float> RerankHead::made_of(std::span<const float> rows) const {
  std::vector<float> row = pooled(rows, static_cast<size_t>(hidden_));
  if (spec_.between.there) {
    std::vector<double> inner = between_.times(row);
    for (double& one : inner) one = activated(spec_.between.activation, one);
    if (spec_.between.norm) {
      row = normalized(inner, norm_, norm_eps_);
    } else {
      row.assign(inner.begin(), inner.end());
    }
  }
  std::vector<double> logits = out_.times(row);
  for (double& logit : logits) {
    logit *= logit_scale_;
    if (logit_softcap_ > 0) logit = logit_softcap_ * std::tanh(logit / logit_softcap_);
  }
  if (spec_.end == RerankSpec::End::kYesOrNo) return {static_cast<float>(sigmoid(logits[0] - logits[1]))};
  return {static_cast<float>(spec_.end == RerankSpec::End::kSigmoid ? sigmoid(logits[0]) : logits[0])};
}

}  // namespace kvasir
