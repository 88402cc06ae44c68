#include "model/decoder_workspace.h"

#include <algorithm>

namespace kvasir {

Workspace::Workspace(const ModelSpec& spec, Backend& backend, int max_rows) {
  int qkv_width = 0;
  int out_width = 0;
  int ffn = 0;
  int experts = 0;
  int latent_width = 0;
  int q_rank = 0;
  int recurrent_width = 0;
  int expert_latent = 0;
  int source_width = 0;
  bool shared = false;
  for (const LayerSpec& one : spec.layers) {
    const AttentionSpec& a = one.attention;
    qkv_width = std::max(qkv_width, a.q_width() + a.k_width() + a.v_width() + a.gate_width());
    recurrent_width = std::max(recurrent_width, one.recurrent.row_width());
    out_width = std::max(out_width, a.out_width());
    source_width = std::max(source_width, a.source_width());
    latent_width = std::max(latent_width, a.heads * std::max(a.latent.q_dim(), a.latent.v_dim));
    q_rank = std::max(q_rank, a.latent.q_rank);
    ffn = std::max(ffn, one.mlp.dense_width());
    experts = std::max(experts, one.mlp.moe.experts);
    expert_latent = std::max(expert_latent, one.mlp.moe.latent);
    shared = shared || one.mlp.moe.shared_width > 0 || (!a.none() && !one.recurrent.none());
  }
  const auto rows_of_width = [&](int width) {
    return backend.allocate(sizeof(float) * static_cast<size_t>(max_rows) * static_cast<size_t>(width));
  };
  const int inputs = spec.layer_input * spec.layer_count();
  x = rows_of_width(spec.hidden);
  normed = rows_of_width(spec.hidden);
  qkv = rows_of_width(qkv_width);
  attn_out = rows_of_width(out_width);
  source_kv = rows_of_width(source_width);
  recurrent_in = rows_of_width(recurrent_width);
  latent_q = rows_of_width(q_rank);
  latent_heads = rows_of_width(latent_width);
  branch = rows_of_width(spec.hidden);
  beside = rows_of_width(shared ? spec.hidden : 0);
  gate_up = rows_of_width(2 * ffn);
  router_logits = rows_of_width(experts);
  expert_in = rows_of_width(expert_latent);
  expert_out = rows_of_width(expert_latent);
  embedded = rows_of_width(spec.embedding_width);
  layer_inputs = rows_of_width(inputs);
  layer_rows = rows_of_width(inputs);
  joined = rows_of_width(spec.draft.none() ? 0 : 2 * spec.hidden);
  last = rows_of_width(spec.hidden);
  logits = rows_of_width(spec.encodes() ? 0 : spec.vocab);
}

}  // namespace kvasir
