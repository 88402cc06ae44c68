// OLMoE: norms of all heads' queries and keys together, and experts in all layers whose weights need not sum to 1.
#include "base/error.h"
#include "model/families/family.h"

namespace kvasir {
namespace {

void read_olmoe(const JsonReader& in, DecoderConfig& config) {
  require_silu(in);
  config.attention_bias = in.flag_or("attention_bias", false);
  if (const auto clip = in.find("clip_qkv")) clip->fail("is a number, and q, k and v are never clipped here");
  read_experts(in, "num_experts", "num_experts_per_tok", config);
  config.moe.normalized = in.flag_or("norm_topk_prob", false);
}

ModelSpec olmoe_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  for (LayerSpec& layer : spec.layers) layer.attention.qk_norm = AttentionSpec::QkNorm::kWhole;
  return spec;
}

std::vector<TensorSpec> olmoe_tensors(const ModelSpec& spec) { return decoder_tensors(spec, GgufRows::kAsStored); }

}  // namespace

extern constexpr Family kOlmoeFamily{.name = "olmoe",
                                     .gguf = {.architecture = "olmoe", .moe = {.normalized = false}},
                                     .experts = true,
                                     .defaults = {.norm_eps = 1e-5},
                                     .read = read_olmoe,
                                     .spec = olmoe_spec,
                                     .tensors = olmoe_tensors};

}  // namespace kvasir
