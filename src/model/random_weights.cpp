#include "model/random_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <thread>

#include "base/check.h"
#include "base/error.h"
#include "base/mix.h"
#include "layout/codec.h"

namespace kvasir {
namespace {

constexpr std::int64_t kElementsAtOnce = 1 << 16;  // of a thread

// Four sums of uniform bytes are near enough to a normal distribution, and fast enough for gigabytes.
float noise(const RandomTensor& tensor, std::uint64_t element) {
  const std::uint64_t bits = mixed(tensor.seed, tensor.index, element);
  const int sum = static_cast<int>(bits & 0xffff) + static_cast<int>(bits >> 16 & 0xffff) +
                  static_cast<int>(bits >> 32 & 0xffff) + static_cast<int>(bits >> 48);
  return (static_cast<float>(sum) - 131070.0F) / 37837.0F;  // mean 0, deviation 1
}

template <class Stored, class Encode>
void fill_with(const RandomTensor& tensor, std::int64_t first, std::span<std::byte> to, Encode encode) {
  auto* out = reinterpret_cast<Stored*>(to.data());
  const auto count = static_cast<std::int64_t>(to.size() / sizeof(Stored));
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = tensor.deviation == 0.0F ? 0.0F : noise(tensor, static_cast<std::uint64_t>(first + i));
    out[i] = encode(tensor.mean + tensor.deviation * value);
  }
}

int random_threads() { return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 16U)); }

}  // namespace

std::vector<RandomTensor> random_tensors(const ModelSpec& spec, std::uint64_t seed) {
  std::vector<RandomTensor> out;
  for (TensorSpec& tensor : tensors_of(spec)) {
    RandomTensor one{std::move(tensor)};
    one.seed = seed;
    one.index = out.size();
    if (one.tensor.bias) {
      one.deviation = 0.02F;
    } else if (one.tensor.role == TensorRole::kSinks || one.tensor.role == TensorRole::kRelativeBias) {
      one.deviation = 1.0F;  // as scores have it
    } else if (one.tensor.role == TensorRole::kStateRate || one.tensor.role == TensorRole::kStateStepBias) {
      one.deviation = 1.0F;  // heads forget within a few tokens, or hundreds
    } else if (one.tensor.role == TensorRole::kSharedGate) {
      one.deviation = 1.0F / std::sqrt(static_cast<float>(one.tensor.rows));
    } else if (one.tensor.vector()) {  // a norm
      one.mean = 1.0F - one.tensor.offset;
    } else {
      const bool table = one.tensor.role == TensorRole::kEmbedding;
      one.deviation = table ? 1.0F : 1.0F / std::sqrt(static_cast<float>(one.tensor.cols));
    }
    out.push_back(std::move(one));
  }
  return out;
}

void fill(const RandomTensor& tensor, DType dtype, std::int64_t first, std::span<std::byte> to) {
  CHECK(!is_quantized(dtype));
  if (dtype == DType::kF32) return fill_with<float>(tensor, first, to, [](float value) { return value; });
  if (dtype == DType::kF16) return fill_with<CodecF16::Stored>(tensor, first, to, CodecF16::encode);
  fill_with<CodecBF16::Stored>(tensor, first, to, CodecBF16::encode);
}

RandomWeights::RandomWeights(const ModelSpec& spec, std::uint64_t seed)
    : dtype_(spec.dtype), seed_(seed), tensors_(random_tensors(spec, seed)), threads_(random_threads()) {}

HostWeight RandomWeights::matrix(std::string_view name, int rows, int cols) const {
  const auto tensor =
      std::ranges::find(tensors_, name, [](const RandomTensor& one) -> std::string_view { return one.tensor.name; });
  const bool vector = rows == 1 && tensor != tensors_.end() && tensor->tensor.vector();  // or a matrix of one row
  if (tensor == tensors_.end() || tensor->tensor.rows != (vector ? cols : rows) ||
      tensor->tensor.cols != (vector ? 0 : cols)) {
    fail_input(fmt::format("there is no random tensor '{}' of {} x {}", name, rows, cols), "shape");
  }
  const std::int64_t elements = tensor->elements();
  const Buffer& made = made_.emplace_back(allocate_host(row_bytes(dtype_, elements)));
  threads_.parallel_for((elements + kElementsAtOnce - 1) / kElementsAtOnce, [&](std::int64_t part, int) {
    const std::int64_t first = part * kElementsAtOnce;
    const std::int64_t count = std::min(kElementsAtOnce, elements - first);
    fill(*tensor, dtype_, first, {made.as<std::byte>() + row_bytes(dtype_, first), row_bytes(dtype_, count)});
  });
  return {{made.as<const std::byte>(), row_bytes(dtype_, elements)}, dtype_, rows, cols};
}

Key256 RandomWeights::fingerprint() const {
  std::string all = fmt::format("random {} {}", seed_, name_of(dtype_));
  for (const RandomTensor& t : tensors_) all += fmt::format(" {} {} {}", t.tensor.name, t.tensor.rows, t.tensor.cols);
  const std::array<std::string_view, 1> parts{all};
  return keyed_hash({}, parts);
}

void RandomWeights::done_with(const HostWeight& weight) const {
  made_.remove_if([&weight](const Buffer& buffer) { return buffer.as<std::byte>() == weight.bytes.data(); });
}

std::uint64_t RandomWeights::bytes() const {
  std::uint64_t sum = 0;
  for (const RandomTensor& tensor : tensors_) sum += row_bytes(dtype_, tensor.elements());
  return sum;
}

}  // namespace kvasir
