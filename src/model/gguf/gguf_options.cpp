#include "model/gguf/gguf_options.h"

#include <algorithm>
#include <array>

namespace kvasir {
namespace {

using Said = std::optional<GgufOutValue>;

const LayerSpec& first_layer(const ModelSpec& spec) { return spec.layers.front(); }

// Of the layers that attend at all.
const AttentionSpec& first_attention(const ModelSpec& spec) {
  const auto found =
      std::ranges::find_if(spec.layers, [](const LayerSpec& layer) { return !layer.attention.none(); });
  return (found == spec.layers.end() ? spec.layers.front() : *found).attention;
}

// How many tokens a layer sees: of an encoder, both ways.
std::int64_t window_of(const AttentionSpec& attention) {
  const bool near = attention.bias.kind == PositionBiasSpec::Kind::kNear;
  return near ? 2 * std::int64_t{attention.bias.most_distance} : attention.window;
}

const MoeSpec* first_moe(const ModelSpec& spec) {
  const auto found =
      std::ranges::find_if(spec.layers, [](const LayerSpec& layer) { return layer.mlp.moe.experts > 0; });
  return found == spec.layers.end() ? nullptr : &found->mlp.moe;
}

const AttentionSpec* first_windowed(const ModelSpec& spec) {
  const auto found =
      std::ranges::find_if(spec.layers, [](const LayerSpec& layer) { return window_of(layer.attention) > 0; });
  return found == spec.layers.end() ? nullptr : &found->attention;
}

// The period that says which layers have windows: 0 for all, 1 for none. None: it takes a list.
std::optional<std::uint32_t> window_period(const ModelSpec& spec) {
  const auto fits = [&](int every) {
    for (int i = 0; i < spec.layer_count(); ++i) {
      const WindowRule rule{.every = every, .phase = gguf_form_of(spec).window_phase};
      if ((window_of(spec.attention(i)) > 0) != rule.windowed(i)) return false;
    }
    return true;
  };
  for (int every = 0; every <= spec.layer_count(); ++every) {
    if (fits(every)) return static_cast<std::uint32_t>(every);
  }
  return std::nullopt;
}

// Or how long chunks are: no model has both.
Said said_window(const ModelSpec& spec) {
  const AttentionSpec* windowed = first_windowed(spec);
  const std::int64_t seen = windowed == nullptr ? first_attention(spec).chunk : window_of(*windowed);
  if (seen == 0) return std::nullopt;
  return static_cast<std::uint32_t>(std::min<std::int64_t>(seen, UINT32_MAX));
}

constexpr std::string_view kPattern = "attention.sliding_window_pattern";

// llama.cpp takes a list for some architectures and a period for none of these.
bool lists_windows(const ModelSpec& spec) {
  const auto known = gguf_form_of(spec).known;
  return std::ranges::find(known, std::string(kPattern) + "[]") != known.end() &&
         std::ranges::find(known, kPattern) == known.end();
}

Said said_list(const ModelSpec& spec) {
  if (!lists_windows(spec)) return std::nullopt;
  GgufBools out;
  for (const LayerSpec& layer : spec.layers) out.values.push_back(window_of(layer.attention) > 0 ? 1 : 0);
  return out;
}

Said said_pattern(const ModelSpec& spec) {
  if (lists_windows(spec)) return std::nullopt;
  if (const auto period = window_period(spec)) return *period;
  GgufBools out;
  for (const LayerSpec& layer : spec.layers) out.values.push_back(window_of(layer.attention) > 0 ? 1 : 0);
  return out;
}

Said said_local_theta(const ModelSpec& spec) {
  const AttentionSpec* windowed = first_windowed(spec);
  if (windowed == nullptr || windowed->rope == kNoRope) return std::nullopt;
  return static_cast<float>(spec.ropes[static_cast<size_t>(windowed->rope)].theta);
}

Said said_logit_scale(const ModelSpec& spec) {
  return gguf_form_of(spec).divides_logits ? 1.0F / spec.logit_scale : spec.logit_scale;
}

void read_logit_scale(const GgufReader& in, std::string_view key, DecoderConfig& config) {
  const std::optional<double> scale = in.positive_if(key);
  if (scale) config.logit_scale = gguf_form_of(config).divides_logits ? 1 / *scale : *scale;
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

Said said_shared_width(const ModelSpec& spec) {
  const MoeSpec* moe = first_moe(spec);
  if (moe == nullptr || moe->shared_width == 0) return std::nullopt;
  return static_cast<std::uint32_t>(moe->shared_width);
}

// How many experts the MLP beside them would be.
Said said_shared_count(const ModelSpec& spec) {
  const auto found =
      std::ranges::find_if(spec.layers, [](const LayerSpec& layer) { return layer.mlp.moe.experts > 0; });
  if (found == spec.layers.end() || found->mlp.moe.shared_width % found->mlp.width != 0) return std::nullopt;
  return static_cast<std::uint32_t>(found->mlp.moe.shared_width / found->mlp.width);
}

template <int MoeSpec::*member>
Said said_groups(const ModelSpec& spec) {
  const MoeSpec* moe = first_moe(spec);
  return moe == nullptr || moe->groups == 1 ? Said() : Said(static_cast<std::uint32_t>(moe->*member));
}

// And how many of them are used: all, where that is not said.
void read_groups(const GgufReader& in, std::string_view key, DecoderConfig& config) {
  const auto groups = in.integer_if(key, 0, ShapeLimits::kExperts);
  if (!groups || *groups == 0 || config.moe.experts == 0) return;  // 0: there are none
  config.moe.groups = static_cast<int>(*groups);
  config.moe.used_groups =
      static_cast<int>(in.integer_if("expert_group_used_count", 1, *groups).value_or(config.moe.groups));
}

// Each so-many-th layer has experts.
Said said_expert_step(const ModelSpec& spec) {
  for (int step = 1; step <= spec.layer_count(); ++step) {
    int i = 0;
    const bool fits = std::ranges::all_of(
        spec.layers, [&](const LayerSpec& layer) { return (layer.mlp.moe.experts > 0) == (++i % step == 0); });
    if (fits) return static_cast<std::uint32_t>(step);
  }
  return std::nullopt;
}

Said said_expert_latent(const ModelSpec& spec) {
  const MoeSpec* moe = first_moe(spec);
  return moe == nullptr || moe->latent == 0 ? Said() : Said(static_cast<std::uint32_t>(moe->latent));
}

void read_expert_latent(const GgufReader& in, std::string_view key, DecoderConfig& config) {
  config.moe.latent = static_cast<int>(in.integer_if(key, 0, ShapeLimits::kHidden).value_or(config.moe.latent));
}

Said said_parallel(const ModelSpec& spec) {
  const NormPlacement norms = first_layer(spec).norms;
  return norms == NormPlacement::kParallel || norms == NormPlacement::kParallelApart;
}

Said said_clip(const ModelSpec& spec) {
  const float clip = first_attention(spec).clip;
  return clip > 0 ? Said(clip) : Said();
}

// Queries grow in the layers without a rope, where there are such, or else with the rope's.
RopeSpec& growing(DecoderConfig& config) { return config.no_rope_layers.empty() ? config.rope : config.no_rope; }

const RopeSpec* growing(const ModelSpec& spec) {
  const auto found = std::ranges::find_if(spec.ropes, [](const RopeSpec& rope) { return rope.query_growth != 0; });
  return found == spec.ropes.end() ? nullptr : &*found;
}

Said said_growth(const ModelSpec& spec) {
  const RopeSpec* rope = growing(spec);
  return rope == nullptr ? 0.0F : static_cast<float>(rope->query_growth);
}

void read_growth(const GgufReader& in, std::string_view key, DecoderConfig& config) {
  const std::optional<double> growth = in.not_negative_if(key);
  if (!growth) return;
  RopeSpec& rope = growing(config);
  rope.query_growth = *growth;
  if (config.no_rope_layers.empty()) rope.query_length = rope.original_context;
}

Said said_growth_length(const ModelSpec& spec) {
  const RopeSpec* rope = growing(spec);
  if (rope == nullptr) return std::nullopt;
  return static_cast<std::uint32_t>(std::min<std::int64_t>(rope->query_length, UINT32_MAX));
}

void read_growth_length(const GgufReader& in, std::string_view key, DecoderConfig& config) {
  const auto length = in.integer_if(key, 0, ShapeLimits::kContext);
  if (length && *length > 0) growing(config).query_length = *length;
}

// As config.json spells them.
constexpr std::array<std::pair<std::string_view, Activation>, 5> kActivations{
    {{"silu", Activation::kSilu},
     {"gelu", Activation::kGelu},
     {"gelu_pytorch_tanh", Activation::kGeluTanh},
     {"relu", Activation::kRelu},
     {"relu2", Activation::kReluSquared}}};

Said said_activation(const ModelSpec& spec) {
  const auto* found = std::ranges::find(kActivations, first_layer(spec).mlp.activation,
                                        &std::pair<std::string_view, Activation>::second);
  return found == kActivations.end() ? Said() : Said(std::string(found->first));
}

void read_gguf_activation(const GgufReader& in, std::string_view key, DecoderConfig& config) {
  const auto name = in.text_if(key);
  if (!name) return;
  const auto* found = std::ranges::find(kActivations, *name, &std::pair<std::string_view, Activation>::first);
  if (found == kActivations.end()) {
    in.fail(in.key(key) + " is '" + std::string(name->substr(0, 40)) + "', which is not supported");
  }
  config.activation = found->second;
}

Said said_shared_kv(const ModelSpec& spec) {
  const auto shared =
      std::ranges::count_if(spec.layers, [](const LayerSpec& one) { return !one.attention.owns_kv(); });
  return static_cast<std::uint32_t>(shared);
}

void read_shared_kv(const GgufReader& in, std::string_view key, DecoderConfig& config) {
  config.shared_kv_layers =
      static_cast<int>(in.integer_if(key, 0, config.layers - 1).value_or(config.shared_kv_layers));
}

void read_layer_input(const GgufReader& in, std::string_view key, DecoderConfig& config) {
  config.layer_input = static_cast<int>(in.integer_if(key, 0, ShapeLimits::kHidden).value_or(config.layer_input));
}

// How many pairs of a head each of three coordinates turns, in turns; of texts all three are the same.
Said said_sections(const ModelSpec& spec) {
  const AttentionSpec& attention = first_attention(spec);
  if (attention.rope == kNoRope) return std::nullopt;
  const int pairs = spec.ropes[static_cast<size_t>(attention.rope)].rotated_dim(attention.kv.k_dim) / 2;
  return std::vector<std::int32_t>{(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0};
}

// Whether layers with attention have a rope, as Granite's files say it.
Said said_finetuned(const ModelSpec& spec) { return first_attention(spec).rope != kNoRope; }

void read_finetuned(const GgufReader& in, std::string_view key, DecoderConfig& config) {
  if (in.flag_if(key).value_or(true)) return;
  for (int i = 0; i < config.layers; ++i) config.no_rope_layers.push_back(i);
}

// Of encoder-decoders.
Said said_decoder_blocks(const ModelSpec& spec) {
  if (!spec.reads_source()) return std::nullopt;
  return static_cast<std::uint32_t>(spec.layer_count() / 2);
}

Said said_answer_start(const ModelSpec& spec) {
  if (!spec.reads_source()) return std::nullopt;
  return static_cast<std::uint32_t>(spec.answer_start.front());
}

void read_gguf_answer_start(const GgufReader& in, std::string_view key, DecoderConfig& config) {
  const auto token = in.integer_if(key, 0, config.vocab - 1);
  if (token) config.answer_start = {static_cast<TokenId>(*token)};
}

Said said_buckets(const ModelSpec& spec) {
  const PositionBiasSpec& bias = first_attention(spec).bias;
  if (bias.kind != PositionBiasSpec::Kind::kBuckets) return std::nullopt;
  return static_cast<std::uint32_t>(bias.buckets);
}

Said said_distance(const ModelSpec& spec) {
  const PositionBiasSpec& bias = first_attention(spec).bias;
  if (bias.kind != PositionBiasSpec::Kind::kBuckets) return std::nullopt;
  return static_cast<std::uint32_t>(bias.most_distance);
}

void read_distance(const GgufReader& in, std::string_view key, DecoderConfig& config) {
  constexpr int kMostDistance = 1 << 16;
  config.bias.most_distance = in.size_or(key, kMostDistance, config.bias.most_distance);
}

constexpr auto kKnown = GgufOption::Write::kWhereKnown;
constexpr auto kNeeded = GgufOption::Write::kWhereNeeded;

constexpr std::array kOptions{
    GgufOption{"decoder_block_count", kKnown, said_decoder_blocks, nullptr},  // before what layers are compared for
    GgufOption{"decoder_start_token_id", kKnown, said_answer_start, read_gguf_answer_start},
    GgufOption{"attention.relative_buckets_count", kKnown, said_buckets, nullptr},
    GgufOption{"attention.relative_max_distance", kNeeded, said_distance, read_distance},  // ours
    GgufOption{"attention.scale", kKnown, [](const ModelSpec& s) -> Said { return first_attention(s).scale; },
               read_positive<&DecoderConfig::attention_scale>},
    GgufOption{"attn_logit_softcapping", kKnown,
               [](const ModelSpec& s) -> Said { return first_attention(s).softcap; },
               read_cap<&DecoderConfig::attention_softcap>},
    GgufOption{"final_logit_softcapping", kKnown, [](const ModelSpec& s) -> Said { return s.logit_softcap; },
               read_cap<&DecoderConfig::logit_softcap>},
    GgufOption{"embedding_scale", kKnown, [](const ModelSpec& s) -> Said { return s.embedding_scale; },
               read_positive<&DecoderConfig::embedding_scale>},
    GgufOption{"residual_scale", kKnown, [](const ModelSpec& s) -> Said { return first_layer(s).branch_scale; },
               read_positive<&DecoderConfig::branch_scale>},
    GgufOption{"logit_scale", kKnown, said_logit_scale, read_logit_scale},
    GgufOption{kPattern, kKnown, said_list, nullptr},  // before what it is the pattern of
    GgufOption{"attention.sliding_window", kKnown, said_window, nullptr},
    GgufOption{kPattern, kNeeded, said_pattern, nullptr},
    GgufOption{"rope.freq_base_swa", kNeeded, said_local_theta, nullptr},
    GgufOption{"hidden_activation", kNeeded, said_activation, read_gguf_activation},
    GgufOption{"use_parallel_residual", kKnown, said_parallel, nullptr},
    GgufOption{"attention.clamp_kqv", kNeeded, said_clip, read_positive<&DecoderConfig::clip>},
    GgufOption{"attention.temperature_scale", kNeeded, said_growth, read_growth},
    GgufOption{"attention.temperature_length", kKnown, said_growth_length, read_growth_length},
    GgufOption{"attention.shared_kv_layers", kKnown, said_shared_kv, read_shared_kv},
    GgufOption{"embedding_length_per_layer_input", kKnown,
               [](const ModelSpec& s) -> Said { return static_cast<std::uint32_t>(s.layer_input); },
               read_layer_input},
    GgufOption{"expert_shared_feed_forward_length", kKnown, said_shared_width, nullptr},
    GgufOption{"expert_shared_count", kKnown, said_shared_count, nullptr},
    GgufOption{"moe_latent_size", kNeeded, said_expert_latent, read_expert_latent},
    GgufOption{"expert_group_count", kNeeded, said_groups<&MoeSpec::groups>, read_groups},
    GgufOption{"expert_group_used_count", kNeeded, said_groups<&MoeSpec::used_groups>, nullptr},
    GgufOption{"interleave_moe_layer_step", kKnown, said_expert_step, nullptr},
    GgufOption{"expert_gating_func", kKnown, said_gating, read_gating},
    GgufOption{"expert_weights_norm", kKnown, said_normalized, read_normalized},
    GgufOption{"expert_weights_scale", kKnown, said_expert_scale, read_expert_scale},
    GgufOption{"rope.dimension_sections", kKnown, said_sections, nullptr},
    GgufOption{"rope.scaling.finetuned", kKnown, said_finetuned, read_finetuned},
    GgufOption{"leading_dense_block_count", kKnown, said_leading_dense, nullptr},
};

}  // namespace

std::span<const GgufOption> gguf_options() { return kOptions; }

}  // namespace kvasir
