#include "model/row_head.h"

#include "base/check.h"

namespace kvasir {

std::vector<float> pooled(std::span<const float> rows, size_t hidden) {
  CHECK(!rows.empty() && rows.size() % hidden == 0);
  std::vector<double> sums(hidden);
  for (size_t i = 0; i < rows.size(); ++i) sums[i % hidden] += rows[i];
  const auto count = static_cast<double>(rows.size() / hidden);
  std::vector<float> out(hidden);
  for (size_t i = 0; i < hidden; ++i) out[i] = static_cast<float>(sums[i] / count);
  return out;
}

std::vector<double> DenseWeights::times(std::span<const float> inputs) const {
  std::vector<double> out(weight.size() / inputs.size());
  for (size_t o = 0; o < out.size(); ++o) {
    double sum = bias.empty() ? 0.0 : bias[o];
    const float* row = &weight[o * inputs.size()];
    for (size_t i = 0; i < inputs.size(); ++i) sum += static_cast<double>(row[i]) * inputs[i];
    out[o] = sum;
  }
  return out;
}

}  // namespace kvasir
