#include "model/gguf/gguf_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/gguf/gguf_config.h"
#include "model/gguf/gguf_options.h"
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
  void number(std::string_view key, double value) { add(key, static_cast<float>(value)); }

 private:
  std::string_view architecture_;
  std::vector<GgufOutKey>& to_;
};

// The width of MLPs that all rows go through, or of experts where there are none such.
int dense_width(const ModelSpec& spec) {
  const auto dense =
      std::ranges::find_if(spec.layers, [](const LayerSpec& layer) { return layer.mlp.moe.experts == 0; });
  return dense == spec.layers.end() ? spec.layers.front().mlp.width : dense->mlp.width;
}

void add_sizes(const ModelSpec& spec, Keys& out) {
  const AttentionSpec& attention = spec.uniform_attention();
  out.size("block_count", spec.layer_count());
  out.size("context_length", spec.context);
  out.size("embedding_length", spec.hidden);
  out.size("feed_forward_length", dense_width(spec));
  for (const LayerSpec& layer : spec.layers) {
    if (layer.mlp.moe.experts == 0) continue;
    out.size("expert_count", layer.mlp.moe.experts);
    out.size("expert_used_count", layer.mlp.moe.used);
    out.size("expert_feed_forward_length", layer.mlp.width);
    break;
  }
  out.size("attention.head_count", attention.heads);
  out.size("attention.head_count_kv", attention.kv.heads);
  out.size("attention.key_length", attention.kv.k_dim);
  out.size("attention.value_length", attention.kv.v_dim);
  out.number(spec.family->gguf.norm_eps, spec.norm_eps);
  out.size("vocab_size", spec.vocab);
}

// Whether llama.cpp reads this for the architecture. A list is another thing than one number.
bool knows(const GgufForm& form, std::string_view name, const GgufOutValue* value = nullptr) {
  std::string listed(name);
  if (value != nullptr && std::holds_alternative<GgufBools>(*value)) listed += "[]";
  return std::ranges::find(form.known, listed) != form.known.end();
}

void add_rope(const ModelSpec& spec, GgufDescription& out) {
  const GgufForm& form = spec.family->gguf;
  GgufRope rope = gguf_rope_of(spec);
  Keys keys(form.architecture, out.keys);
  for (GgufOutKey& entry : rope.keys) keys.add(entry.key, std::move(entry.value));
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

// What of a layer came back as something else; empty: nothing did.
std::string lost_of_layer(const LayerSpec& want, LayerSpec got) {
  const AttentionSpec& a = want.attention;
  AttentionSpec& b = got.attention;
  if (a.window != b.window || a.chunk != b.chunk) return "which of its layers see how many tokens back";
  if ((a.rope == kNoRope) != (b.rope == kNoRope)) return "which of its layers have no rope";
  b.rope = a.rope;
  if (a.scale != b.scale || a.softcap != b.softcap) return "what its scores are scaled by";
  if (a != b) return "what its attention is made of";
  if (want.mlp.activation != got.mlp.activation) return "that its MLPs have another activation";
  if (want.mlp.moe != got.mlp.moe) return "how its rows go to experts";
  if (want.mlp != got.mlp) return "what its MLPs are made of";
  return want == got ? "" : "where its norms stand";
}

std::string lost(const ModelSpec& want, const ModelSpec& got) {
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
  const bool same_logits = close(got.logit_scale, want.logit_scale) && got.logit_softcap == want.logit_softcap;
  return same_logits ? "" : "what its logits are scaled by";
}

// What one option says may change what others mean unsaid: a window makes layers that have a pattern and a rope.
void add_options(const ModelSpec& spec, const std::string& where, GgufDescription& out) {
  const GgufForm& form = spec.family->gguf;
  const std::vector<TensorSpec> tensors = tensors_of(spec);
  Keys keys(form.architecture, out.keys);
  ModelSpec unsaid = read_again(out, tensors, where);
  for (const GgufOption& option : gguf_options()) {
    const std::optional<GgufOutValue> value = option.of(spec);
    if (!value) continue;
    const bool known = knows(form, option.key, &*value);
    const bool insisted = known && option.write == GgufOption::Write::kWhereKnown;
    const bool needed = value != option.of(unsaid);
    if (!insisted && !needed) continue;
    keys.add(option.key, *value);
    if (needed) unsaid = read_again(out, tensors, where);
    if (known) continue;
    const char* form_of_it = std::holds_alternative<GgufBools>(*value) ? " as a list" : "";
    out.notes.push_back(fmt::format(
        "llama.cpp does not read {}.{}{}, which this model needs: it will compute something else where that matters",
        form.architecture, option.key, form_of_it));
  }
  const std::string what = lost(spec, unsaid);
  if (what.empty()) return;
  fail_input(fmt::format("a GGUF file of architecture {} cannot say {}", form.architecture, what), where,
             "run the model from its folder");
}

}  // namespace

GgufDescription describe_as_gguf(const ModelSpec& spec, const std::string& where) {
  const GgufForm& form = spec.family->gguf;
  GgufDescription out;
  out.keys.push_back({"general.architecture", std::string(form.architecture)});
  Keys keys(form.architecture, out.keys);
  add_sizes(spec, keys);
  add_rope(spec, out);
  add_options(spec, where, out);
  return out;
}

}  // namespace kvasir
