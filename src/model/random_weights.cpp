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

std::vector<RandomTensor> random_tensors(const ModelConfig& c, std::uint64_t seed) {
  const float narrow = 1.0F / std::sqrt(static_cast<float>(c.hidden));
  const float wide = 1.0F / std::sqrt(static_cast<float>(c.ffn));
  const std::int64_t q = static_cast<std::int64_t>(c.heads) * c.head_dim;
  const std::int64_t kv = static_cast<std::int64_t>(c.kv_heads) * c.head_dim;
  std::vector<RandomTensor> out{{"model.embed_tokens.weight", c.vocab, c.hidden, 0.0F, 1.0F}};
  const auto biased = [&out](const std::string& at, std::int64_t rows, bool wanted) {
    if (wanted) out.push_back({at + ".bias", rows, 0, 0.0F, 0.02F});
  };
  for (int i = 0; i < c.layers; ++i) {
    const std::string at = fmt::format("model.layers.{}.", i);
    out.push_back({at + "input_layernorm.weight", c.hidden, 0, 1.0F, 0.0F});
    out.push_back({at + "self_attn.q_proj.weight", q, c.hidden, 0.0F, narrow});
    biased(at + "self_attn.q_proj", q, c.attention_bias);
    out.push_back({at + "self_attn.k_proj.weight", kv, c.hidden, 0.0F, narrow});
    biased(at + "self_attn.k_proj", kv, c.attention_bias);
    out.push_back({at + "self_attn.v_proj.weight", kv, c.hidden, 0.0F, narrow});
    biased(at + "self_attn.v_proj", kv, c.attention_bias);
    out.push_back({at + "self_attn.o_proj.weight", c.hidden, q, 0.0F, 1.0F / std::sqrt(static_cast<float>(q))});
    biased(at + "self_attn.o_proj", c.hidden, c.attention_bias);
    out.push_back({at + "post_attention_layernorm.weight", c.hidden, 0, 1.0F, 0.0F});
    out.push_back({at + "mlp.gate_proj.weight", c.ffn, c.hidden, 0.0F, narrow});
    biased(at + "mlp.gate_proj", c.ffn, c.mlp_bias);
    out.push_back({at + "mlp.up_proj.weight", c.ffn, c.hidden, 0.0F, narrow});
    biased(at + "mlp.up_proj", c.ffn, c.mlp_bias);
    out.push_back({at + "mlp.down_proj.weight", c.hidden, c.ffn, 0.0F, wide});
    biased(at + "mlp.down_proj", c.hidden, c.mlp_bias);
  }
  out.push_back({"model.norm.weight", c.hidden, 0, 1.0F, 0.0F});
  if (!c.tied_embeddings) out.push_back({"lm_head.weight", c.vocab, c.hidden, 0.0F, narrow});
  for (size_t t = 0; t < out.size(); ++t) {
    out[t].seed = seed;
    out[t].index = t;
  }
  return out;
}

void fill(const RandomTensor& tensor, DType dtype, std::int64_t first, std::span<std::byte> to) {
  CHECK(!is_quantized(dtype));
  if (dtype == DType::kF32) return fill_with<float>(tensor, first, to, [](float value) { return value; });
  if (dtype == DType::kF16) return fill_with<CodecF16::Stored>(tensor, first, to, CodecF16::encode);
  fill_with<CodecBF16::Stored>(tensor, first, to, CodecBF16::encode);
}

RandomWeights::RandomWeights(const ModelConfig& config, std::uint64_t seed)
    : dtype_(config.dtype), seed_(seed), tensors_(random_tensors(config, seed)), threads_(random_threads()) {}

HostWeight RandomWeights::matrix(std::string_view name, int rows, int cols) const {
  const auto tensor = std::ranges::find(tensors_, name, &RandomTensor::name);
  const bool vector = rows == 1;
  if (tensor == tensors_.end() || tensor->rows != (vector ? cols : rows) || tensor->cols != (vector ? 0 : cols)) {
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
  for (const RandomTensor& t : tensors_) all += fmt::format(" {} {} {}", t.name, t.rows, t.cols);
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
