#include "model/vector_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "backend/weight_reader.h"
#include "base/error.h"
#include "model/gguf/gguf_heads.h"
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

}  // namespace

VectorHead::VectorHead(const std::filesystem::path& model, const ModelSpec& spec)
    : spec_(spec.vectors), hidden_(spec.hidden) {
  int width = hidden_;
  for (size_t i = 0; i < spec_.dense.size(); ++i) {
    const VectorSpec::Dense& dense = spec_.dense[i];
    const bool in_model = dense.folder.empty();  // of a GGUF file
    const std::filesystem::path folder = in_model ? model : model / dense.folder;
    if (dense.inputs != width) {
      fail_input(fmt::format("a dense layer takes {} numbers, and what comes before it has {}", dense.inputs, width),
                 folder.string(), "check that the folders of modules.json belong together");
    }
    width = dense.outputs;
    const Weights stored(folder, {});
    DenseWeights& layer = layers_.emplace_back();
    const HostWeight matrix =
        stored.matrix(in_model ? gguf_dense_name(i) : "linear.weight", dense.outputs, dense.inputs);
    layer.weight.resize(static_cast<size_t>(dense.outputs) * static_cast<size_t>(dense.inputs));
    for (int r = 0; r < dense.outputs; ++r) {
      read_row(matrix, r, layer.weight.data() + static_cast<std::ptrdiff_t>(r) * dense.inputs);
    }
    if (dense.bias) layer.bias = read_vector(stored.vector("linear.bias", dense.outputs));
  }
}

int VectorHead::width() const { return spec_.dense.empty() ? hidden_ : spec_.dense.back().outputs; }

std::vector<float> VectorHead::made_of(std::span<const float> rows) const {
  std::vector<float> out = pooled(rows, static_cast<size_t>(hidden_));
  for (size_t i = 0; i < layers_.size(); ++i) {
    std::vector<double> next = layers_[i].times(out);
    const bool tanh = spec_.dense[i].activation == VectorSpec::Dense::Activation::kTanh;
    if (tanh) std::ranges::transform(next, next.begin(), [](double x) { return std::tanh(x); });
    out.assign(next.begin(), next.end());
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
