// Directions for shorter rows of a model, not calibrated: at full rank they change nothing but the rounding.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "model/config.h"
#include "model/kv_basis.h"
#include "support/random_data.h"

namespace kvasir::testing {

// Orthonormal columns: noise, each column less what it has of those before it.
inline std::vector<double> orthonormal(int dim, std::uint64_t seed) {
  const auto n = static_cast<size_t>(dim);
  std::vector<double> out(n * n);
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<double>(noise(seed, i));
  for (size_t column = 0; column < n; ++column) {
    for (size_t before = 0; before < column; ++before) {
      double dot = 0;
      for (size_t i = 0; i < n; ++i) dot += out[i * n + column] * out[i * n + before];
      for (size_t i = 0; i < n; ++i) out[i * n + column] -= dot * out[i * n + before];
    }
    double squares = 0;
    for (size_t i = 0; i < n; ++i) squares += out[i * n + column] * out[i * n + column];
    for (size_t i = 0; i < n; ++i) out[i * n + column] /= std::sqrt(squares);
  }
  return out;
}

// Whether shorter rows can be made for it.
inline bool has_uniform_heads(const ModelSpec& config) {
  const KvShape& first = config.attention(0).kv;
  const auto like_first = [&first](const LayerSpec& layer) { return layer.attention.kv == first; };
  return first.has_v() && std::ranges::all_of(config.layers, like_first);
}

inline KvBasis some_basis(const ModelSpec& config, std::uint64_t seed = 1) {
  KvBasis basis;
  basis.kv_heads = config.uniform_attention().kv.heads;
  basis.dim = config.uniform_attention().kv.k_dim;
  for (int layer = 0; layer < config.layer_count(); ++layer) {
    KvBasis::Layer& to = basis.layers.emplace_back();
    for (int head = 0; head < config.uniform_attention().kv.heads; ++head, ++seed) {
      const std::vector<double> keys = orthonormal(basis.dim, 2 * seed);
      for (size_t i = 0; i < keys.size(); ++i) {
        const double size = 0.5 + 0.1 * static_cast<double>(i % static_cast<size_t>(basis.dim));
        to.keys.push_back(static_cast<float>(keys[i] * size));
        to.queries.push_back(static_cast<float>(keys[i] / size));
      }
      for (const double value : orthonormal(basis.dim, 2 * seed + 1)) to.values.push_back(static_cast<float>(value));
      std::vector<std::int32_t> order(static_cast<size_t>(basis.dim));
      std::iota(order.begin(), order.end(), 0);
      std::ranges::sort(order, {}, [seed](std::int32_t i) { return mix(seed, static_cast<std::uint64_t>(i), 9); });
      to.channels.insert(to.channels.end(), order.begin(), order.end());
    }
  }
  basis.name.bytes[0] = static_cast<std::uint8_t>(seed);
  return basis;
}

inline KvBasis identity_basis(const ModelSpec& config) {
  KvBasis basis = some_basis(config);
  const auto dim = static_cast<size_t>(basis.dim);
  for (KvBasis::Layer& layer : basis.layers) {
    for (std::vector<float>* squares : {&layer.keys, &layer.queries, &layer.values}) {
      for (size_t i = 0; i < squares->size(); ++i) (*squares)[i] = i / dim % dim == i % dim ? 1.0F : 0.0F;
    }
  }
  return basis;
}

}  // namespace kvasir::testing
