// From the rows of a query and a document to their score.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "model/row_head.h"
#include "model/spec.h"

namespace kvasir {

class RerankHead final : public RowHead {
 public:
  // Reads the classifier, or those rows of the head that stand for the tokens. `spec.rerank` names its tokens. Throws
  // Error. REQUIRES: spec.rerank.ranks().
  RerankHead(const std::filesystem::path& model, const ModelSpec& spec);

  VectorSpec::Pooling pooling() const override { return spec_.pooling; }

  // The score, as the model's files define it: one number.
  std::vector<float> made_of(std::span<const float> rows) const override;

 private:
  RerankSpec spec_;
  int hidden_;
  double norm_eps_;
  float logit_scale_ = 1;
  float logit_softcap_ = 0;
  DenseWeights between_;
  std::vector<float> norm_;
  DenseWeights out_;
};

}  // namespace kvasir
