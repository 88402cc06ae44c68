#include "model/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace kvasir {
namespace {

// Llama 3.1: long wavelengths are stretched by `factor`, short ones are kept, those between are blended.
double llama3(const RopeSpec& rope, double frequency) {
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  const auto original = static_cast<double>(rope.original_context);
  if (wavelength > original / rope.low_freq_factor) return frequency / rope.factor;
  if (wavelength < original / rope.high_freq_factor) return frequency;
  const double kept = (original / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1.0 - kept) * frequency / rope.factor + kept * frequency;
}

// YaRN: pairs that turn often within the original context are kept, those that hardly turn are stretched by `factor`,
// and those between are blended. A pair may be a fraction here.
struct YarnBounds {
  double kept = 0;       // pairs up to it
  double stretched = 0;  // pairs from it on

  double share_stretched(int pair) const {
    const double width = kept == stretched ? 0.001 : stretched - kept;
    return std::clamp((pair - kept) / width, 0.0, 1.0);
  }
};

YarnBounds yarn_bounds(const RopeSpec& rope, int head_dim) {
  const auto pair_of = [&](double turns) {
    const double wavelength = static_cast<double>(rope.original_context) / (turns * 2.0 * std::numbers::pi);
    return head_dim * std::log(wavelength) / (2.0 * std::log(rope.theta));
  };
  YarnBounds out{pair_of(rope.beta_fast), pair_of(rope.beta_slow)};
  if (rope.whole_pairs) out = {std::floor(out.kept), std::ceil(out.stretched)};
  return {std::max(out.kept, 0.0), std::min(out.stretched, head_dim - 1.0)};
}

}  // namespace

std::vector<double> rope_frequencies(const RopeSpec& rope, int head_dim) {
  const bool proportional = rope.scaling == RopeSpec::Scaling::kProportional;
  const int turned = rope.rotated_dim(head_dim);
  const int dim = proportional ? head_dim : turned;
  const YarnBounds yarn = rope.scaling == RopeSpec::Scaling::kYarn ? yarn_bounds(rope, dim) : YarnBounds{};
  std::vector<double> out;
  for (int i = 0; i < dim / 2; ++i) {
    const double frequency = std::pow(rope.theta, -2.0 * i / dim);
    switch (rope.scaling) {
      case RopeSpec::Scaling::kNone:
        out.push_back(frequency);
        break;
      case RopeSpec::Scaling::kLinear:
        out.push_back(frequency / rope.factor);
        break;
      case RopeSpec::Scaling::kProportional:
        out.push_back(i < turned / 2 ? frequency / rope.factor : 0.0);
        break;
      case RopeSpec::Scaling::kLlama3:
        out.push_back(llama3(rope, frequency));
        break;
      case RopeSpec::Scaling::kFactors:
        out.push_back(frequency / static_cast<double>(rope.factors[static_cast<size_t>(i)]));
        break;
      case RopeSpec::Scaling::kYarn: {
        const double stretched = yarn.share_stretched(i);
        out.push_back(frequency / rope.factor * stretched + frequency * (1.0 - stretched));
        break;
      }
      case RopeSpec::Scaling::kLongRope:
      case RopeSpec::Scaling::kDynamic:
      case RopeSpec::Scaling::kOther:
        CHECK(false);  // for_context() settles the first two, and check_runnable refused the last
    }
  }
  return out;
}

int RopeSpec::rotated_dim(int head_dim) const {
  return static_cast<int>(std::floor(rotated * head_dim + 1e-6)) / 2 * 2;
}

namespace {

// What the rope of a text of this length is to dynamic NTK: theta grows beyond the original context.
void settle_dynamic(RopeSpec& rope, std::int64_t context, int head_dim) {
  rope.scaling = RopeSpec::Scaling::kNone;
  const double times = static_cast<double>(context) / static_cast<double>(rope.original_context);
  const int dim = rope.rotated_dim(head_dim);
  if (times > 1 && dim > 2) {
    rope.theta *= std::pow(rope.factor * times - (rope.factor - 1), dim / (dim - 2.0));
  }
  rope.factor = 1;
}

}  // namespace

ModelSpec for_context(ModelSpec spec, std::int64_t context) {
  const std::int64_t longest = context > 0 ? context : spec.context;
  // Biases by distance have no end: beyond the last bucket's all distances are alike.
  if (spec.reads_source() && spec.positions == 0) spec.context = std::max(spec.context, longest);
  for (ModelSpec& encoder : spec.encoder) encoder.context = spec.context;
  for (int i = 0; i < static_cast<int>(spec.ropes.size()); ++i) {
    RopeSpec& rope = spec.ropes[static_cast<size_t>(i)];
    if (rope.scaling == RopeSpec::Scaling::kLongRope) {
      if (longest <= rope.original_context) rope.factors = rope.short_factors;
      rope.short_factors.clear();
      rope.scaling = RopeSpec::Scaling::kFactors;
    } else if (rope.scaling == RopeSpec::Scaling::kDynamic) {
      const auto layer = std::ranges::find(spec.layers, i, [](const LayerSpec& one) { return one.attention.rope; });
      if (layer != spec.layers.end()) settle_dynamic(rope, longest, layer->attention.kv.k_dim);
      spec.context = std::max(spec.context, longest);
    }
  }
  return spec;
}

}  // namespace kvasir
