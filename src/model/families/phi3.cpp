// Phi-3: Llama's layers, q, k and v in one tensor and gate and up in another. It is planned, and not run: the loader
// does not cut tensors.
#include <fmt/format.h>

#include "model/families/family.h"

namespace kvasir {
namespace {

void read_phi3(const JsonReader& in, DecoderConfig& config) {
  require_silu(in);
  read_windows(in, 0, {}, config);
}

std::vector<TensorSpec> phi3_tensors(const ModelSpec& spec) {
  std::vector<TensorSpec> out{{"model.embed_tokens.weight", "", spec.vocab, spec.hidden}};
  for (int i = 0; i < spec.layer_count(); ++i) {
    const AttentionSpec& a = spec.attention(i);
    const int ffn = spec.layers[static_cast<size_t>(i)].mlp.width;
    const auto add = [&](std::string_view name, int rows, int cols) {
      out.push_back(
          {.name = fmt::format("model.layers.{}.{}.weight", i, name), .rows = rows, .cols = cols, .layer = i});
    };
    add("input_layernorm", spec.hidden, 0);
    add("self_attn.qkv_proj", a.q_width() + a.k_width() + a.v_width(), spec.hidden);
    add("self_attn.o_proj", spec.hidden, a.out_width());
    add("post_attention_layernorm", spec.hidden, 0);
    add("mlp.gate_up_proj", 2 * ffn, spec.hidden);
    add("mlp.down_proj", spec.hidden, ffn);
  }
  out.push_back({"model.norm.weight", "", spec.hidden});
  if (!spec.tied_embeddings) out.push_back({"lm_head.weight", "", spec.vocab, spec.hidden});
  return out;
}

}  // namespace

extern constexpr Family kPhi3Family{.name = "phi3",
                                    .not_yet = "the loader does not cut tensors that hold several matrices",
                                    .defaults = {.norm_eps = 1e-5},
                                    .read = read_phi3,
                                    .spec = plain_decoder,
                                    .tensors = phi3_tensors};

}  // namespace kvasir
