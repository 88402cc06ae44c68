#include "model/random_file.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>

namespace kvasir {
namespace {

std::int64_t file_rows(const TensorSpec& spec) { return spec.hf.slice.whole() ? spec.rows : spec.hf.slice.file_rows; }

bool transposed(const TensorSpec& spec) { return spec.hf.axes == FilePlace::Axes::kTransposed; }

std::vector<std::int64_t> file_shape(const TensorSpec& spec) {
  std::vector<std::int64_t> shape{file_rows(spec)};
  if (!spec.vector()) shape.push_back(spec.cols);
  if (transposed(spec)) std::ranges::reverse(shape);
  if (spec.hf.all_experts) shape.insert(shape.begin(), spec.experts);
  if (spec.hf.channels) shape.insert(shape.begin() + 1, 1);
  return shape;
}

// A part's numbers to where the file has them.
void place(const RandomTensor& part, DType dtype, std::span<std::byte> to) {
  const TensorSpec& spec = part.tensor;
  const size_t size = block_bytes(dtype);
  const auto cols = static_cast<size_t>(spec.vector() ? 1 : spec.cols);
  const auto all_rows = static_cast<size_t>(file_rows(spec));
  std::vector<std::byte> made(static_cast<size_t>(part.elements()) * size);
  fill(part, dtype, 0, made);
  const bool pairs = spec.hf_rows == GgufRows::kInterleaved;
  const InterleavedRows order{pairs ? spec.head_dim : 1, spec.rotated_dim, spec.rotated_first};
  for (int r = 0; r < spec.row_count(); ++r) {
    const auto row = static_cast<size_t>(spec.hf.slice.file_row(pairs ? order.gguf_row(r) : r));
    const std::byte* from = made.data() + static_cast<size_t>(r) * cols * size;
    if (!transposed(spec)) {
      std::memcpy(to.data() + row * cols * size, from, cols * size);
      continue;
    }
    for (size_t c = 0; c < cols; ++c) std::memcpy(to.data() + (c * all_rows + row) * size, from + c * size, size);
  }
}

}  // namespace

std::int64_t RandomFileTensor::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

bool RandomFileTensor::plain() const {
  const TensorSpec& spec = parts.front()->tensor;
  return parts.size() == 1 && spec.hf.slice.whole() && !transposed(spec) && spec.hf_rows == GgufRows::kAsStored;
}

int RandomFileTensor::experts() const {
  const TensorSpec& spec = parts.front()->tensor;
  return spec.hf.all_experts ? spec.experts : 1;
}

std::vector<std::byte> RandomFileTensor::expert_bytes(int expert, DType dtype) const {
  std::vector<std::byte> out(static_cast<size_t>(elements() / experts()) * block_bytes(dtype));
  for (const RandomTensor* part : parts) {
    if (!part->tensor.hf.all_experts || part->tensor.expert == expert) place(*part, dtype, out);
  }
  return out;
}

std::vector<RandomFileTensor> file_tensors(const std::vector<RandomTensor>& tensors) {
  std::vector<RandomFileTensor> out;
  std::map<std::string, size_t> places;
  for (const RandomTensor& tensor : tensors) {
    const auto [place, first] = places.emplace(tensor.tensor.hf_name(), out.size());
    if (first) out.push_back({tensor.tensor.hf_name(), file_shape(tensor.tensor), {}});
    out[place->second].parts.push_back(&tensor);
  }
  return out;
}

}  // namespace kvasir
