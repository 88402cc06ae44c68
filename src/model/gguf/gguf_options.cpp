#include "model/gguf/gguf_options.h"

#include <algorithm>
#include <array>

namespace kvasir {
namespace {

using Said = std::optional<GgufOutValue>;

const LayerSpec& first_layer(const ModelSpec& spec) { return spec.layers.front(); }

const MoeSpec* first_moe(const ModelSpec& spec) {
  const auto found =
      std::ranges::find_if(spec.layers, [](const LayerSpec& layer) { return layer.mlp.moe.experts > 0; });
  return found == spec.layers.end() ? nullptr : &found->mlp.moe;
}

const AttentionSpec* first_windowed(const ModelSpec& spec) {
  const auto found =
      std::ranges::find_if(spec.layers, [](const LayerSpec& layer) { return layer.attention.window > 0; });
  return found == spec.layers.end() ? nullptr : &found->attention;
}

// The period that says which layers have windows: 0 for all, 1 for none. None: it takes a list.
std::optional<std::uint32_t> window_period(const ModelSpec& spec) {
  const auto fits = [&](int every) {
    for (int i = 0; i < spec.layer_count(); ++i) {
      if ((spec.attention(i).window > 0) != WindowRule{.every = every}.windowed(i)) return false;
    }
    return true;
  };
  for (int every = 0; every <= spec.layer_count(); ++every) {
    if (fits(every)) return static_cast<std::uint32_t>(every);
  }
  return std::nullopt;
}

Said said_window(const ModelSpec& spec) {
  const AttentionSpec* windowed = first_windowed(spec);
  if (windowed == nullptr) return std::nullopt;
  return static_cast<std::uint32_t>(std::min<std::int64_t>(windowed->window, UINT32_MAX));
}

Said said_pattern(const ModelSpec& spec) {
  if (const auto period = window_period(spec)) return *period;
  GgufBools out;
  for (const LayerSpec& layer : spec.layers) out.values.push_back(layer.attention.window > 0 ? 1 : 0);
  return out;
}

Said said_local_theta(const ModelSpec& spec) {
  const AttentionSpec* windowed = first_windowed(spec);
  if (windowed == nullptr || windowed->rope == kNoRope) return std::nullopt;
  return static_cast<float>(spec.ropes[static_cast<size_t>(windowed->rope)].theta);
}

Said said_logit_scale(const ModelSpec& spec) {
  return spec.family->gguf.divides_logits ? 1.0F / spec.logit_scale : spec.logit_scale;
}

void read_logit_scale(const GgufReader& in, std::string_view key, DecoderConfig& config) {
  const std::optional<double> scale = in.positive_if(key);
  if (scale) config.logit_scale = config.family->gguf.divides_logits ? 1 / *scale : *scale;
}

template <double DecoderConfig::*member>
void read_positive(const GgufReader& in, std::string_view key, DecoderConfig& config) {
  config.*member = in.positive_if(key).value_or(config.*member);
}

// Of a soft-cap, where 0 means none.
template <double DecoderConfig::*member>
void read_cap(const GgufReader& in, std::string_view key, DecoderConfig& config) {
  config.*member = in.not_negative_if(key).value_or(config.*member);
}

// By the numbers that files use.
constexpr std::array<std::pair<std::uint32_t, RouterRule::Score>, 3> kGatings{
    {{1, RouterRule::Score::kSoftmax}, {2, RouterRule::Score::kSigmoid}, {3, RouterRule::Score::kSoftmaxOfChosen}}};

Said said_gating(const ModelSpec& spec) {
  const MoeSpec* moe = first_moe(spec);
  if (moe == nullptr) return std::nullopt;
  return std::ranges::find(kGatings, moe->score, &std::pair<std::uint32_t, RouterRule::Score>::second)->first;
}

void read_gating(const GgufReader& in, std::string_view key, DecoderConfig& config) {
  const auto number = in.integer_if(key, 0, UINT32_MAX);
  if (!number || *number == 0) return;  // 0: what the architecture means
  const auto* found = std::ranges::find(kGatings, *number, &std::pair<std::uint32_t, RouterRule::Score>::first);
  if (found == kGatings.end()) {
    in.fail(in.key(key) + " is " + std::to_string(*number) + ", and known are 1 to 3");
  }
  config.moe.score = found->second;
}

Said said_normalized(const ModelSpec& spec) {
  const MoeSpec* moe = first_moe(spec);
  return moe == nullptr ? Said() : Said(moe->normalized);
}

void read_normalized(const GgufReader& in, std::string_view key, DecoderConfig& config) {
  config.moe.normalized = in.flag_if(key).value_or(config.moe.normalized);
}

Said said_expert_scale(const ModelSpec& spec) {
  const MoeSpec* moe = first_moe(spec);
  return moe == nullptr ? Said() : Said(moe->scale);
}

void read_expert_scale(const GgufReader& in, std::string_view key, DecoderConfig& config) {
  const double scale = in.not_negative_if(key).value_or(0);
  if (scale > 0) config.moe.scale = static_cast<float>(scale);  // 0: not scaled
}

Said said_leading_dense(const ModelSpec& spec) {
  if (first_moe(spec) == nullptr) return std::nullopt;
  const auto first =
      std::ranges::find_if(spec.layers, [](const LayerSpec& layer) { return layer.mlp.moe.experts > 0; });
  return static_cast<std::uint32_t>(first - spec.layers.begin());
}

constexpr auto kKnown = GgufOption::Write::kWhereKnown;
constexpr auto kNeeded = GgufOption::Write::kWhereNeeded;

constexpr std::array kOptions{
    GgufOption{"attention.scale", kKnown, [](const ModelSpec& s) -> Said { return first_layer(s).attention.scale; },
               read_positive<&DecoderConfig::attention_scale>},
    GgufOption{"attn_logit_softcapping", kKnown,
               [](const ModelSpec& s) -> Said { return first_layer(s).attention.softcap; },
               read_cap<&DecoderConfig::attention_softcap>},
    GgufOption{"final_logit_softcapping", kKnown, [](const ModelSpec& s) -> Said { return s.logit_softcap; },
               read_cap<&DecoderConfig::logit_softcap>},
    GgufOption{"embedding_scale", kKnown, [](const ModelSpec& s) -> Said { return s.embedding_scale; },
               read_positive<&DecoderConfig::embedding_scale>},
    GgufOption{"residual_scale", kKnown, [](const ModelSpec& s) -> Said { return first_layer(s).branch_scale; },
               read_positive<&DecoderConfig::branch_scale>},
    GgufOption{"logit_scale", kKnown, said_logit_scale, read_logit_scale},
    GgufOption{"attention.sliding_window", kKnown, said_window, nullptr},
    GgufOption{"attention.sliding_window_pattern", kNeeded, said_pattern, nullptr},
    GgufOption{"rope.freq_base_swa", kNeeded, said_local_theta, nullptr},
    GgufOption{"expert_gating_func", kKnown, said_gating, read_gating},
    GgufOption{"expert_weights_norm", kKnown, said_normalized, read_normalized},
    GgufOption{"expert_weights_scale", kKnown, said_expert_scale, read_expert_scale},
    GgufOption{"leading_dense_block_count", kKnown, said_leading_dense, nullptr},
};

}  // namespace

std::span<const GgufOption> gguf_options() { return kOptions; }

}  // namespace kvasir
