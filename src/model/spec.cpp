#include "model/spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "model/families/family.h"
#include "model/tensors.h"

namespace kvasir {
namespace {

// Each of these takes a struct apart: whoever adds a member is told by the compiler to name it here.

std::string to_text(const RopeSpec& rope) {
  const auto& [scaling, theta, factor, low, high, original, fast, slow, whole_pairs, magnitude, factors, rotated,
               other, short_factors, growth, length, shift] = rope;
  return fmt::format("rope {} {} {} {} {} {} {} {} {} {} {} {} {} {} queries {} {} {}", static_cast<int>(scaling),
                     theta, factor, low, high, original, fast, slow, whole_pairs, magnitude, fmt::join(factors, ","),
                     rotated, other, fmt::join(short_factors, ","), growth, length, shift);
}

std::string to_text(const KvShape& shape) {
  const auto& [heads, k_dim, v_dim, k_space, v_space, v_in_k] = shape;
  return fmt::format("{} {} {} {} {} {}", heads, k_dim, v_dim, static_cast<int>(k_space), static_cast<int>(v_space),
                     v_in_k);
}

std::string to_text(const PositionBiasSpec& bias) {
  const auto& [kind, buckets, most_distance, reach, slope_scale] = bias;
  return fmt::format("bias {} {} {} {} {}", static_cast<int>(kind), buckets, most_distance, static_cast<int>(reach),
                     slope_scale);
}

std::string to_text(const LatentSpec& latent) {
  const auto& [kv_rank, q_rank, nope, rope, v_dim, pairs, eps, bias] = latent;
  return fmt::format("latent {} {} {} {} {} {} {} {}", kv_rank, q_rank, nope, rope, v_dim, static_cast<int>(pairs),
                     eps, bias);
}

std::string to_text(const RecurrentSpec& recurrent) {
  const auto& [kind, k_heads, heads, k_dim, v_dim, conv_weights, conv_bias, packing, norm_stage, norm_groups,
               gate_rank, in_scales, out_scale, least_step, most_step, value_heads] = recurrent;
  if (recurrent.none()) return {};
  return fmt::format(" recurrent {} {} {} {} {} {} {} {} norm {} {} rank {} scales {} {} steps {} {}{}",
                     static_cast<int>(kind), k_heads, heads, k_dim, v_dim, conv_weights, conv_bias,
                     static_cast<int>(packing), static_cast<int>(norm_stage), norm_groups, gate_rank,
                     fmt::join(in_scales, ","), out_scale, least_step, most_step, recurrent.tiled() ? " tiled" : "");
}

std::string scale_text(float scale) { return scale == 1.0F ? "" : fmt::format(" times {}", scale); }

std::string to_text(const AttentionSpec& attention) {
  const auto& [heads, kv, window, rope, scale, qk_norm, qkv_bias, out_bias, softcap, sink_logits, chunk, bias, mask,
               norm_weights, norm_stage, v_norm, values, norm_kind, norm_bias, clip, latent, of_source, kv_layer,
               gate, out_scale] = attention;
  return fmt::format("attention {} {} {} {} {} {} {} {} {} {} {} {} {} norms {} {} {} {} {} values {} {} {} {}{}{}{}",
                     heads, to_text(kv), window, rope, scale, static_cast<int>(qk_norm), qkv_bias, out_bias, softcap,
                     sink_logits, chunk, to_text(bias), static_cast<int>(mask), norm_weights,
                     static_cast<int>(norm_stage), v_norm, static_cast<int>(norm_kind), norm_bias,
                     static_cast<int>(values), clip, to_text(latent), kv_layer, gate ? " gate" : "",
                     of_source ? " of source" : "", scale_text(out_scale));
}

// A bias of scores lies in tables as long as distances that are told apart.
constexpr int kMostDistance = 1 << 16;

// What a layer's scores are made of, within what can be computed. `fail` takes a text and throws.
template <class Fail>
void check_scores(const AttentionSpec& a, const Fail& fail) {
  if (!(a.softcap >= 0 && std::isfinite(a.softcap))) fail(fmt::format("the soft-cap of scores is {}", a.softcap));
  if (!(a.clip >= 0 && std::isfinite(a.clip))) fail(fmt::format("clip_qkv is {}", a.clip));
  if (a.window < 0 || a.chunk < 0) fail(fmt::format("a window of {} and chunks of {}", a.window, a.chunk));
  const KvShape& kv = a.kv;
  if (!kv.has_v() && kv.v_in_k > kv.k_dim - kv.v_dim) {
    fail(fmt::format("V is {} numbers of K from {} on, and K has {}", kv.v_dim, kv.v_in_k, kv.k_dim));
  }
  if (a.bias.kind == PositionBiasSpec::Kind::kNear &&
      (a.bias.most_distance < 0 || a.bias.most_distance > kMostDistance))
    fail(fmt::format("a window of {} tokens both ways", a.bias.most_distance));
  if (a.bias.kind != PositionBiasSpec::Kind::kBuckets) return;
  const int least = a.bias.reach == PositionBiasSpec::Reach::kBothWays ? 4 : 2;
  if (a.bias.buckets < least || a.bias.buckets % least != 0 || a.bias.most_distance <= a.bias.buckets / 2 ||
      a.bias.most_distance > kMostDistance) {
    fail(fmt::format("{} buckets of distances up to {}", a.bias.buckets, a.bias.most_distance));
  }
}

// A layer that reads another's keys and values reads those of an earlier one that has its own, of its own shape.
template <class Fail>
void check_sharing(const ModelSpec& spec, const Fail& fail) {
  for (int i = 0; i < spec.layer_count(); ++i) {
    const AttentionSpec& a = spec.attention(i);
    if (a.owns_kv()) continue;
    const bool fits = a.kv_layer < i && spec.attention(a.kv_layer).owns_kv() && spec.attention(a.kv_layer).kv == a.kv;
    if (!fits) fail(fmt::format("layer {} cannot read the keys of layer {}", i, a.kv_layer));
  }
}

// Groups are equal parts of the experts, and hold enough of them.
template <class Fail>
void check_experts(const MoeSpec& moe, const Fail& fail) {
  if (moe.groups < 1 || moe.experts % moe.groups != 0 || moe.used_groups < 1 || moe.used_groups > moe.groups ||
      moe.used > moe.experts / moe.groups * moe.used_groups) {
    fail(fmt::format("{} experts in {} groups, of which {} are used for {} experts a token", moe.experts, moe.groups,
                     moe.used_groups, moe.used));
  }
}

std::string to_text(const MoeSpec& moe) {
  const auto& [experts, used, score, normalized, scale, choice_bias, router_bias, groups, used_groups, group_score,
               weighs, shared_width, shared_gate, expert_scale, own_norms, latent] = moe;
  return fmt::format("moe {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}{}", experts, used, static_cast<int>(score),
                     normalized, scale, choice_bias, router_bias, groups, used_groups, static_cast<int>(group_score),
                     static_cast<int>(weighs), shared_width, shared_gate, expert_scale, own_norms,
                     latent == 0 ? "" : fmt::format(" latent {}", latent));
}

std::string to_text(const LayerSpec& layer) {
  const auto& [attention, recurrent, mlp, norms, branch_scale, scaled, attention_norm, reads_embedding] = layer;
  const auto& [width, bias, moe, kind, activation, limit, gate_scale, out_scale] = mlp;
  return fmt::format("{}{} mlp {} {} {} {} {} {}{}{} norms {} {} scale {} {}{}", to_text(attention),
                     to_text(recurrent), width, bias, static_cast<int>(kind), static_cast<int>(activation), limit,
                     to_text(moe), gate_scale == 1.0F ? "" : fmt::format(" gates times {}", gate_scale),
                     scale_text(out_scale), static_cast<int>(norms), attention_norm, branch_scale, scaled,
                     reads_embedding ? " reads embedding" : "");
}

std::string to_text(const DraftHeadSpec& draft) {
  const auto& [kind, feeds, reads, target_layers, residual_is_normed] = draft;
  if (draft.none()) return {};
  return fmt::format("draft {} {} [{}] {} {}\n", static_cast<int>(kind), static_cast<int>(feeds),
                     fmt::join(reads, ","), target_layers, residual_is_normed);
}

}  // namespace

// Of the members that are left out, `family` names tensors, `quantization` and `dtype` are in the weights' own hash,
// and the others (`answer_start` too) only say where texts begin and end, and what is made of the rows behind the
// last layer.
std::string to_text(const ModelSpec& spec) {
  const auto& [family, hidden, vocab, layers, ropes, context, norm_eps, norm, norm_bias, embedding_scale, logit_scale,
               logit_softcap, tied, dtype, quantization, eos, bos, positions, first_position, embedding_width,
               embedding_norm, final_norm, norm_weights, head_bias, layer_input, token_types, end, vectors, rerank,
               encoder, answer_start, draft] = spec;
  std::string out = fmt::format(
      "hidden {} vocab {} eps {} norm {} {} scales {} {} {} tied {} positions {} {} embedding {} {} ends {} {} {} "
      "{}{}\n",
      hidden, vocab, norm_eps, static_cast<int>(norm), norm_bias, embedding_scale, logit_scale, logit_softcap, tied,
      positions, first_position, embedding_width, embedding_norm, final_norm, norm_weights, head_bias, layer_input,
      token_types == 0 ? "" : fmt::format(" types {}", token_types));
  for (const RopeSpec& rope : ropes) out += to_text(rope) + "\n";
  for (const LayerSpec& layer : layers) out += to_text(layer) + "\n";
  for (const ModelSpec& one : encoder) out += "encoder " + to_text(one);
  return out + to_text(draft);
}

std::string_view name_of(VectorSpec::Pooling pooling) {
  switch (pooling) {
    case VectorSpec::Pooling::kMean:
      return "mean";
    case VectorSpec::Pooling::kCls:
      return "cls";
    case VectorSpec::Pooling::kLast:
      break;
  }
  return "last";
}

VectorSpec::Pooling pooling_named(std::string_view name, std::string_view where) {
  using enum VectorSpec::Pooling;
  for (const VectorSpec::Pooling one : {kMean, kCls, kLast}) {
    if (name_of(one) == name) return one;
  }
  fail_usage(fmt::format("'{}' is not a way of pooling", name.substr(0, 40)), std::string(where),
             "use mean, cls or last");
}

std::int64_t ModelSpec::query_width() const {
  std::int64_t width = 0;
  for (const LayerSpec& layer : layers) width += layer.attention.q_width();
  return width;
}

std::string_view ModelSpec::family_name() const { return family->name; }

int RecurrentSpec::in_width() const {
  switch (kind) {
    case Kind::kDeltaNet:
      return conv_channels() + v_width() + 2 * heads;  // gates, strengths and decays
    case Kind::kMamba2:
      return conv_channels() + v_width() + heads;  // gates and steps
    case Kind::kShortConv:
      return 3 * v_width();
    case Kind::kKda:
      return conv_channels() + 2 * gate_rank + heads;  // what gates and decays come through, and strengths
    case Kind::kNone:
      break;
  }
  return 0;
}

int RecurrentSpec::row_width() const {
  const int steps = kind == Kind::kMamba2 ? heads : 0;
  const int gates_and_decays = kind == Kind::kKda ? v_width() + heads * k_dim : 0;
  const int tiles = tiled() ? 2 * heads * k_dim : 0;  // a query and a key for each head
  return in_width() + steps + gates_and_decays + tiles;
}

bool ModelSpec::recurs() const {
  return std::ranges::any_of(layers, [](const LayerSpec& layer) { return !layer.recurrent.none(); });
}

const AttentionSpec& ModelSpec::uniform_attention() const {
  const AttentionSpec& first = layers.front().attention;
  for (const LayerSpec& layer : layers) {
    if (layer.attention.heads != first.heads || layer.attention.kv != first.kv) {
      fail_usage("this model's layers have heads of different sizes, and this needs them alike", "-m",
                 "use it with a model whose layers are alike");
    }
  }
  return first;
}

namespace {

// A recurrent layer is within what kernels have room for.
template <class Check, class Fail>
void check_recurrence(const LayerSpec& layer, const Check& check, const Fail& fail) {
  const RecurrentSpec& r = layer.recurrent;
  if (r.none()) return;
  check({{"the size of a value head", r.v_dim, ShapeLimits::kHeadDim},
         {"the number of value heads", r.heads, ShapeLimits::kHeads},
         {"the size of the convolution", r.conv_weights, kMostConvWeights},
         {"heads times head size", std::int64_t{r.heads} * r.v_dim, ShapeLimits::kQueryWidth}});
  if (r.kind == RecurrentSpec::Kind::kShortConv) return;
  check({{"the number of key heads", r.k_heads, ShapeLimits::kHeads},
         {"the size of a key head", r.k_dim, kMostStateRows}});
  if (r.heads % r.k_heads != 0) fail(fmt::format("{} key heads do not divide {} value heads", r.k_heads, r.heads));
  check({{"the number of groups of a norm", r.norm_groups, r.v_width()}});
  if (r.v_width() % r.norm_groups != 0) {
    fail(fmt::format("{} groups of a norm do not divide {} numbers", r.norm_groups, r.v_width()));
  }
  if (!(r.least_step >= 0 && r.least_step <= r.most_step)) {
    fail(fmt::format("time_step_limit is {} to {}", r.least_step, r.most_step));
  }
  if (r.kind == RecurrentSpec::Kind::kKda) {
    check({{"the rank of gates", r.gate_rank, ShapeLimits::kHeadDim},
           {"heads times rows of a state", std::int64_t{r.heads} * r.k_dim, ShapeLimits::kQueryWidth}});
    if (r.heads != r.k_heads) fail(fmt::format("{} key heads for {} value heads", r.k_heads, r.heads));
  }
}

// Experts, an MLP for all rows, both, or neither where the layer mixes tokens.
template <class Check, class Fail>
void check_mlp(const LayerSpec& layer, const Check& check, const Fail& fail) {
  if (!layer.mixes() && !layer.feeds()) fail("a layer has neither attention nor a state nor an MLP");
  const bool own = layer.norms == NormPlacement::kPre || layer.norms == NormPlacement::kAfterSum;
  if (!(layer.mixes() && layer.feeds()) && !own) fail("a layer of one branch shares its norm with another one");
  if (!layer.feeds()) return;
  check({{"the FFN size", layer.mlp.width, ShapeLimits::kFfn}});
  const MoeSpec& moe = layer.mlp.moe;
  if (moe.experts == 0) return;
  check({{"the number of experts", moe.experts, ShapeLimits::kExperts},
         {"the number of experts a token", moe.used, moe.experts}});
  if (moe.latent != 0) check({{"moe_latent_size", moe.latent, ShapeLimits::kHidden}});
  check_experts(moe, fail);
}

}  // namespace

namespace {

// Layers read a source where there is an encoder, whose rows are as wide as theirs.
template <class Fail>
void check_source(const ModelSpec& spec, const Fail& fail) {
  const bool reads = std::ranges::any_of(spec.layers, [](const LayerSpec& one) { return one.attention.of_source; });
  if (reads != spec.reads_source()) fail("layers read a source where there is an encoder, and nowhere else");
  if (!reads) return;
  const ModelSpec& encoder = spec.encoder.front();
  if (spec.encoder.size() > 1 || !encoder.encodes() || encoder.reads_source()) fail("there is one encoder");
  if (encoder.hidden != spec.hidden || encoder.vocab != spec.vocab) {
    fail(fmt::format("an encoder of {} x {} is not read by a decoder of {} x {}", encoder.vocab, encoder.hidden,
                     spec.vocab, spec.hidden));
  }
  if (spec.answer_start.empty()) fail("an answer begins with no token");
  for (const TokenId token : spec.answer_start) {
    if (token < 0 || token >= spec.vocab) fail(fmt::format("an answer begins with token {}", token));
  }
}

}  // namespace

void check_shape(const ModelSpec& spec, const std::string& where) {
  const auto fail = [&](std::string what) { fail_input(std::move(what), where, "check the numbers"); };
  struct Size {
    const char* name;
    std::int64_t value;
    std::int64_t most;
  };
  const auto check = [&](std::initializer_list<Size> sizes) {
    for (const Size& size : sizes) {
      if (size.value >= 1 && size.value <= size.most) continue;
      fail(fmt::format("{} is {}, outside 1..{}", size.name, size.value, size.most));
    }
  };
  check({{"the number of layers", spec.layer_count(), ShapeLimits::kLayers},
         {"the hidden size", spec.hidden, ShapeLimits::kHidden},
         {"the vocabulary", spec.vocab, ShapeLimits::kVocab},
         {"the context", spec.context, ShapeLimits::kContext}});
  const auto attends = [](const LayerSpec& layer) { return !layer.attention.none(); };
  if (std::ranges::none_of(spec.layers, attends)) fail("no layer has attention");
  check_sharing(spec, fail);
  check_source(spec, fail);
  for (const ModelSpec& encoder : spec.encoder) check_shape(encoder, where);
  const LayerSpec* before = nullptr;
  for (const LayerSpec& layer : spec.layers) {
    if (before != nullptr && *before == layer) continue;  // most are: a config of 4096 layers is checked at once
    before = &layer;
    const AttentionSpec& a = layer.attention;
    check_mlp(layer, check, fail);
    check_recurrence(layer, check, fail);
    if (a.none()) continue;
    check({{"the number of heads", a.heads, ShapeLimits::kHeads},
           {"the number of KV heads", a.kv.heads, ShapeLimits::kHeads},
           {"the head size", a.kv.k_dim, ShapeLimits::kHeadDim},
           {"the head size", a.kv.v_dim, ShapeLimits::kHeadDim},
           {"heads times head size", std::int64_t{a.heads} * std::max(a.kv.k_dim, a.kv.v_dim),
            ShapeLimits::kQueryWidth}});
    if (a.heads % a.kv.heads != 0) fail(fmt::format("{} KV heads do not divide {} heads", a.kv.heads, a.heads));
    if (a.rope != kNoRope && a.kv.k_dim % 2 != 0) {
      fail(fmt::format("the head size {} is odd, and rope turns pairs", a.kv.k_dim));
    }
    check_scores(a, fail);
  }
}

void check_runnable(const ModelSpec& spec, const std::string& where) {
  if (!spec.family->not_yet.empty()) {
    std::string supported;
    for (const Family* family : families()) {
      if (family->not_yet.empty()) supported += fmt::format("{}{}", supported.empty() ? "" : ", ", family->name);
    }
    fail_input(fmt::format("{} models are not supported yet: {}", spec.family->name, spec.family->not_yet), where,
               "supported: " + supported);
  }
  for (const RopeSpec& rope : spec.ropes) {
    if (rope.scaling == RopeSpec::Scaling::kOther) {
      fail_input(fmt::format("rope type '{}' is not supported", rope.other), where,
                 "supported: default, linear, dynamic, llama3, yarn, longrope, proportional");
    }
  }
  for (int i = 0; i < spec.layer_count(); ++i) {
    const bool may_follow = spec.encodes() || spec.attention(i).of_source;
    if (may_follow || spec.attention(i).mask == ScoreRule::Mask::kCausal) continue;
    fail_input(fmt::format("layer {} looks at tokens that follow, and texts are read in parts", i), where,
               "supported: decoders, and encoders that make vectors");
  }
}

void check_limits(const ModelSpec& spec, const Backend& backend, const std::string& where) {
  const BackendLimits limits = backend.limits();
  const auto fail = [&](const std::string& what) {
    fail_input(what, where, "run it on another --device: " + backend.description() + " cannot");
  };
  for (int i = 0; i < spec.layer_count(); ++i) {
    const AttentionSpec& a = spec.attention(i);
    if (a.none()) continue;
    const int dim = std::max(a.kv.k_dim, a.kv.v_dim);
    if (dim <= limits.head_dim) continue;
    fail(fmt::format("head_dim is {} in layer {}, and this backend takes heads of at most {}", dim, i,
                     limits.head_dim));
  }
  for (const ModelSpec& encoder : spec.encoder) check_limits(encoder, backend, where);
}

std::uint64_t parameter_count(const ModelSpec& spec) {
  std::uint64_t count = 0;
  for (const TensorSpec& tensor : tensors_of(spec)) count += static_cast<std::uint64_t>(tensor.elements());
  // Files of OPT and BART have rows of positions that no text has, before the first of a stack.
  const auto rows_before = [](const ModelSpec& stack) { return stack.positions > 0 ? stack.first_position : 0; };
  std::int64_t unused = spec.encodes() ? 0 : rows_before(spec);
  for (const ModelSpec& encoder : spec.encoder) unused += rows_before(encoder);
  return count + static_cast<std::uint64_t>(unused) * static_cast<std::uint64_t>(spec.hidden);
}

}  // namespace kvasir
