// Who says how a token is drawn: the request, the model's authors, or the habit of the API that was asked.
#pragma once

#include <optional>
#include <string>

#include "sample/sampler.h"

namespace kvasir {

// Settings of a draw that somebody named. Unset: nothing was said of it.
struct SamplingOverrides {
  std::optional<float> temperature{};
  std::optional<int> top_k{};
  std::optional<float> top_p{};
  std::optional<float> min_p{};
  std::optional<float> repetition_penalty{};

  bool empty() const { return !temperature && !top_k && !top_p && !min_p && !repetition_penalty; }
};

// How a request is drawn. What it names itself wins; then what the model's generation_config.json names. A model that
// names something gets that alone, and what it leaves out is off (temperature 1); for one that names nothing, `habit`
// has the rest. Penalties of frequency and presence, bias and seed are those of `habit` always.
SamplingParams resolve_sampling(SamplingParams habit, const SamplingOverrides& model,
                                const SamplingOverrides& request);

// "temperature 0.7, top_p 0.9": what is named. Empty when nothing is.
std::string to_text(const SamplingOverrides& named);

}  // namespace kvasir
