#include "sample/sampling_overrides.h"

#include <fmt/format.h>

namespace kvasir {
namespace {

void apply(const SamplingOverrides& named, SamplingParams& params) {
  params.temperature = named.temperature.value_or(params.temperature);
  params.top_k = named.top_k.value_or(params.top_k);
  params.top_p = named.top_p.value_or(params.top_p);
  params.min_p = named.min_p.value_or(params.min_p);
  params.repetition_penalty = named.repetition_penalty.value_or(params.repetition_penalty);
}

template <class Value>
void add_text(std::string& out, const char* name, const std::optional<Value>& value) {
  if (value) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name, *value);
}

}  // namespace

SamplingParams resolve_sampling(SamplingParams habit, const SamplingOverrides& model,
                                const SamplingOverrides& request) {
  constexpr SamplingOverrides kOff{1.0F, 0, 1.0F, 0.0F, 1.0F};
  if (!model.empty()) {
    apply(kOff, habit);
    apply(model, habit);
  }
  apply(request, habit);
  return habit;
}

std::string to_text(const SamplingOverrides& named) {
  std::string out;
  add_text(out, "temperature", named.temperature);
  add_text(out, "top_k", named.top_k);
  add_text(out, "top_p", named.top_p);
  add_text(out, "min_p", named.min_p);
  add_text(out, "repetition_penalty", named.repetition_penalty);
  return out;
}

}  // namespace kvasir
