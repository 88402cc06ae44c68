#include "model/gguf/gguf_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/gguf/gguf_config.h"
#include "model/gguf/gguf_heads.h"
#include "model/gguf/gguf_options.h"
#include "model/gguf/gguf_states.h"
#include "model/tensors.h"

namespace kvasir {
namespace {

// A key of our architecture.
class Keys {
 public:
  Keys(std::string_view architecture, std::vector<GgufOutKey>& to) : architecture_(architecture), to_(to) {}

  void add(std::string_view key, GgufOutValue value) {
    to_.push_back({fmt::format("{}.{}", architecture_, key), std::move(value)});
  }
  void size(std::string_view key, std::int64_t value) {
    add(key, static_cast<std::uint32_t>(std::min<std::int64_t>(value, UINT32_MAX)));
  }
  // One for each layer, or one number where they are alike.
  void sizes(std::string_view key, const std::vector<int>& values) {
    const bool alike = std::ranges::adjacent_find(values, std::ranges::not_equal_to{}) == values.end();
    if (alike) return size(key, values.front());
    add(key, std::vector<std::int32_t>(values.begin(), values.end()));
  }
  void number(std::string_view key, double value) { add(key, static_cast<float>(value)); }

 private:
  std::string_view architecture_;
  std::vector<GgufOutKey>& to_;
};

// The layers that a file counts: of an encoder-decoder the encoder's.
const ModelSpec& counted(const ModelSpec& spec) { return spec.reads_source() ? spec.encoder.front() : spec; }

// The width of MLPs that all rows go through, or of experts where there are none such.
std::vector<int> dense_widths(const ModelSpec& spec) {
  std::vector<int> out;
  for (const LayerSpec& layer : spec.layers) {
    const MlpSpec& mlp = layer.mlp;
    if (mlp.moe.experts == 0) out.push_back(mlp.width);
    if (mlp.moe.own_norms) out.push_back(mlp.moe.shared_width);  // that of Gemma 4 is not called a shared expert
  }
  if (out.empty()) out.push_back(spec.layers.front().mlp.width);
  return out;
}

// Heads, which may be others in layers with a window than in those without.
void add_heads(const ModelSpec& spec, Keys& out) {
  const auto windowed = [](const LayerSpec& layer) { return layer.attention.window > 0; };
  const auto attends = [](const LayerSpec& layer) { return !layer.attention.none(); };
  const auto global =
      std::ranges::find_if(spec.layers, [&](const LayerSpec& layer) { return attends(layer) && !windowed(layer); });
  const auto local = std::ranges::find_if(spec.layers, windowed);
  const auto first = std::ranges::find_if(spec.layers, attends);
  if (first == spec.layers.end()) return;
  const AttentionSpec& main = (global == spec.layers.end() ? *first : *global).attention;
  const GgufStates::Layers how = gguf_form_of(spec).states.layers;
  const bool marks = how == GgufStates::Layers::kWithoutKvHeads || how == GgufStates::Layers::kOneBranch;
  std::vector<int> kv_heads;
  for (const LayerSpec& layer : spec.layers) {
    kv_heads.push_back(attends(layer) ? layer.attention.kv.heads : (marks ? 0 : main.kv.heads));
  }
  out.size("attention.head_count", main.heads);
  out.sizes("attention.head_count_kv", kv_heads);
  out.size("attention.key_length", main.kv.k_dim);
  out.size("attention.value_length", main.kv.v_dim);
  if (gguf_form_of(spec).two_kinds && local != spec.layers.end()) {
    const AttentionSpec& other = local->attention;
    out.size("attention.key_length_swa", other.kv.k_dim);
    out.size("attention.value_length_swa", other.kv.v_dim);
    out.size("rope.dimension_count_swa", spec.ropes[static_cast<size_t>(other.rope)].rotated_dim(other.kv.k_dim));
  }
  const LatentSpec& latent = main.latent;
  if (latent.none()) return;
  if (latent.q_rank > 0) out.size("attention.q_lora_rank", latent.q_rank);
  out.size("attention.kv_lora_rank", latent.kv_rank);
  out.size("attention.key_length_mla", latent.q_dim());
  out.size("attention.value_length_mla", latent.v_dim);
  if (main.rope == kNoRope) out.size("rope.dimension_count", latent.rope_dim);
}

void add_sizes(const ModelSpec& spec, Keys& out) {
  out.size("block_count", counted(spec).layer_count());
  out.size("context_length", spec.context);
  out.size("embedding_length", spec.hidden);
  if (gguf_form_of(spec).states.layers == GgufStates::Layers::kOneBranch) {
    std::vector<int> widths;
    for (const LayerSpec& layer : spec.layers) widths.push_back(layer.mlp.width);
    out.sizes("feed_forward_length", widths);
  } else if (gguf_form_of(spec).two_kinds) {
    out.sizes("feed_forward_length", dense_widths(spec));
  } else {
    out.size("feed_forward_length", dense_widths(counted(spec)).front());
  }
  for (const LayerSpec& layer : spec.layers) {
    if (layer.mlp.moe.experts == 0) continue;
    out.size("expert_count", layer.mlp.moe.experts);
    out.size("expert_used_count", layer.mlp.moe.used);
    out.size("expert_feed_forward_length", layer.mlp.width);
    break;
  }
  add_heads(spec, out);
  out.number(gguf_form_of(spec).norm_eps, spec.norm_eps);
  out.size("vocab_size", spec.vocab);
  for (GgufOutKey& one : gguf_states_of(spec)) out.add(one.key, std::move(one.value));
}

void add_heads_behind(const ModelSpec& spec, GgufDescription& out) {
  GgufHeads heads = gguf_heads_of(spec);
  Keys keys(gguf_form_of(spec).architecture, out.keys);
  for (GgufOutKey& one : heads.keys) {
    if (one.key.starts_with("tokenizer.")) {
      out.keys.push_back(std::move(one));
    } else {
      keys.add(one.key, std::move(one.value));
    }
  }
  std::ranges::move(heads.notes, std::back_inserter(out.notes));
}

constexpr auto kNotRead =
    "llama.cpp does not read {}.{}{}, which this model needs: it will compute something else where that matters";

// Whether llama.cpp reads this for the architecture. A list is another thing than one number.
bool knows(const GgufForm& form, std::string_view name, const GgufOutValue* value = nullptr) {
  std::string listed(name);
  if (value != nullptr && std::holds_alternative<GgufBools>(*value)) listed += "[]";
  return std::ranges::find(form.known, listed) != form.known.end();
}

constexpr std::string_view kYarnBetas = "rope.scaling.yarn_beta";

// What llama.cpp takes them for that does not read them.
bool usual_beta(const GgufOutKey& entry) {
  const RopeSpec usual;
  const double beta = entry.key.ends_with("fast") ? usual.beta_fast : usual.beta_slow;
  return std::get<float>(entry.value) == static_cast<float>(beta);
}

void add_rope(const ModelSpec& spec, GgufDescription& out) {
  const GgufForm& form = gguf_form_of(spec);
  GgufRope rope = gguf_rope_of(spec);
  Keys keys(form.architecture, out.keys);
  for (GgufOutKey& entry : rope.keys) {
    const bool tuned = entry.key.starts_with(kYarnBetas) && !usual_beta(entry);
    if (tuned && !knows(form, kYarnBetas)) {
      out.notes.push_back(fmt::format(kNotRead, form.architecture, entry.key, ""));
    }
    keys.add(entry.key, std::move(entry.value));
  }
  for (GgufVector& vector : rope.vectors) {
    if (!knows(form, vector.name)) {
      out.notes.push_back(
          fmt::format("llama.cpp does not load a file of architecture {} with {}", form.architecture, vector.name));
    }
    out.vectors.push_back(std::move(vector));
  }
}

template <class T>
GgufNumbers numbers_of(GgufType type, const std::vector<T>& values) {
  return {type, std::as_bytes(std::span(values))};
}

// As a reader finds it; points into what was written.
struct AsRead {
  GgufValue operator()(bool value) const { return value; }
  GgufValue operator()(std::uint32_t value) const { return std::uint64_t{value}; }
  GgufValue operator()(float value) const { return double{value}; }
  GgufValue operator()(const std::string& value) const { return std::string_view(value); }
  GgufValue operator()(const std::vector<std::string>& values) const {
    return GgufStrings(values.begin(), values.end());
  }
  GgufValue operator()(const std::vector<std::int32_t>& values) const { return numbers_of(GgufType::kI32, values); }
  GgufValue operator()(const std::vector<float>& values) const { return numbers_of(GgufType::kF32, values); }
  GgufValue operator()(const std::vector<std::uint8_t>& values) const { return numbers_of(GgufType::kU8, values); }
  GgufValue operator()(const GgufBools& bools) const { return numbers_of(GgufType::kBool, bools.values); }
};

// What a file with this description and the spec's tensors means.
ModelSpec read_again(const GgufDescription& description, std::span<const TensorSpec> tensors,
                     const std::string& where) {
  GgufContent content;
  for (const GgufOutKey& entry : description.keys) content.metadata[entry.key] = std::visit(AsRead{}, entry.value);
  for (const TensorSpec& tensor : tensors) {
    GgufTensor& read = content.tensors[tensor.gguf];
    read.dtype = DType::kF32;
    read.shape = {tensor.rows};
    if (!tensor.vector()) read.shape.push_back(tensor.cols);
  }
  for (const GgufVector& vector : description.vectors) {
    content.tensors[vector.name] = {.dtype = DType::kF32,
                                    .shape = {static_cast<std::int64_t>(vector.values.size())},
                                    .bytes = std::as_bytes(std::span(vector.values))};
  }
  return gguf_config({GgufFile(std::move(content)), where});
}

bool close(double a, double b) { return std::fabs(a - b) <= 1e-6 * std::fabs(b); }  // float32 is what files hold

bool same(const std::optional<GgufOutValue>& a, const std::optional<GgufOutValue>& b) {
  if (a == b) return true;
  const auto* x = a ? std::get_if<float>(&*a) : nullptr;
  const auto* y = b ? std::get_if<float>(&*b) : nullptr;
  return x != nullptr && y != nullptr && close(*x, *y);
}

// What of a layer came back as something else; empty: nothing did.
std::string lost_of_layer(const LayerSpec& want, LayerSpec got) {
  const AttentionSpec& a = want.attention;
  AttentionSpec& b = got.attention;
  if (a.window != b.window || a.chunk != b.chunk) return "which of its layers see how many tokens back";
  if ((a.rope == kNoRope) != (b.rope == kNoRope)) return "which of its layers have no rope";
  b.rope = a.rope;
  if (!close(a.scale, b.scale) || a.softcap != b.softcap) return "what its scores are scaled by";
  b.scale = a.scale;
  b.latent.pairs = a.latent.pairs;  // how a folder has them
  got.recurrent.value_heads = want.recurrent.value_heads;
  if (want.recurrent != got.recurrent) return "what its states are made of";
  if (a != b) return "what its attention is made of";
  if (want.mlp.activation != got.mlp.activation) return "that its MLPs have another activation";
  if (want.mlp.moe != got.mlp.moe) return "how its rows go to experts";
  if (want.mlp != got.mlp) return "what its MLPs are made of";
  return want == got ? "" : "where its norms stand";
}

std::string lost(const ModelSpec& want, const ModelSpec& got) {
  if (want.layer_count() != got.layer_count()) return "how many layers it has";
  for (int i = 0; i < want.layer_count(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (i > 0 && want.layers[at] == want.layers[at - 1] && got.layers[at] == got.layers[at - 1]) continue;
    std::string what = lost_of_layer(want.layers[at], got.layers[at]);
    if (!what.empty()) return what;
    if (!same_rope(want, got, i)) return "how its rope is scaled";
  }
  if (!close(got.norm_eps, want.norm_eps) || want.norm != got.norm || want.norm_bias != got.norm_bias) {
    return "what its norms are";
  }
  if (want.embedding_scale != got.embedding_scale) return "what its embeddings are scaled by";
  if (want.answer_start != got.answer_start) return "what its answers begin with";
  for (size_t i = 0; i < want.encoder.size(); ++i) {
    const std::string of_encoder = lost(want.encoder[i], got.encoder[i]);
    if (!of_encoder.empty()) return of_encoder;
  }
  const std::string of_heads = lost_of_heads(want, got);
  if (!of_heads.empty()) return of_heads;
  const bool same_logits = close(got.logit_scale, want.logit_scale) && got.logit_softcap == want.logit_softcap;
  return same_logits ? "" : "what its logits are scaled by";
}

// What one option says may change what others mean unsaid: a window makes layers that have a pattern and a rope.
void add_options(const ModelSpec& spec, const std::string& where, GgufDescription& out) {
  const GgufForm& form = gguf_form_of(spec);
  const std::vector<TensorSpec> tensors = tensors_of(spec);
  Keys keys(form.architecture, out.keys);
  ModelSpec unsaid = read_again(out, tensors, where);
  for (const GgufOption& option : gguf_options()) {
    const std::optional<GgufOutValue> value = option.of(spec);
    if (!value) continue;
    const bool known = knows(form, option.key, &*value);
    const bool insisted = known && option.write == GgufOption::Write::kWhereKnown;
    const bool needed = !same(value, option.of(unsaid));
    if (!insisted && !needed) continue;
    keys.add(option.key, *value);
    if (needed) unsaid = read_again(out, tensors, where);
    if (known) continue;
    const char* form_of_it = std::holds_alternative<GgufBools>(*value) ? " as a list" : "";
    out.notes.push_back(fmt::format(kNotRead, form.architecture, option.key, form_of_it));
  }
  const std::string what = lost(spec, unsaid);
  if (what.empty()) return;
  fail_input(fmt::format("a GGUF file of architecture {} cannot say {}", form.architecture, what), where,
             "run the model from its folder");
}

// How many layers have it; of what lies beside them, all or none.
int layers_with(const std::vector<TensorSpec>& tensors, const ModelSpec& spec, std::string_view name) {
  const auto count = [&](const std::string& full) {
    return std::ranges::find(tensors, full, &TensorSpec::gguf) == tensors.end() ? 0 : 1;
  };
  if (name.starts_with("output")) return count(std::string(name)) * spec.layer_count();
  int layers = 0;
  for (int i = 0; i < spec.layer_count(); ++i) layers += count(fmt::format("blk.{}.{}", i, name));
  return layers;
}

void note_tensors(const ModelSpec& spec, GgufDescription& out) {
  const GgufForm& form = gguf_form_of(spec);
  const std::vector<TensorSpec> tensors = tensors_of(spec);
  const auto note = [&](const char* how, std::string_view name) {
    out.notes.push_back(
        fmt::format("llama.cpp does not load a file of architecture {} {} {}", form.architecture, how, name));
  };
  for (const std::string_view name : form.needed) {
    if (layers_with(tensors, spec, name) < spec.layer_count()) note("without", name);
  }
  for (const std::string_view name : form.refused) {
    if (layers_with(tensors, spec, name) > 0) note("with", name);
  }
}

}  // namespace

GgufDescription describe_as_gguf(const ModelSpec& spec, const std::string& where) {
  const GgufForm& form = gguf_form_of(spec);
  GgufDescription out;
  out.keys.push_back({"general.architecture", std::string(form.architecture)});
  Keys keys(form.architecture, out.keys);
  add_sizes(spec, keys);
  add_heads_behind(spec, out);
  add_rope(spec, out);
  add_options(spec, where, out);
  note_tensors(spec, out);
  return out;
}

}  // namespace kvasir
