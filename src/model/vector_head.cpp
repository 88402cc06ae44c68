#include "model/vector_head.h"

#include <fmt/format.h>

#include <cmath>

#include "backend/weight_reader.h"
#include "base/check.h"
#include "base/error.h"
#include "model/weights.h"

namespace kvasir {
namespace {

void normalize(std::span<float> vector) {
  constexpr double kLeast = 1e-12;
  double sum = 0;
  for (const float x : vector) sum += static_cast<double>(x) * x;
  const double length = std::max(std::sqrt(sum), kLeast);
  for (float& x : vector) x = static_cast<float>(x / length);
}

std::vector<float> mean_of(std::span<const float> rows, size_t width) {
  std::vector<double> sums(width);
  for (size_t i = 0; i < rows.size(); ++i) sums[i % width] += rows[i];
  const auto count = static_cast<double>(rows.size() / width);
  std::vector<float> out(width);
  for (size_t i = 0; i < width; ++i) out[i] = static_cast<float>(sums[i] / count);
  return out;
}

}  // namespace

VectorHead::VectorHead(const std::filesystem::path& model, const ModelSpec& spec)
    : spec_(spec.vectors), hidden_(spec.hidden) {
  int width = hidden_;
  for (const VectorSpec::Dense& dense : spec_.dense) {
    const std::filesystem::path folder = model / dense.folder;
    if (dense.inputs != width) {
      fail_input(fmt::format("a dense layer takes {} numbers, and what comes before it has {}", dense.inputs, width),
                 folder.string(), "check that the folders of modules.json belong together");
    }
    width = dense.outputs;
    const Weights stored(folder, {});
    Layer& layer = layers_.emplace_back();
    const HostWeight matrix = stored.matrix("linear.weight", dense.outputs, dense.inputs);
    layer.weight.resize(static_cast<size_t>(dense.outputs) * static_cast<size_t>(dense.inputs));
    for (int r = 0; r < dense.outputs; ++r) {
      read_row(matrix, r, layer.weight.data() + static_cast<std::ptrdiff_t>(r) * dense.inputs);
    }
    if (dense.bias) layer.bias = read_vector(stored.vector("linear.bias", dense.outputs));
  }
}

int VectorHead::width() const { return spec_.dense.empty() ? hidden_ : spec_.dense.back().outputs; }

std::vector<float> VectorHead::vector_of(std::span<const float> rows) const {
  const auto hidden = static_cast<size_t>(hidden_);
  CHECK(!rows.empty() && rows.size() % hidden == 0);
  std::vector<float> out = mean_of(rows, hidden);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    std::vector<float> next(static_cast<size_t>(spec_.dense[i].outputs));
    for (size_t o = 0; o < next.size(); ++o) {
      double sum = layer.bias.empty() ? 0.0 : layer.bias[o];
      const float* row = &layer.weight[o * out.size()];
      for (size_t j = 0; j < out.size(); ++j) sum += static_cast<double>(row[j]) * out[j];
      const bool tanh = spec_.dense[i].activation == VectorSpec::Dense::Activation::kTanh;
      next[o] = static_cast<float>(tanh ? std::tanh(sum) : sum);
    }
    out = std::move(next);
  }
  if (spec_.normalized) normalize(out);
  return out;
}

void shorten(std::vector<float>& vector, size_t dimensions, const VectorSpec& spec) {
  if (dimensions >= vector.size()) return;
  vector.resize(dimensions);
  if (spec.normalized) normalize(vector);
}

}  // namespace kvasir
