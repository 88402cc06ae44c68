// From a text's rows to its vector: pooling, dense layers, normalisation. On the host, text by text and in a fixed
// order, so that a vector does not depend on what it was computed with.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "model/spec.h"

namespace kvasir {

class VectorHead {
 public:
  // Reads the weights of dense layers from folders beside the model. Throws Error.
  VectorHead(const std::filesystem::path& model, const ModelSpec& spec);

  const VectorSpec& spec() const { return spec_; }
  int width() const;  // of a vector

  // rows: [wanted rows][hidden], all of a text for kMean, else the first or the last one alone.
  std::vector<float> vector_of(std::span<const float> rows) const;

 private:
  struct Layer {
    std::vector<float> weight;  // [outputs][inputs]
    std::vector<float> bias;    // [outputs], or none
  };

  VectorSpec spec_;
  int hidden_;
  std::vector<Layer> layers_;  // of spec_.dense
};

// The first `dimensions` numbers, of length 1 again where the vector had it.
void shorten(std::vector<float>& vector, size_t dimensions, const VectorSpec& spec);

}  // namespace kvasir
