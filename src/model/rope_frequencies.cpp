#include "model/rope_frequencies.h"

#include <cmath>
#include <numbers>

#include "base/check.h"

namespace kvasir {
namespace {

// Llama 3.1: long wavelengths are stretched by `factor`, short ones are kept, those between are blended.
double llama3(const RopeConfig& rope, double frequency) {
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  const auto original = static_cast<double>(rope.original_context);
  if (wavelength > original / rope.low_freq_factor) return frequency / rope.factor;
  if (wavelength < original / rope.high_freq_factor) return frequency;
  const double kept = (original / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1.0 - kept) * frequency / rope.factor + kept * frequency;
}

}  // namespace

std::vector<double> rope_frequencies(const RopeConfig& rope, int head_dim) {
  std::vector<double> out;
  for (int i = 0; i < head_dim / 2; ++i) {
    const double frequency = std::pow(rope.theta, -2.0 * i / head_dim);
    switch (rope.scaling) {
      case RopeConfig::Scaling::kNone:
        out.push_back(frequency);
        break;
      case RopeConfig::Scaling::kLinear:
        out.push_back(frequency / rope.factor);
        break;
      case RopeConfig::Scaling::kLlama3:
        out.push_back(llama3(rope, frequency));
        break;
      case RopeConfig::Scaling::kFactors:
        out.push_back(frequency / static_cast<double>(rope.factors[static_cast<size_t>(i)]));
        break;
      case RopeConfig::Scaling::kOther:
        CHECK(false);  // check_runnable refused it
    }
  }
  return out;
}

}  // namespace kvasir
