// The sampling that a model's authors ask for: Hugging Face's generation_config.json.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "sample/sampling_overrides.h"

namespace kvasir {

// temperature, top_k (up to 0: all), top_p, min_p and repetition_penalty; do_sample: false is temperature 0, whatever
// else is there. Other keys are for other readers. Throws Error on values of the wrong type or out of range.
SamplingOverrides parse_generation_config(std::string_view json, const std::string& where);

// The same of the file in a model's folder; without a file nothing is named.
SamplingOverrides load_generation_config(const std::filesystem::path& folder);

}  // namespace kvasir
