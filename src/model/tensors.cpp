#include "model/tensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/families/family.h"

namespace kvasir {
namespace {

// Writes a layer's part of the list.
class LayerTensors {
 public:
  LayerTensors(std::vector<TensorSpec>& out, int layer, GgufRows rotated)
      : out_(out), layer_(layer), rotated_(rotated) {}

  void norm(const TensorName& name, int size, TensorRole role, bool biased = false) {
    add(name.name, name.gguf, "weight", {.rows = size, .role = role});
    if (biased) add(name.name, name.gguf, "bias", {.rows = size, .role = role, .bias = true});
  }
  void expert(std::string_view name, std::string_view gguf, TensorSpec like) {
    like.name = fmt::format("model.layers.{}.{}", layer_, fmt::format(fmt::runtime(name), like.expert));
    like.gguf = fmt::format("blk.{}.{}", layer_, gguf);
    like.layer = layer_;
    out_.push_back(std::move(like));
  }
  void sinks(int heads) {  // whose name has no suffix
    add("self_attn.sinks", "attn_sinks", "weight", {.rows = heads, .role = TensorRole::kSinks});
    out_.back().name = fmt::format("model.layers.{}.self_attn.sinks", layer_);
  }
  void linear(std::string_view name, std::string_view gguf, TensorSpec like, bool biased) {
    if (like.role != TensorRole::kQ && like.role != TensorRole::kK) {
      like.gguf_rows = GgufRows::kAsStored;
    } else {
      like.gguf_rows = rotated_;
    }
    add(name, gguf, "weight", like);
    if (!biased) return;
    like.cols = 0;
    like.bias = true;
    add(name, gguf, "bias", like);
  }

 private:
  void add(std::string_view name, std::string_view gguf, std::string_view suffix, TensorSpec like) {
    like.name = fmt::format("model.layers.{}.{}.{}", layer_, name, suffix);
    like.gguf = fmt::format("blk.{}.{}.{}", layer_, gguf, suffix);
    like.layer = layer_;
    out_.push_back(std::move(like));
  }

  std::vector<TensorSpec>& out_;
  int layer_;
  GgufRows rotated_;
};

void add_experts(LayerTensors& to, const MlpSpec& mlp, int hidden, const ExpertNames& names) {
  using enum TensorRole;
  const int count = mlp.moe.experts;
  to.expert(names.router, "ffn_gate_inp.weight", {.rows = count, .cols = hidden, .role = kRouter});
  if (mlp.moe.choice_bias) to.expert(names.choice, "exp_probs_b.bias", {.rows = count, .role = kRouterChoice});
  for (int i = 0; i < count; ++i) {
    const auto shaped = [&](int rows, int cols, TensorRole role) {
      return TensorSpec{.rows = rows, .cols = cols, .role = role, .expert = i, .experts = count};
    };
    to.expert(names.gate, "ffn_gate_exps.weight", shaped(mlp.width, hidden, kGate));
    to.expert(names.up, "ffn_up_exps.weight", shaped(mlp.width, hidden, kUp));
    to.expert(names.down, "ffn_down_exps.weight", shaped(hidden, mlp.width, kDown));
  }
}

}  // namespace

std::vector<TensorSpec> tensors_of(const ModelSpec& spec) { return spec.family->tensors(spec); }

std::vector<TensorSpec> decoder_tensors(const ModelSpec& spec, GgufRows rotated, const ExpertNames& experts,
                                        const LayerNames& names) {
  using enum TensorRole;
  const int hidden = spec.hidden;
  std::vector<TensorSpec> out;
  out.push_back({"model.embed_tokens.weight", "token_embd.weight", spec.vocab, hidden, kEmbedding});
  for (int layer = 0; layer < spec.layer_count(); ++layer) {
    const AttentionSpec& a = spec.attention(layer);
    const MlpSpec& mlp = spec.layers[static_cast<size_t>(layer)].mlp;
    LayerTensors to(out, layer, rotated);
    const auto shaped = [&a](int rows, int cols, TensorRole role) {
      return TensorSpec{.rows = rows, .cols = cols, .role = role, .head_dim = a.kv.k_dim};
    };
    const NormPlacement norms = spec.layers[static_cast<size_t>(layer)].norms;
    const bool posts = norms == NormPlacement::kSandwich || norms == NormPlacement::kPost;
    if (norms != NormPlacement::kPost) to.norm(names.attention_norm, hidden, kAttentionNorm, spec.norm_bias);
    to.linear("self_attn.q_proj", "attn_q", shaped(a.q_width(), hidden, kQ), a.qkv_bias);
    to.linear("self_attn.k_proj", "attn_k", shaped(a.k_width(), hidden, kK), a.qkv_bias);
    if (a.kv.has_v()) to.linear("self_attn.v_proj", "attn_v", shaped(a.v_width(), hidden, kV), a.qkv_bias);
    to.linear("self_attn.o_proj", "attn_output", shaped(hidden, a.out_width(), kO), a.out_bias);
    if (a.qk_norm != AttentionSpec::QkNorm::kNone) {
      const bool per_head = a.qk_norm == AttentionSpec::QkNorm::kPerHead;
      to.norm({"self_attn.q_norm", "attn_q_norm"}, per_head ? a.kv.k_dim : a.q_width(), kQNorm);
      to.norm({"self_attn.k_norm", "attn_k_norm"}, per_head ? a.kv.k_dim : a.k_width(), kKNorm);
    }
    if (a.sink_logits) to.sinks(a.heads);
    if (a.bias.kind == PositionBiasSpec::Kind::kBuckets) {
      to.linear("self_attn.relative_attention_bias", "attn_rel_b", shaped(a.bias.buckets, a.heads, kRelativeBias),
                false);
    }
    if (posts) to.norm(names.attention_post_norm, hidden, kAttentionPostNorm, spec.norm_bias);
    const bool own_mlp_norm = norms == NormPlacement::kPre || norms == NormPlacement::kSandwich;
    if (own_mlp_norm) to.norm(names.mlp_norm, hidden, kMlpNorm, spec.norm_bias);
    if (posts) to.norm(names.mlp_post_norm, hidden, kMlpPostNorm, spec.norm_bias);
    if (mlp.moe.experts > 0) {
      add_experts(to, mlp, hidden, experts);
      continue;
    }
    if (mlp.kind == MlpSpec::Kind::kGated) {
      to.linear("mlp.gate_proj", "ffn_gate", shaped(mlp.width, hidden, kGate), mlp.bias);
    }
    to.linear(names.up.name, names.up.gguf, shaped(mlp.width, hidden, kUp), mlp.bias);
    to.linear(names.down.name, names.down.gguf, shaped(hidden, mlp.width, kDown), mlp.bias);
  }
  out.push_back({"model.norm.weight", "output_norm.weight", hidden, 0, kFinalNorm});
  if (spec.norm_bias) {
    out.push_back(
        {.name = "model.norm.bias", .gguf = "output_norm.bias", .rows = hidden, .role = kFinalNorm, .bias = true});
  }
  if (!spec.tied_embeddings) out.push_back({"lm_head.weight", "output.weight", spec.vocab, hidden, kHead});
  return out;
}

}  // namespace kvasir
