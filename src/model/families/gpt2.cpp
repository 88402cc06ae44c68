// GPT-2: learned positions, layer norms, an MLP without gates. It is planned, and not run: none of these is in the
// decoder.
#include <fmt/format.h>

#include "model/families/family.h"

namespace kvasir {
namespace {

ModelSpec gpt2_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  spec.ropes.clear();
  for (LayerSpec& layer : spec.layers) {
    layer.attention.rope = kNoRope;
    layer.attention.qkv_bias = true;
    layer.attention.out_bias = true;
    layer.mlp.bias = true;
  }
  return spec;
}

// Matrices lie transposed in its files, as Conv1D has them: [inputs][outputs].
std::vector<TensorSpec> gpt2_tensors(const ModelSpec& spec) {
  const int hidden = spec.hidden;
  std::vector<TensorSpec> out{{"wte.weight", "", spec.vocab, hidden},
                              {"wpe.weight", "", spec.context, hidden}};
  for (int i = 0; i < spec.layer_count(); ++i) {
    const int ffn = spec.layers[static_cast<size_t>(i)].mlp.width;
    const auto norm = [&](std::string_view name) {
      for (const char* part : {"weight", "bias"}) {
        out.push_back({.name = fmt::format("h.{}.{}.{}", i, name, part), .rows = hidden, .layer = i});
      }
    };
    const auto linear = [&](std::string_view name, int inputs, int outputs) {
      out.push_back({.name = fmt::format("h.{}.{}.weight", i, name), .rows = inputs, .cols = outputs, .layer = i});
      out.push_back({.name = fmt::format("h.{}.{}.bias", i, name), .rows = outputs, .layer = i});
    };
    norm("ln_1");
    linear("attn.c_attn", hidden, 3 * hidden);
    linear("attn.c_proj", hidden, hidden);
    norm("ln_2");
    linear("mlp.c_fc", hidden, ffn);
    linear("mlp.c_proj", ffn, hidden);
  }
  for (const char* part : {"weight", "bias"}) out.push_back({.name = fmt::format("ln_f.{}", part), .rows = hidden});
  if (!spec.tied_embeddings) out.push_back({"lm_head.weight", "", spec.vocab, hidden});
  return out;
}

}  // namespace

extern constexpr Family kGpt2Family{.name = "gpt2",
                                    .not_yet = "the decoder has no learned positions and no MLP without gates",
                                    .keys = {.layers = "n_layer",
                                             .hidden = "n_embd",
                                             .ffn = "n_inner",
                                             .heads = "n_head",
                                             .kv_heads = "",
                                             .head_dim = "",
                                             .context = "n_positions",
                                             .norm_eps = "layer_norm_epsilon"},
                                    .defaults = {.tied = true, .norm_eps = 1e-5, .ffn_times_hidden = 4},
                                    .spec = gpt2_spec,
                                    .tensors = gpt2_tensors};

}  // namespace kvasir
