#include "model/latent_weights.h"

#include "backend/weight_reader.h"

namespace kvasir {
namespace {

int padded(int columns) { return (columns + kHeadMatrixLanes - 1) / kHeadMatrixLanes * kHeadMatrixLanes; }

PerHeadLinear linear(const AttentionSpec& attention, int inputs, int outputs, const float* at) {
  const int stride = padded(outputs);
  return {at, attention.heads, inputs, outputs, stride, std::int64_t{inputs} * stride};
}

float* row_of(std::vector<float>& matrices, const PerHeadLinear& shape, int head, int row) {
  return matrices.data() + head * shape.head_stride + static_cast<std::int64_t>(row) * shape.stride;
}

std::vector<float> zeros(const PerHeadLinear& shape) {
  return std::vector<float>(static_cast<size_t>(shape.heads) * static_cast<size_t>(shape.head_stride));
}

}  // namespace

PerHeadLinear absorb_linear(const AttentionSpec& attention, const float* at) {
  return linear(attention, attention.latent.q_dim(), attention.kv.k_dim, at);
}

PerHeadLinear expand_linear(const AttentionSpec& attention, const float* at) {
  return linear(attention, attention.latent.kv_rank, attention.latent.v_dim, at);
}

std::vector<float> absorbing(const AttentionSpec& attention, const HostWeight& keys) {
  const LatentSpec& latent = attention.latent;
  const PerHeadLinear shape = absorb_linear(attention, nullptr);
  std::vector<float> out = zeros(shape);
  for (int head = 0; head < attention.heads; ++head) {
    for (int i = 0; i < latent.nope_dim; ++i) {
      read_row(keys, head * latent.nope_dim + i, row_of(out, shape, head, i) + latent.rope_dim);
    }
    for (int i = 0; i < latent.rope_dim; ++i) row_of(out, shape, head, latent.nope_dim + i)[i] = 1.0F;
  }
  return out;
}

std::vector<float> expanding(const AttentionSpec& attention, const HostWeight& values) {
  const LatentSpec& latent = attention.latent;
  const PerHeadLinear shape = expand_linear(attention, nullptr);
  std::vector<float> out = zeros(shape);
  std::vector<float> row(static_cast<size_t>(latent.kv_rank));
  for (int head = 0; head < attention.heads; ++head) {
    for (int v = 0; v < latent.v_dim; ++v) {
      read_row(values, head * latent.v_dim + v, row.data());
      for (int r = 0; r < latent.kv_rank; ++r) row_of(out, shape, head, r)[v] = row[static_cast<size_t>(r)];
    }
  }
  return out;
}

}  // namespace kvasir
