#include "model/gguf/gguf_rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "backend/quant/decode.h"
#include "model/rope_frequencies.h"
#include "model/tensors.h"

namespace kvasir {
namespace {

constexpr std::string_view kLongFactors = "rope_factors_long.weight";
constexpr std::string_view kShortFactors = "rope_factors_short.weight";
constexpr double kStoredMultiplier = 0.1;  // of what configs call mscale_all_dim, in files of latent attention
constexpr float kStandsStill = 1e30F;      // what divides the frequency of a pair that does not turn

constexpr std::string_view kMagnitude = "rope.scaling.attn_factor";
constexpr std::string_view kLogMultiplier = "rope.scaling.yarn_log_multiplier";

double yarn_magnitude(double factor, double scale) {
  return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0;
}

// What cosines and sines grow by where only the factor is known.
double usual_yarn_magnitude(double factor) { return yarn_magnitude(factor, 1); }

std::vector<float> read_factors(const GgufReader& in, std::string_view name, int count) {
  const GgufTensor& stored = *in.model().find(name);
  const std::vector<std::int64_t> expected{count};
  if (stored.dtype != DType::kF32 || stored.shape != expected) {
    in.fail(fmt::format("{} is not {} numbers of type f32", name, count));
  }
  std::vector<float> out(static_cast<size_t>(count));
  decode_row(DType::kF32, stored.bytes.data(), count, out.data());
  for (const float factor : out) {
    if (!std::isfinite(factor) || factor <= 0) in.fail(fmt::format("{} holds {}", name, factor));
  }
  return out;
}

// Pairs of which the last do not turn, the others alike: a share of whole heads.
bool read_proportional(const std::vector<float>& factors, RopeSpec& rope) {
  const auto still = std::ranges::find(factors, kStandsStill);
  const bool alike = std::all_of(factors.begin(), still, [&](float one) { return one == factors.front(); }) &&
                     std::all_of(still, factors.end(), [](float one) { return one == kStandsStill; });
  if (still == factors.end() || still == factors.begin() || !alike) return false;
  rope.scaling = RopeSpec::Scaling::kProportional;
  rope.factor = factors.front();
  rope.rotated = static_cast<double>(still - factors.begin()) / static_cast<double>(factors.size());
  return true;
}

void read_factor_tensors(const GgufReader& in, int pairs, std::int64_t context, RopeSpec& rope) {
  if (in.has_tensor(kLongFactors) && in.has_tensor(kShortFactors)) {
    rope.scaling = RopeSpec::Scaling::kLongRope;
    rope.factors = read_factors(in, kLongFactors, pairs);
    rope.short_factors = read_factors(in, kShortFactors, pairs);
    rope.original_context =
        in.integer_if("rope.scaling.original_context_length", 1, ShapeLimits::kContext).value_or(context);
    rope.magnitude = in.positive_if(kMagnitude).value_or(1.0);
  } else if (in.has_tensor(kGgufRopeFactors)) {
    const std::vector<float> factors = read_factors(in, kGgufRopeFactors, pairs);
    if (read_proportional(factors, rope)) return;
    rope.scaling = RopeSpec::Scaling::kFactors;
    rope.factors = factors;
  }
}

void read_yarn(const GgufReader& in, std::int64_t context, RopeSpec& rope) {
  rope.scaling = RopeSpec::Scaling::kYarn;
  rope.factor = in.positive_if("rope.scaling.factor").value_or(1.0);
  rope.original_context =
      in.integer_if("rope.scaling.original_context_length", 1, ShapeLimits::kContext).value_or(context);
  rope.beta_fast = in.positive_if("rope.scaling.yarn_beta_fast").value_or(rope.beta_fast);
  rope.beta_slow = in.positive_if("rope.scaling.yarn_beta_slow").value_or(rope.beta_slow);
  rope.magnitude = in.positive_if(kMagnitude).value_or(1.0) * usual_yarn_magnitude(rope.factor);
}

// What configs call mscale_all_dim, where it divides the magnitude and scales no scores.
void divide_magnitude(const GgufReader& in, RopeSpec& rope) {
  const double all = in.not_negative_if(kLogMultiplier).value_or(0);
  rope.magnitude /= yarn_magnitude(rope.factor, all);
}

// Configs say it in a few digits, which float32 has blurred.
double few_digits(double number) {
  const double rounded = std::round(number * 1e4) / 1e4;
  return std::fabs(rounded - number) < 2e-7 ? rounded : number;
}

bool near(double a, double b) { return std::fabs(a - b) <= 1e-6 * std::fabs(b); }  // float32 is what files hold

bool same_rope(const RopeSpec& a, const RopeSpec& b, int dim) {
  if (a.rotated_dim(dim) != b.rotated_dim(dim) || !near(a.magnitude, b.magnitude)) return false;
  if (!near(a.query_growth, b.query_growth)) return false;
  if (a.query_growth != 0 && (a.query_length != b.query_length || a.query_shift != b.query_shift)) return false;
  return std::ranges::equal(rope_frequencies(a, dim), rope_frequencies(b, dim), near);
}

}  // namespace

void read_gguf_rope(const GgufReader& in, DecoderConfig& config) {
  RopeSpec& rope = config.rope;
  rope.theta = in.positive_if("rope.freq_base").value_or(10000.0);
  const int turned = in.size_or("rope.dimension_count", config.head_dim, config.head_dim);
  rope.rotated = static_cast<double>(turned) / config.head_dim;
  const std::string_view type = in.text_if("rope.scaling.type").value_or("none");
  if (type == "linear") {
    rope.scaling = RopeSpec::Scaling::kLinear;
    rope.factor = in.positive_if("rope.scaling.factor").value_or(1.0);
  } else if (type == "yarn") {
    read_yarn(in, config.context, rope);
    if (config.latent.none()) divide_magnitude(in, rope);
  } else if (type != "none" && type != "longrope") {
    rope.scaling = RopeSpec::Scaling::kOther;
    rope.other = std::string(type.substr(0, 40));
  } else if (const auto factor = in.positive_if("rope.scale_linear")) {  // what old files say
    rope.scaling = RopeSpec::Scaling::kLinear;
    rope.factor = *factor;
  }
  if (rope.scaling == RopeSpec::Scaling::kNone) read_factor_tensors(in, turned / 2, config.context, rope);
  if (type == "longrope" && rope.scaling != RopeSpec::Scaling::kLongRope) {
    in.fail(fmt::format("rope.scaling.type is longrope, and there is no {}", kLongFactors));
  }
}

void read_latent_yarn(const GgufReader& in, YarnMagnitude magnitude, DecoderConfig& config) {
  RopeSpec& rope = config.rope;
  if (config.latent.none()) in.fail(fmt::format("{} is missing", in.key("attention.kv_lora_rank")));
  double grown = 1;  // scores grow by its square
  const double all = few_digits(in.finite_if(kLogMultiplier).value_or(0) / kStoredMultiplier);
  if (rope.scaling == RopeSpec::Scaling::kYarn && all == 0) {
    grown = rope.magnitude;
  } else if (rope.scaling == RopeSpec::Scaling::kYarn) {
    const double of_scores = yarn_magnitude(rope.factor, all);
    rope.magnitude = in.positive_if(kMagnitude).value_or(1.0);
    if (magnitude == YarnMagnitude::kDivided) rope.magnitude *= usual_yarn_magnitude(rope.factor) / of_scores;
    grown = rope.magnitude * of_scores;
    if (!(grown > 0) || !(rope.magnitude > 0)) in.fail(fmt::format("{} is {}", in.key(kLogMultiplier), all));
  }
  config.attention_scale = grown * grown / std::sqrt(static_cast<double>(config.latent.q_dim()));
}

namespace {

void say(GgufRope& out, std::string_view key, GgufOutValue value) {
  out.keys.push_back({std::string(key), std::move(value)});
}

void say_number(GgufRope& out, std::string_view key, double value) { say(out, key, static_cast<float>(value)); }

void say_length(GgufRope& out, std::string_view key, std::int64_t value) {
  say(out, key, static_cast<std::uint32_t>(std::min<std::int64_t>(value, UINT32_MAX)));
}

// Without the multiplier scores grow by the square of the magnitude; with it by that of both.
void say_latent_magnitude(const RopeSpec& rope, const AttentionSpec& attention, GgufRope& out) {
  const double scale = attention.scale * std::sqrt(static_cast<double>(attention.latent.q_dim()));
  const double grown = std::sqrt(scale) / rope.magnitude;
  if (near(grown, 1) || rope.factor <= 1)
    return say_number(out, kMagnitude, rope.magnitude / usual_yarn_magnitude(rope.factor));
  say_number(out, kMagnitude, rope.magnitude);
  say_number(out, kLogMultiplier, kStoredMultiplier * few_digits((grown - 1) / (0.1 * std::log(rope.factor))));
}

void say_yarn(const RopeSpec& rope, const AttentionSpec& attention, GgufRope& out) {
  say(out, "rope.scaling.type", std::string("yarn"));
  say_number(out, "rope.scaling.factor", rope.factor);
  say_length(out, "rope.scaling.original_context_length", rope.original_context);
  say_number(out, "rope.scaling.yarn_beta_fast", rope.beta_fast);
  say_number(out, "rope.scaling.yarn_beta_slow", rope.beta_slow);
  if (!attention.latent.none()) return say_latent_magnitude(rope, attention, out);
  say_number(out, kMagnitude, rope.magnitude / usual_yarn_magnitude(rope.factor));
}

void say_longrope(const RopeSpec& rope, GgufRope& out) {
  say(out, "rope.scaling.type", std::string("longrope"));
  say_length(out, "rope.scaling.original_context_length", rope.original_context);
  say_number(out, kMagnitude, rope.magnitude);
  out.vectors.push_back({std::string(kLongFactors), rope.factors});
  out.vectors.push_back({std::string(kShortFactors), rope.short_factors});
}

// What each frequency is divided by, as a tensor says it.
std::vector<float> divisors(const RopeSpec& rope, int dim) {
  if (rope.scaling == RopeSpec::Scaling::kFactors) return rope.factors;
  RopeSpec plain;
  plain.theta = rope.theta;
  if (rope.scaling != RopeSpec::Scaling::kProportional) plain.rotated = rope.rotated;
  const std::vector<double> unscaled = rope_frequencies(plain, dim);
  const std::vector<double> scaled = rope_frequencies(rope, dim);
  std::vector<float> out;
  for (size_t i = 0; i < scaled.size(); ++i) {
    out.push_back(scaled[i] == 0 ? kStandsStill : static_cast<float>(unscaled[i] / scaled[i]));
  }
  return out;
}

}  // namespace

GgufRope gguf_rope_of(const ModelSpec& spec) {
  using enum RopeSpec::Scaling;
  GgufRope out;
  const auto turned = std::ranges::find(spec.layers, 0, [](const LayerSpec& one) { return one.attention.rope; });
  if (spec.ropes.empty() || turned == spec.layers.end()) return out;
  const RopeSpec& rope = spec.ropes.front();
  const int dim = turned->attention.kv.k_dim;
  say_length(out, "rope.dimension_count", rope.scaling == kProportional ? dim : rope.rotated_dim(dim));
  say_number(out, "rope.freq_base", rope.theta);
  switch (rope.scaling) {
    case kLinear:
      say(out, "rope.scaling.type", std::string("linear"));
      say_number(out, "rope.scaling.factor", rope.factor);
      break;
    case kYarn:
      say_yarn(rope, turned->attention, out);
      break;
    case kLongRope:
      say_longrope(rope, out);
      break;
    case kLlama3:
    case kFactors:
    case kProportional:
      out.vectors.push_back({std::string(kGgufRopeFactors), divisors(rope, dim)});
      break;
    case kNone:
    case kDynamic:  // GGUF has no words for it, which same_rope() finds
    case kOther:
      break;
  }
  return out;
}

bool same_rope(const ModelSpec& a, const ModelSpec& b, int layer) {
  const AttentionSpec& x = a.attention(layer);
  const AttentionSpec& y = b.attention(layer);
  if (x.rope == kNoRope || y.rope == kNoRope) return x.rope == y.rope;
  const std::int64_t original = a.ropes[static_cast<size_t>(x.rope)].original_context;
  for (const std::int64_t context : {std::int64_t{1}, 2 * original}) {
    const RopeSpec ours = for_context(a, context).ropes[static_cast<size_t>(x.rope)];
    const RopeSpec theirs = for_context(b, context).ropes[static_cast<size_t>(y.rope)];
    if (!same_rope(ours, theirs, x.kv.k_dim)) return false;
  }
  return true;
}

}  // namespace kvasir
