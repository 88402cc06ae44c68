#include "model/decoder_layers.h"

#include <utility>

#include "model/latent_weights.h"

namespace kvasir {
namespace {

// Whether the sum of a branch, the norm behind it and the product behind that can be one op.
bool fuses(const ModelSpec& spec, const LayerSpec& layer) {
  return layer.norms == NormPlacement::kPre && layer.branch_scale == 1.0F && spec.layer_input == 0 && !layer.scaled &&
         layer.attention_norm && !layer.reads_embedding && !layer.mlp.moe.own_norms;
}

}  // namespace

DecoderLayers::DecoderLayers(const ModelSpec& spec, const DecoderWeights& weights, const Workspace& space,
                             Backend& backend, CachedAttention& attention)
    : spec_(spec),
      weights_(weights),
      space_(space),
      backend_(backend),
      attention_(attention),
      recurrent_(spec, weights, space, backend) {}

void DecoderLayers::run(const LayerStep& step) {
  pending_ = false;
  for (int i = 0; i < spec_.layer_count(); ++i) {
    tap_stream(i, step);
    if (fuses(spec_, layer_spec(i))) {
      run_fused(i, step);
    } else {
      add_pending(step.rows());
      run_apart(i, step);
    }
  }
  add_pending(step.rows());
  tap_stream(spec_.layer_count(), step);
}

// For who wants the stream before this layer. It is whole then: what was pending is added alone, with the same bits.
void DecoderLayers::tap_stream(int index, const LayerStep& step) {
  for (const Batch::Tap& tap : step.batch->taps) {
    if (tap.behind != index) continue;
    add_pending(step.rows());
    const Matrix x = rows_of(step.rows()).x;
    const size_t bytes = sizeof(float) * static_cast<size_t>(x.rows) * static_cast<size_t>(x.cols);
    backend_.run(CopyOp{reinterpret_cast<std::byte*>(tap.to.data), reinterpret_cast<std::byte*>(x.data), bytes});
  }
}

DecoderLayers::Rows DecoderLayers::rows_of(int rows) const {
  return {as_matrix(space_.x, rows, spec_.hidden), as_matrix(space_.branch, rows, spec_.hidden),
          as_matrix(space_.normed, rows, spec_.hidden)};
}

NormRule DecoderLayers::rule(const Buffer& norm) const { return weights_.rule(spec_, norm); }

NormRule DecoderLayers::head_rule(const Buffer& norm) const {
  return {norm.as<float>(), static_cast<float>(spec_.norm_eps)};
}

NormRule DecoderLayers::plain_rule() const { return head_rule(weights_.ones); }

void DecoderLayers::add_pending(int rows) {
  if (!std::exchange(pending_, false)) return;
  const Rows all = rows_of(rows);
  backend_.run(AddOp{all.x, all.y});
}

// A layer whose norms stand before its branches: x += attention(norm(x)); x += mlp(norm(x)); or one of the two.
void DecoderLayers::run_fused(int index, const LayerStep& step) {
  if (layer_spec(index).mixes()) {
    mix_fused(index, step);
    pending_ = true;
  }
  if (layer_spec(index).feeds()) {
    feed_fused(index, step.rows());
    pending_ = true;
  }
}

// branch = attention(norm(x + branch))
void DecoderLayers::mix_fused(int index, const LayerStep& step) {
  const LayerWeights& weights = layer(index);
  const Rows rows = rows_of(step.rows());
  if (!pending_) {
    backend_.run(NormOp{rows.x, rule(weights.attention_norm), rows.normed});
    mix(index, step, rows.normed);
  } else if (weights.qkv.size() == 1 && layer_spec(index).recurrent.none()) {
    const Matrix qkv = qkv_rows(index, step.rows());
    const NormedRows in{rows.x, rows.y, rule(weights.attention_norm), rows.normed};
    backend_.run(NormMatmulOp{in, weights.qkv.front().get(), weights.qkv_bias.as<float>(),
                              qkv.columns(0, spec_.attention(index).projected_width())});
    attend(index, step, qkv);
  } else {
    backend_.run(AddNormOp{rows.x, rows.y, rule(weights.attention_norm), rows.normed});
    mix(index, step, rows.normed);
  }
}

// Any other layer, op by op. x is whole before it and after it.
void DecoderLayers::run_apart(int index, const LayerStep& step) {
  const LayerWeights& weights = layer(index);
  const LayerSpec& spec = layer_spec(index);
  const Rows rows = rows_of(step.rows());
  Matrix fed = rows.normed;  // of a layer whose branches read the same x
  if (spec.mixes()) {
    mix(index, step, attention_input(index, rows));
    if (spec.norms == NormPlacement::kParallelApart) backend_.run(NormOp{rows.x, rule(weights.mlp_norm), fed});
    add_branch(spec, weights.attention_norm, weights.attention_post_norm, rows);
  }
  if (spec.feeds()) {
    const bool parallel = spec.norms == NormPlacement::kParallel || spec.norms == NormPlacement::kParallelApart;
    if (!parallel) fed = branch_input(spec, weights.mlp_norm, rows);
    feed(index, fed);
    add_branch(spec, weights.mlp_norm, weights.mlp_post_norm, rows);
  }
  if (spec_.layer_input > 0) add_layer_input(index, step.rows());
  if (spec.scaled) backend_.run(ScaleOp{rows.x, weights.scale});
}

Matrix DecoderLayers::attention_input(int index, const Rows& rows) {
  const LayerSpec& spec = layer_spec(index);
  if (spec.reads_embedding) return as_matrix(space_.joined, rows.x.rows, 2 * spec_.hidden);
  return spec.attention_norm ? branch_input(spec, layer(index).attention_norm, rows) : rows.x;
}

// What a branch reads: x with all branches before it, normalized or not.
Matrix DecoderLayers::branch_input(const LayerSpec& layer, const Buffer& norm, const Rows& rows) {
  if (layer.norms == NormPlacement::kPost || layer.norms == NormPlacement::kAfterSum) return rows.x;
  backend_.run(NormOp{rows.x, rule(norm), rows.normed});
  return rows.normed;
}

// x += what the branch made, as the layer takes it.
void DecoderLayers::add_branch(const LayerSpec& layer, const Buffer& norm, const Buffer& post_norm,
                               const Rows& rows) {
  if (layer.norms_branches()) backend_.run(NormOp{rows.y, rule(post_norm), rows.y});
  if (layer.branch_scale != 1.0F) backend_.run(ScaleOp{rows.y, layer.branch_scale});
  backend_.run(AddOp{rows.x, rows.y});
  if (layer.norms == NormPlacement::kAfterSum) backend_.run(NormOp{rows.x, rule(norm), rows.x});
}

void DecoderLayers::matmul(const Stack& stack, Matrix x, const float* bias, Matrix out) {
  int first = 0;
  for (const auto& weight : stack) {
    const float* own_bias = bias != nullptr ? bias + first : nullptr;
    backend_.run(MatmulOp{weight.get(), x, own_bias, out.columns(first, weight->outputs())});
    first += weight->outputs();
  }
}

// qkv = what queries, keys and values are before norms and RoPE. Of latent attention: queries as they meet a cached
// row, and that row.
void DecoderLayers::project(int index, const LayerStep& step, Matrix x, Matrix qkv) {
  const LayerWeights& weights = layer(index);
  const AttentionSpec& spec = spec_.attention(index);
  const LatentSpec& latent = spec.latent;
  if (latent.none()) {
    return matmul(weights.qkv, x, weights.qkv_bias.as<float>(), qkv.columns(0, spec.projected_width()));
  }
  const Matrix heads = as_matrix(space_.latent_heads, x.rows, spec.heads * latent.q_dim());
  Matrix from = x;
  if (weights.q_a) {
    from = as_matrix(space_.latent_q, x.rows, latent.q_rank);
    backend_.run(MatmulOp{weights.q_a.get(), x, weights.q_a_bias.as<float>(), from});
    backend_.run(NormOp{from, {weights.q_a_norm.as<float>(), static_cast<float>(latent.norm_eps)}, from});
  }
  backend_.run(MatmulOp{weights.q_b.get(), from, nullptr, heads});
  backend_.run(ProjectOp{heads, spec.heads, absorb_linear(spec, weights.absorb.as<float>()), step.all_rows,
                         qkv.columns(0, spec.q_width())});
  const Matrix cached = qkv.columns(spec.q_width(), spec.k_width());
  matmul(weights.latent, x, weights.latent_bias.as<float>(), cached);
  const Matrix compressed = cached.columns(latent.rope_dim, latent.kv_rank);
  const NormRule norm{weights.latent_norm.as<float>(), static_cast<float>(latent.norm_eps)};
  backend_.run(NormOp{compressed, norm, compressed});
}

Matrix DecoderLayers::qkv_rows(int index, int rows) const {
  const AttentionSpec& spec = spec_.attention(index);
  return as_matrix(space_.qkv, rows, spec.q_width() + spec.k_width() + spec.v_width() + spec.gate_width());
}

// branch = what attention makes of x, or a state, or both together
void DecoderLayers::mix(int index, const LayerStep& step, Matrix x) {
  const LayerSpec& spec = layer_spec(index);
  const Matrix y = rows_of(x.rows).y;
  const Matrix recurrent = spec.attention.none() ? y : as_matrix(space_.beside, x.rows, spec_.hidden);
  if (!spec.recurrent.none()) recurrent_.run(index, *step.batch, *step.storage, x, recurrent);
  if (spec.attention.none()) return;
  const Matrix qkv = qkv_rows(index, x.rows);
  project(index, step, x, qkv);
  attend(index, step, qkv);
  if (!spec.recurrent.none()) backend_.run(AddOp{y, recurrent});
}

// branch = out(attention(rope(qkv)))
void DecoderLayers::attend(int index, const LayerStep& step, Matrix qkv) {
  const LayerWeights& weights = layer(index);
  const AttentionSpec& spec = spec_.attention(index);
  if (spec.clip > 0) backend_.run(ScaleOp{qkv.columns(0, spec.projected_width()), 1.0F, 0.0F, spec.clip});
  LayerRows own = layer_rows(step, qkv, spec);
  own.rule = score_rule(spec, weights);
  if (spec.values == AttentionSpec::Values::kUnturnedKeys && spec.makes_kv()) {
    backend_.run(NormOp{own.k, plain_rule(), own.v, spec.kv.heads});
  } else if (spec.v_norm && spec.makes_kv()) {
    backend_.run(NormOp{own.v, plain_rule(), own.v, spec.kv.heads});
  }
  if (spec.qk_norm_stage == AttentionSpec::NormStage::kAfterRope && own.rope.pairs > 0) {
    const Matrix qk = qkv.columns(0, spec.q_width() + spec.k_width());
    backend_.run(RopeOp{qk, qk.cols / spec.kv.k_dim, own.rope});
    own.rope.pairs = 0;
  }
  normalize_heads(index, own);
  if (own.rope.query_scale != nullptr) backend_.run(QueryScaleOp{own.q, own.rope});
  Matrix attn_out = as_matrix(space_.attn_out, qkv.rows, spec.out_width());
  attention_.run(index, *step.batch, *step.storage, own, attn_out);
  if (spec.out_gate) {
    const int gate = spec.q_width() + spec.k_width() + spec.v_width();
    backend_.run(SigmoidGateOp{attn_out, qkv.columns(gate, spec.gate_width())});
  }
  if (!spec.latent.none()) {
    const Matrix values = as_matrix(space_.latent_heads, qkv.rows, spec.heads * spec.latent.v_dim);
    backend_.run(
        ProjectOp{attn_out, spec.heads, expand_linear(spec, weights.expand.as<float>()), step.all_rows, values});
    attn_out = values;
  }
  const Matrix y = rows_of(qkv.rows).y;
  backend_.run(MatmulOp{weights.out.get(), attn_out, weights.out_bias.as<float>(), y});
  if (spec.out_scale != 1.0F) backend_.run(ScaleOp{y, spec.out_scale});
}

void DecoderLayers::normalize_heads(int index, LayerRows& rows) {
  const LayerWeights& weights = layer(index);
  const AttentionSpec& spec = spec_.attention(index);
  if (spec.qk_norm == AttentionSpec::QkNorm::kNone) return;
  const bool whole = spec.qk_norm == AttentionSpec::QkNorm::kWhole;
  const bool own = spec.qk_norm == AttentionSpec::QkNorm::kEachHead;
  const auto normalize = [&](Matrix x, const Buffer& norm, int heads) {
    NormRule rule = spec.qk_norm_weights ? head_rule(norm) : plain_rule();
    rule.kind = spec.qk_norm_kind;
    if (spec.qk_norm_bias) rule.bias = rule.weight + spec.kv.k_dim;
    const auto weights_of = own ? NormOp::Weights::kOfEachPart : NormOp::Weights::kShared;
    backend_.run(NormOp{x, rule, x, whole ? 1 : heads, weights_of});
  };
  normalize(rows.q, weights.q_norm, spec.heads);
  if (spec.makes_kv()) normalize(rows.k, weights.k_norm, spec.kv.heads);
}

LayerRows DecoderLayers::layer_rows(const LayerStep& step, Matrix qkv, const AttentionSpec& spec) const {
  LayerRows rows{qkv.columns(0, spec.q_width()), qkv.columns(spec.q_width(), spec.k_width()),
                 qkv.columns(spec.q_width() + spec.k_width(), spec.v_width())};
  const bool looks_back = !step.at_sinks.empty();
  if (spec.rope != kNoRope) rows.rope = step.ropes[static_cast<size_t>(spec.rope)];
  if (looks_back) rows.sinks = LayerRows::Sinks::kLookBack;
  if (looks_back && spec.rope != kNoRope) rows.at_sinks = step.at_sinks[static_cast<size_t>(spec.rope)];
  return rows;
}

ScoreRule DecoderLayers::score_rule(const AttentionSpec& spec, const LayerWeights& weights) {
  ScoreRule rule{spec.scale, spec.softcap, weights.sink_logits.as<float>(), {}, spec.mask};
  const auto* bias = weights.position_bias.as<float>();
  if (spec.bias.kind == PositionBiasSpec::Kind::kAlibi) rule.bias.slopes = bias;
  if (spec.bias.kind == PositionBiasSpec::Kind::kBuckets || spec.bias.kind == PositionBiasSpec::Kind::kNear) {
    rule.bias = {nullptr, bias, spec.bias.before(), spec.bias.after()};
  }
  return rule;
}

// branch = mlp(norm(x + branch))
void DecoderLayers::feed_fused(int index, int rows) {
  const LayerWeights& weights = layer(index);
  const MlpSpec& spec = layer_spec(index).mlp;
  const Rows all = rows_of(rows);
  const NormedRows in{all.x, all.y, rule(weights.mlp_norm), all.normed};
  if (!pending_) {
    backend_.run(NormOp{in.x, in.norm, in.normed});
    return feed(index, in.normed);
  }
  const bool scaled = spec.gate_scale != 1.0F || spec.out_scale != 1.0F;
  const bool swiglu = spec.kind == MlpSpec::Kind::kGated && spec.activation == Activation::kSilu && !scaled;
  if (spec.moe.experts > 0 || !swiglu || weights.gate_up.size() != 1) {
    backend_.run(AddNormOp{in.x, in.y, in.norm, in.normed});
    return feed(index, in.normed);
  }
  const GatedMlp mlp{weights.gate_up.front().get(), weights.gate_up_bias.as<float>(), weights.down.get(),
                     weights.down_bias.as<float>()};
  backend_.run(FeedForwardOp{in, mlp, as_matrix(space_.gate_up, rows, 2 * spec.width), all.y});
}

// branch = mlp(normed)
void DecoderLayers::feed(int index, Matrix normed) {
  const MlpSpec& spec = layer_spec(index).mlp;
  feed_in_parts(layer(index), spec, normed);
  if (spec.out_scale != 1.0F) backend_.run(ScaleOp{rows_of(normed.rows).y, spec.out_scale});
}

// Where norms of experts are their own, they read x.
void DecoderLayers::feed_in_parts(const LayerWeights& weights, const MlpSpec& spec, Matrix normed) {
  const Matrix y = rows_of(normed.rows).y;
  if (spec.moe.experts == 0) return feed_all(weights, spec, normed, y);
  if (spec.moe.own_norms) return feed_beside_experts(weights, spec, normed);
  feed_experts(weights, spec, normed, normed);
  if (spec.moe.shared_width == 0) return;
  const Matrix beside = as_matrix(space_.beside, normed.rows, spec_.hidden);
  feed_all(weights, spec, normed, beside);
  if (spec.moe.shared_gate) {
    const Matrix share = as_matrix(space_.router_logits, normed.rows, 1);  // which nobody needs any more
    backend_.run(MatmulOp{weights.shared_gate.get(), normed, nullptr, share});
    backend_.run(SigmoidGateOp{beside, share});
  }
  backend_.run(AddOp{y, beside});
}

// out = the MLP for all rows
void DecoderLayers::feed_all(const LayerWeights& weights, const MlpSpec& spec, Matrix x, Matrix out) {
  const bool gated = spec.kind == MlpSpec::Kind::kGated;
  const int width = spec.dense_width();
  const Matrix made = as_matrix(space_.gate_up, x.rows, (gated ? 2 : 1) * width);
  matmul(weights.gate_up, x, weights.gate_up_bias.as<float>(), made);
  const Matrix first = made.columns(0, width);
  const Matrix up = gated ? made.columns(width, width) : Matrix{};
  const float* bias = weights.down_bias.as<float>();
  if (spec.gate_scale != 1.0F) backend_.run(ScaleOp{first, spec.gate_scale});
  if (gated && spec.activation == Activation::kSilu) {
    return backend_.run(GatedMatmulOp{weights.down.get(), first, up, bias, out});
  }
  backend_.run(ActivationOp{spec.activation, first, up, first, spec.limit});
  backend_.run(MatmulOp{weights.down.get(), first, bias, out});
}

// branch = the sum of what each row's experts make of x; the router reads `routed`.
void DecoderLayers::feed_experts(const LayerWeights& weights, const MlpSpec& spec, Matrix routed, Matrix x) {
  const MoeSpec& moe = spec.moe;
  const Matrix router_logits = as_matrix(space_.router_logits, x.rows, moe.experts);
  backend_.run(MatmulOp{weights.router.get(), routed, weights.router_bias.as<float>(), router_logits});
  if (moe.own_norms) backend_.run(NormOp{rows_of(x.rows).x, rule(weights.expert_norm), x});
  const RouterRule rule{moe.score,
                        moe.used,
                        moe.normalized,
                        moe.scale,
                        weights.choice_bias.as<float>(),
                        moe.groups,
                        moe.used_groups,
                        moe.group_score,
                        weights.expert_scale.as<float>(),
                        moe.weighs};
  const Matrix y = rows_of(x.rows).y;
  ExpertsOp op{x, router_logits, rule, std::span<const ExpertWeights>(weights.experts), y};
  op.activation = spec.activation;
  op.limit = spec.limit;
  op.gate_up_bias = weights.expert_gate_up_bias.as<float>();
  op.down_bias = weights.expert_down_bias.as<float>();
  if (moe.latent == 0) return backend_.run(op);
  op.x = as_matrix(space_.expert_in, x.rows, moe.latent);
  op.out = as_matrix(space_.expert_out, x.rows, moe.latent);
  backend_.run(MatmulOp{weights.expert_in.get(), x, nullptr, op.x});
  backend_.run(op);
  backend_.run(MatmulOp{weights.expert_out.get(), op.out, nullptr, y});
}

// Gemma 4's: branch = norm(mlp(normed)) + norm(experts(norm(x))), chosen by a norm of x of their own.
void DecoderLayers::feed_beside_experts(const LayerWeights& weights, const MlpSpec& spec, Matrix normed) {
  const Rows rows = rows_of(normed.rows);
  const Matrix beside = as_matrix(space_.beside, normed.rows, spec_.hidden);
  feed_all(weights, spec, normed, beside);
  backend_.run(NormOp{beside, rule(weights.shared_post_norm), beside});
  backend_.run(NormOp{rows.x, rule(weights.router_scale), rows.normed});
  feed_experts(weights, spec, rows.normed, rows.normed);
  backend_.run(NormOp{rows.y, rule(weights.expert_post_norm), rows.y});
  backend_.run(AddOp{rows.y, beside});
}

// x += norm(out(activation(gate(x)) * what the layer is given of the token))
void DecoderLayers::add_layer_input(int index, int rows) {
  const LayerWeights& weights = layer(index);
  const Rows all = rows_of(rows);
  const int width = spec_.layer_input;
  const Matrix given =
      as_matrix(space_.layer_inputs, rows, width * spec_.layer_count()).columns(index * width, width);
  const Matrix gate = as_matrix(space_.layer_rows, rows, width);
  backend_.run(MatmulOp{weights.layer_gate.get(), all.x, nullptr, gate});
  backend_.run(ActivationOp{layer_spec(index).mlp.activation, gate, given, gate});
  backend_.run(MatmulOp{weights.layer_out.get(), gate, nullptr, all.y});
  backend_.run(NormOp{all.y, rule(weights.layer_post_norm), all.y});
  backend_.run(AddOp{all.x, all.y});
}

}  // namespace kvasir
