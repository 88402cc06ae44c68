// What is made of a text's rows behind the last layer, on the host, text by text and in a fixed order, so that
// nothing of it depends on what it was computed with.
#pragma once

#include <span>
#include <vector>

#include "model/head_spec.h"

namespace kvasir {

class RowHead {
 public:
  virtual ~RowHead() = default;

  virtual VectorSpec::Pooling pooling() const = 0;  // which rows it reads

  // rows: [wanted rows][hidden], all of a text for kMean, else the first or the last one alone.
  virtual std::vector<float> made_of(std::span<const float> rows) const = 0;
};

// What pooling makes of those rows.
std::vector<float> pooled(std::span<const float> rows, size_t hidden);

// Weights of a dense layer: outputs = W inputs + b, each sum in float64 and in the order of the inputs.
struct DenseWeights {
  std::vector<float> weight;  // [outputs][inputs]
  std::vector<float> bias;    // [outputs], or none

  std::vector<double> times(std::span<const float> inputs) const;
};

}  // namespace kvasir
