#include "tune/layer_mix.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "layout/codec.h"

namespace kvasir {

LayerMix uniform_mix(int layers, KvFormat k, KvFormat v) { return LayerMix(static_cast<size_t>(layers), {k, v}); }

// The commonest formats are the policy's own, of equals those met first; the others are written by layer.
KvPolicy policy_of(const LayerMix& mix, const KvPolicy& others) {
  CHECK(!mix.empty());
  std::map<std::array<KvFormat, 2>, int> counts;
  for (const auto& formats : mix) ++counts[formats];
  const auto commonest = *std::ranges::max_element(mix, {}, [&](const auto& formats) { return counts[formats]; });
  KvPolicy policy = others;
  policy.k_format = commonest[0];
  policy.v_format = commonest[1];
  std::vector<LayerFormats> layers;
  for (int layer = 0; layer < static_cast<int>(mix.size()); ++layer) {
    const auto& formats = mix[static_cast<size_t>(layer)];
    layers.push_back({layer, layer, formats[0], formats[1]});
  }
  set_layer_formats(policy, std::move(layers));
  return policy;
}

std::int64_t part_bytes(const ModelSpec& config, int part, KvFormat format) {
  const std::int64_t codes = part == 0 ? k_code_bytes(format, config.uniform_attention().kv.k_dim)
                                       : v_code_bytes(format, config.uniform_attention().kv.k_dim);
  return (codes + (has_scale(format) ? kScaleBytes : 0)) * config.uniform_attention().kv.heads;
}

namespace {

// K and V of every head of every layer.
double rows_of(const ModelSpec& config) { return 2.0 * config.layer_count() * config.uniform_attention().kv.heads; }

}  // namespace

double bytes_of_bits(const ModelSpec& config, double bits) {
  return rows_of(config) * (bits * config.uniform_attention().kv.k_dim / 8 + kScaleBytes);
}

double bits_of_bytes(const ModelSpec& config, double bytes) {
  return (bytes / rows_of(config) - kScaleBytes) * 8 / config.uniform_attention().kv.k_dim;
}

}  // namespace kvasir
