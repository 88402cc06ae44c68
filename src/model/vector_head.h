// From a text's rows to its vector: pooling, dense layers, normalisation.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "model/row_head.h"
#include "model/spec.h"

namespace kvasir {

class VectorHead final : public RowHead {
 public:
  // Reads the weights of dense layers from folders beside the model. Throws Error.
  VectorHead(const std::filesystem::path& model, const ModelSpec& spec);

  const VectorSpec& spec() const { return spec_; }
  int width() const;  // of a vector

  VectorSpec::Pooling pooling() const override { return spec_.pooling; }
  std::vector<float> made_of(std::span<const float> rows) const override;

 private:
  VectorSpec spec_;
  int hidden_;
  std::vector<DenseWeights> layers_;  // of spec_.dense
};

// The first `dimensions` numbers, of length 1 again where the vector had it.
void shorten(std::vector<float>& vector, size_t dimensions, const VectorSpec& spec);

}  // namespace kvasir
