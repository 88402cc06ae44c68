#include "model/rope_config.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "model/families/family.h"

namespace kvasir {
namespace {

// What a rope's scaling may depend on beside its own numbers.
struct RopeContext {
  std::int64_t longest = 0;
  std::int64_t original = 0;  // "original_max_position_embeddings" of the whole config; 0: not there
  int head_dim = 0;
};

RopeContext rope_context(const JsonReader& in, const DecoderConfig& config) {
  return {config.context, config_integer(in, "original_max_position_embeddings", {1, ShapeLimits::kContext}, 0),
          config.head_dim};
}

// What cosines and sines grow by, so that scores stay as sharp as in the original context.
double yarn_magnitude(double factor, double scale) {
  return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0;
}

void read_yarn(const JsonReader& in, std::int64_t context, RopeSpec& rope) {
  rope.scaling = RopeSpec::Scaling::kYarn;
  rope.factor = in.get("factor").positive();
  rope.original_context = config_integer(in, "original_max_position_embeddings", {1, ShapeLimits::kContext}, context);
  rope.beta_fast = positive_or(in, "beta_fast", rope.beta_fast);
  rope.beta_slow = positive_or(in, "beta_slow", rope.beta_slow);
  if (rope.beta_slow > rope.beta_fast) in.fail_inside("beta_slow is above beta_fast");
  rope.whole_pairs = in.flag_or("truncate", true);
  const double scale = positive_or(in, "mscale", 0);
  const double all = positive_or(in, "mscale_all_dim", 0);
  rope.magnitude = yarn_magnitude(rope.factor, 1.0);
  if (scale != 0 && all != 0) rope.magnitude = yarn_magnitude(rope.factor, scale) / yarn_magnitude(rope.factor, all);
  rope.magnitude = positive_or(in, "attention_factor", rope.magnitude);
}

std::vector<float> read_factors(const JsonReader& in) {
  std::vector<float> out;
  if (in.items().size() > ShapeLimits::kHeadDim) in.fail("has more numbers than a head");
  for (const JsonReader one : in.items()) out.push_back(static_cast<float>(one.positive()));
  return out;
}

// Phi's: which factors apply is settled when the model is loaded.
void read_longrope(const JsonReader& in, const RopeContext& context, RopeSpec& rope) {
  rope.scaling = RopeSpec::Scaling::kLongRope;
  rope.factors = read_factors(in.get("long_factor"));
  rope.short_factors = read_factors(in.get("short_factor"));
  const std::int64_t own =
      config_integer(in, "original_max_position_embeddings", {1, ShapeLimits::kContext}, context.longest);
  rope.original_context = context.original > 0 ? context.original : own;
  const double stretched =
      positive_or(in, "factor", static_cast<double>(context.longest) / static_cast<double>(rope.original_context));
  if (stretched > 1 && rope.original_context > 1) {
    rope.magnitude = std::sqrt(1 + std::log(stretched) / std::log(static_cast<double>(rope.original_context)));
  }
  rope.magnitude = positive_or(in, "attention_factor", rope.magnitude);
}

// NTK: Hunyuan gives what theta is to grow by, others let it grow with the text.
void read_dynamic(const JsonReader& in, const RopeContext& context, RopeSpec& rope) {
  if (in.find("alpha")) {
    const int dim = rope.rotated_dim(context.head_dim);
    if (dim > 2) rope.theta *= std::pow(in.get("alpha").positive(), dim / (dim - 2.0));
    return;
  }
  rope.scaling = RopeSpec::Scaling::kDynamic;
  rope.factor = in.get("factor").positive();
  rope.original_context =
      config_integer(in, "original_max_position_embeddings", {1, ShapeLimits::kContext}, context.longest);
}

// `in` holds the scaling's own numbers: rope_scaling of old configs, rope_parameters of new ones.
void read_rope_scaling(const JsonReader& in, const RopeContext& context, RopeSpec& rope) {
  const std::string_view type = in.text_or("rope_type", in.text_or("type", "default"));
  const bool longrope = type == "longrope" || type == "su" || in.find("long_factor").has_value();
  if (longrope) return read_longrope(in, context, rope);  // older files call it su, or yarn
  if (type == "default" || type == "mrope") return;       // of texts alone, mrope is the usual one
  if (type == "linear") {
    rope.scaling = RopeSpec::Scaling::kLinear;
    rope.factor = in.get("factor").positive();
  } else if (type == "llama3") {
    rope.scaling = RopeSpec::Scaling::kLlama3;
    rope.factor = in.get("factor").positive();
    rope.low_freq_factor = in.get("low_freq_factor").positive();
    rope.high_freq_factor = in.get("high_freq_factor").positive();
    rope.original_context = in.get("original_max_position_embeddings").integer({1, ShapeLimits::kContext});
    if (rope.high_freq_factor <= rope.low_freq_factor) {
      in.fail_inside("high_freq_factor is not above low_freq_factor");
    }
  } else if (type == "yarn") {
    read_yarn(in, context.longest, rope);
  } else if (type == "dynamic") {
    read_dynamic(in, context, rope);
  } else if (type == "proportional") {
    rope.scaling = RopeSpec::Scaling::kProportional;
    rope.factor = positive_or(in, "factor", 1.0);
  } else {
    rope.scaling = RopeSpec::Scaling::kOther;
    rope.other = std::string(type.substr(0, 40));
  }
}

}  // namespace

void read_rope(const JsonReader& in, DecoderConfig& config) {
  const RopeContext context = rope_context(in, config);
  RopeSpec& rope = config.rope;
  rope.theta = positive_or(in, "rope_theta", rope.theta);
  rope.rotated = positive_or(in, "partial_rotary_factor", rope.rotated);
  if (std::optional<JsonReader> parameters = in.find("rope_parameters")) {
    // A hybrid model has one set for each kind of layer; the one of its global layers is the model's.
    if (const std::optional<JsonReader> global = parameters->find("full_attention")) parameters.emplace(*global);
    rope.theta = positive_or(*parameters, "rope_theta", rope.theta);
    rope.rotated = positive_or(*parameters, "partial_rotary_factor", rope.rotated);
    read_rope_scaling(*parameters, context, rope);
  } else if (const std::optional<JsonReader> scaling = in.find("rope_scaling")) {
    read_rope_scaling(*scaling, context, rope);
  }
  if (rope.rotated > 1) in.fail_inside(fmt::format("partial_rotary_factor is {}, above 1", rope.rotated));
}

void read_local_rope(const JsonReader& in, const RopeSpec& fallback, DecoderConfig& config) {
  config.local_rope = fallback;
  const std::optional<JsonReader> parameters = in.find("rope_parameters");
  if (!parameters) return;
  const std::optional<JsonReader> local = parameters->find("sliding_attention");
  if (!local) return;
  config.local_rope->theta = positive_or(*local, "rope_theta", fallback.theta);
  read_rope_scaling(*local, rope_context(in, config), *config.local_rope);
}

}  // namespace kvasir
