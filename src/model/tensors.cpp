#include "model/tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "model/draft_head.h"
#include "model/families/family.h"
#include "model/gguf/gguf_states.h"
#include "model/layer_tensors.h"

namespace kvasir {
namespace {

std::string without_suffix(std::string_view name) {
  constexpr std::string_view kSuffix = ".weight";
  return std::string(name.ends_with(kSuffix) ? name.substr(0, name.size() - kSuffix.size()) : name);
}

void add_experts(LayerTensors& to, const MlpSpec& mlp, int hidden, const ExpertNames& names) {
  using enum TensorRole;
  const int count = mlp.moe.experts;
  const int latent = mlp.moe.latent;
  const int read = latent > 0 ? latent : hidden;  // by an expert
  to.expert(names.router, "ffn_gate_inp.weight", {.rows = count, .cols = hidden, .role = kRouter});
  if (mlp.moe.router_bias) {
    to.expert(names.router_bias, "ffn_gate_inp.bias", {.rows = count, .role = kRouter, .bias = true});
  }
  if (mlp.moe.shared_gate) {
    to.expert(names.shared_share, "ffn_gate_inp_shexp.weight", {.rows = hidden, .role = kSharedGate});
  }
  if (mlp.moe.choice_bias) to.expert(names.choice, "exp_probs_b.bias", {.rows = count, .role = kRouterChoice});
  if (latent > 0) {
    to.expert(names.latent_in, "ffn_latent_down.weight", {.rows = latent, .cols = hidden, .role = kExpertIn});
    to.expert(names.latent_out, "ffn_latent_up.weight", {.rows = hidden, .cols = latent, .role = kExpertOut});
  }
  struct Part {
    std::string_view name;
    const char* gguf;
    int rows;
    int cols;
    TensorRole role;
  };
  for (const Part& part : {Part{names.gate, "ffn_gate_exps", mlp.width, read, kGate},
                           Part{names.up, "ffn_up_exps", mlp.width, read, kUp},
                           Part{names.down, "ffn_down_exps", read, mlp.width, kDown}}) {
    if (part.role == kGate && mlp.kind == MlpSpec::Kind::kPlain) continue;
    for (int i = 0; i < count; ++i) {
      TensorSpec one{.rows = part.rows, .cols = part.cols, .role = part.role, .expert = i, .experts = count};
      to.expert(part.name, fmt::format("{}.weight", part.gguf), one);
    }
    for (int i = 0; mlp.bias && i < count; ++i) {
      TensorSpec one{.rows = part.rows, .role = part.role, .bias = true, .expert = i, .experts = count};
      to.expert(without_suffix(part.name) + ".bias", fmt::format("{}.bias", part.gguf), one);
    }
  }
}

void add_mlp(LayerTensors& to, const MlpSpec& mlp, int hidden, const ExpertNames& experts, const LayerNames& names) {
  using enum TensorRole;
  const bool routed = mlp.moe.experts > 0;
  if (routed) add_experts(to, mlp, hidden, experts);
  const int width = mlp.dense_width();
  if (width == 0) return;
  const bool biased = mlp.bias && !routed;
  if (mlp.kind == MlpSpec::Kind::kGated) {
    to.linear(routed ? experts.shared_gate : names.gate, {.rows = width, .cols = hidden, .role = kGate}, biased);
  }
  to.linear(routed ? experts.shared_up : names.up, {.rows = width, .cols = hidden, .role = kUp}, biased);
  to.linear(routed ? experts.shared_down : names.down, {.rows = hidden, .cols = width, .role = kDown}, biased);
}

// What heads make of the latent lies by head in Hugging Face's file, the keys before the values. In GGUF the two are
// apart, those of keys turned around, but in files from before llama.cpp cached latents.
void add_latent_up(LayerTensors& to, const AttentionSpec& a) {
  const LatentSpec& latent = a.latent;
  const std::int64_t of_head = latent.nope_dim + latent.v_dim;
  const auto add = [&](std::int64_t first, std::int64_t block, const char* part, TensorSpec like) {
    like.rows = a.heads * block;
    like.cols = latent.kv_rank;
    like.hf.slice = {a.heads * of_head, first, block, of_head};
    like.gguf_at.parts = a.heads;
    to.latent_up(part, std::move(like));
  };
  TensorSpec keys{.role = TensorRole::kLatentKeys};
  keys.gguf_at.axes = FilePlace::Axes::kTransposed;
  add(0, latent.nope_dim, "attn_k_b", std::move(keys));
  add(latent.nope_dim, latent.v_dim, "attn_v_b", {.role = TensorRole::kLatentValues});
}

void add_latent_attention(LayerTensors& to, const AttentionSpec& a, int hidden, const LayerNames& names) {
  using enum TensorRole;
  const LatentSpec& latent = a.latent;
  const auto add = [&to](std::string_view name, std::string_view gguf, const TensorSpec& like) {
    to.expert(std::string(name) + ".weight", std::string(gguf) + ".weight", like);
  };
  const bool neighbours = latent.pairs == LatentSpec::Pairs::kNeighbours;
  const GgufRows hf_rows = neighbours ? GgufRows::kInterleaved : GgufRows::kAsStored;
  TensorSpec queries{.rows = a.heads * latent.q_dim(), .role = kQB, .gguf_rows = GgufRows::kInterleaved};
  queries.hf_rows = hf_rows;
  queries.head_dim = latent.q_dim();
  queries.rotated_dim = latent.rope_dim;
  queries.rotated_first = latent.nope_dim;
  queries.cols = latent.q_rank > 0 ? latent.q_rank : hidden;
  if (latent.q_rank > 0) {
    to.linear({"self_attn.q_a_proj", "attn_q_a"}, {.rows = latent.q_rank, .cols = hidden, .role = kQA}, latent.bias);
    to.norm({"self_attn.q_a_layernorm", "attn_q_a_norm"}, latent.q_rank, kQANorm);
    add("self_attn.q_b_proj", "attn_q_b", queries);
  } else {
    add("self_attn.q_proj", "attn_q", queries);
  }
  // The latent and what is rotated of a key lie in one tensor, in this order.
  const std::int64_t rows = latent.kv_rank + latent.rope_dim;
  TensorSpec compressed{.rows = latent.kv_rank, .cols = hidden, .role = kLatent};
  compressed.gguf_at.slice = compressed.hf.slice = {rows, 0, latent.kv_rank, latent.kv_rank};
  TensorSpec rotated{.rows = latent.rope_dim, .cols = hidden, .role = kLatentRope, .head_dim = latent.rope_dim};
  rotated.gguf_at.slice = rotated.hf.slice = {rows, latent.kv_rank, latent.rope_dim, latent.rope_dim};
  rotated.gguf_rows = GgufRows::kInterleaved;
  rotated.hf_rows = hf_rows;
  to.latent(compressed, "latent", latent.bias);
  to.latent(rotated, "rope", latent.bias);
  to.norm({"self_attn.kv_a_layernorm", "attn_kv_a_norm"}, latent.kv_rank, kLatentNorm);
  add_latent_up(to, a);
  to.linear(names.out, {.rows = hidden, .cols = a.heads * latent.v_dim, .role = kO}, a.out_bias);
}

// Of queries and keys. `name` is that of the norm of all heads, or what stands before a head's number.
void add_head_norm(LayerTensors& to, const AttentionSpec& a, const TensorName& name, TensorSpec like) {
  const int heads = like.role == TensorRole::kQNorm ? a.heads : a.kv.heads;
  like.rows = a.qk_norm == AttentionSpec::QkNorm::kWhole ? heads * a.kv.k_dim : a.kv.k_dim;
  if (a.qk_norm != AttentionSpec::QkNorm::kEachHead) {
    return to.norm(name, like.row_count(), like.role, a.qk_norm_bias);
  }
  like.experts = heads;
  for (like.expert = 0; like.expert < heads; ++like.expert) {
    to.expert(std::string(name.name) + ".{}.weight", std::string(name.gguf) + ".weight", like);
  }
}

void add_attention(LayerTensors& to, const ModelSpec& spec, const LayerSpec& one, const LayerNames& names) {
  using enum TensorRole;
  const AttentionSpec& a = one.attention;
  const int hidden = spec.hidden;
  const int read = one.reads_embedding ? 2 * hidden : hidden;
  if (!a.latent.none()) return add_latent_attention(to, a, hidden, names);
  const RopeSpec* rope = a.rope == kNoRope ? nullptr : &spec.ropes[static_cast<size_t>(a.rope)];
  const bool whole = rope == nullptr || rope->scaling == RopeSpec::Scaling::kProportional;
  const int rotated_dim = whole ? 0 : rope->rotated_dim(a.kv.k_dim);
  const auto shaped = [&](int rows, int cols, TensorRole role) {
    return TensorSpec{.rows = rows, .cols = cols, .role = role, .head_dim = a.kv.k_dim, .rotated_dim = rotated_dim};
  };
  if (a.out_gate) {  // beside each head's queries
    for (const auto& [part, role, first] : {std::tuple("q", kQ, 0), std::tuple("gate", kOutGate, a.kv.k_dim)}) {
      TensorSpec like = shaped(a.q_width(), read, role);
      like.hf.slice = {std::int64_t{2} * a.q_width(), first, a.kv.k_dim, std::int64_t{2} * a.kv.k_dim};
      to.part(names.q.name, part, like);
    }
  } else {
    to.linear(names.q, shaped(a.q_width(), read, kQ), a.qkv_bias);
  }
  if (a.owns_kv()) to.linear(names.k, shaped(a.kv.heads * a.kv.k_dim, read, kK), a.qkv_bias);
  if (a.projects_v() || a.of_source) to.linear(names.v, shaped(a.kv.heads * a.kv.v_dim, read, kV), a.qkv_bias);
  to.linear(names.out, shaped(hidden, a.out_width(), kO), a.out_bias);
  if (a.qk_norm != AttentionSpec::QkNorm::kNone && a.qk_norm_weights) {
    add_head_norm(to, a, names.q_norm, shaped(0, 0, kQNorm));
    if (a.owns_kv()) add_head_norm(to, a, names.k_norm, shaped(0, 0, kKNorm));
  }
  if (a.sink_logits) to.sinks(a.heads);
  if (a.bias.kind == PositionBiasSpec::Kind::kBuckets) {
    to.linear(names.relative_bias, shaped(a.bias.buckets, a.heads, kRelativeBias), false);
  }
}

void add_ends(const ModelSpec& spec, const LayerNames& names, std::vector<TensorSpec>& out) {
  using enum TensorRole;
  if (spec.final_norm && spec.norm_weights) {
    const std::string name(names.final_norm);
    out.push_back({name + ".weight", "output_norm.weight", spec.hidden, 0, kFinalNorm});
    if (spec.norm_bias) {
      out.push_back({.name = name + ".bias",
                     .gguf = "output_norm.bias",
                     .rows = spec.hidden,
                     .role = kFinalNorm,
                     .bias = true});
    }
  }
  if (!spec.tied_embeddings) {
    out.push_back({std::string(names.head), "output.weight", spec.vocab, spec.table_width(), kHead});
  }
  if (spec.head_bias) {
    out.push_back({.name = without_suffix(names.head) + ".bias",
                   .gguf = "output.bias",
                   .rows = spec.vocab,
                   .role = kHead,
                   .bias = true});
  }
}

}  // namespace

FilePlace TensorSpec::gguf_place() const {
  FilePlace out = gguf_at;
  out.name = gguf;
  out.all_experts = expert >= 0;
  return out;
}

int TensorSpec::gguf_cols() const {
  if (gguf_at.axes == FilePlace::Axes::kRowMajor) return cols;
  return row_count() / std::max(gguf_at.parts, 1);
}

std::vector<TensorSpec> own_tensors(const ModelSpec& spec) {
  std::vector<TensorSpec> out = spec.family->tensors(spec);
  if (!spec.draft.none()) name_draft_tensors(spec, out);
  return out;
}

std::vector<TensorSpec> tensors_of(const ModelSpec& spec) {
  std::vector<TensorSpec> out = own_tensors(spec);
  for (const ModelSpec& encoder : spec.encoder) {
    const size_t own = out.size();
    for (TensorSpec& tensor : own_tensors(encoder)) {
      const auto end = out.begin() + static_cast<std::ptrdiff_t>(own);
      const auto same =
          std::find_if(out.begin(), end, [&](const TensorSpec& one) { return one.name == tensor.name; });
      if (same == end) out.push_back(std::move(tensor));
    }
  }
  add_rerank_tensors(spec, out);
  name_state_tensors(spec, out);
  return out;
}

std::vector<TensorSpec> decoder_tensors(const ModelSpec& spec, GgufRows rotated, const ExpertNames& experts,
                                        const LayerNames& names) {
  using enum TensorRole;
  const int hidden = spec.hidden;
  std::vector<TensorSpec> out;
  out.push_back({std::string(names.embedding), "token_embd.weight", spec.vocab, spec.table_width(), kEmbedding});
  if (spec.positions > 0) {
    TensorSpec table{std::string(names.positions), "position_embd.weight", spec.positions, hidden, kPositions};
    const std::int64_t skipped = spec.first_position;  // rows of no text, which GGUF leaves out
    if (skipped > 0) table.hf.slice = {skipped + spec.positions, skipped, spec.positions, spec.positions};
    out.push_back(std::move(table));
  }
  for (int layer = 0; layer < spec.layer_count(); ++layer) {
    const LayerSpec& one = spec.layers[static_cast<size_t>(layer)];
    LayerTensors to(out, layer, rotated, names);
    const bool norms = spec.norm_weights;
    if (norms && one.reads_norm()) to.norm(names.attention_norm, hidden, kAttentionNorm, spec.norm_bias);
    if (!one.attention.none()) add_attention(to, spec, one, names);
    if (!one.recurrent.none()) add_recurrent(to, one.recurrent, hidden, names);
    if (norms && one.norms_branches()) to.norm(names.attention_post_norm, hidden, kAttentionPostNorm, spec.norm_bias);
    if (norms && one.has_mlp_norm()) to.norm(names.mlp_norm, hidden, kMlpNorm, spec.norm_bias);
    if (norms && one.norms_branches() && one.feeds())
      to.norm(names.mlp_post_norm, hidden, kMlpPostNorm, spec.norm_bias);
    if (one.feeds()) add_mlp(to, one.mlp, hidden, experts, names);
  }
  add_ends(spec, names, out);
  may_be_together(out, std::array{kQ, kK, kV}, "attn_qkv", JointRows::Of::kAll);
  may_be_together(out, std::array{kGate, kUp}, "ffn_gate_up_exps", JointRows::Of::kExperts);
  return out;
}

}  // namespace kvasir
