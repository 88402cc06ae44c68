// Models of random weights whose attention is more than a scale and a window, named by who has such layers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/known_models.h"
#include "model/random_model.h"

namespace kvasir::testing {

inline constexpr std::string_view kRuleModels[]{"gemma2", "sink_logits", "chunked", "bloom",  "t5",
                                                "falcon", "latent",      "wide",    "learned"};

// `spans`: the windows of its layers, or, of Llama 4, their chunks; 0: a layer sees all before it.
inline ModelSpec rule_model(std::string_view name, const std::vector<std::int64_t>& spans = {}) {
  const std::string rest = ",vocab=101,context=512,dtype=f32";
  std::string heads = "heads=4,kv_heads=2,head_dim=16";
  if (name == "falcon") heads = "heads=40,kv_heads=1,head_dim=8";
  if (name == "wide") heads = "heads=2,kv_heads=1,head_dim=272";
  if (name == "latent") heads = "heads=34,kv_heads=1,head_dim=24";
  ModelSpec spec = parse_shape("layers=2,hidden=64,ffn=64," + heads + rest + (name == "learned" ? ",arch=gpt2" : ""));
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    AttentionSpec& a = spec.layers[i].attention;
    const std::int64_t span = i < spans.size() ? spans[i] : 0;
    (name == "chunked" ? a.chunk : a.window) = span;
    if (name == "gemma2") a.softcap = 1.5F;
    if (name == "sink_logits") a.sink_logits = true;
    if (name == "chunked" && span == 0) a.rope = kNoRope;
    if (name == "bloom") a.bias.kind = PositionBiasSpec::Kind::kAlibi, a.rope = kNoRope;
    if (name == "t5") {
      a.bias = {PositionBiasSpec::Kind::kBuckets, 8, 40, PositionBiasSpec::Reach::kBefore};
      a.rope = kNoRope;
      a.scale = 1.0F;
    }
    if (name == "latent") {
      a.kv = {1, 24, 16, {}, {}, 8};
      a.softcap = 2.0F;
      a.sink_logits = true;
    }
  }
  return spec;
}

}  // namespace kvasir::testing
