// Models of any shape with random weights, as a Hugging Face folder: speed can be measured without a download.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "model/config.h"

namespace kvasir {

struct RandomModelOptions {
  std::uint64_t seed = 1;
  std::function<void(std::uint64_t done, std::uint64_t all)> progress;  // bytes written; may be empty
};

// Writes config.json and model.safetensors; the same shape and seed give the same bytes. The folder is made if need
// be; a model already in it is not overwritten. Throws Error.
void write_random_model(const ModelConfig& config, const std::filesystem::path& folder,
                        const RandomModelOptions& options);

}  // namespace kvasir
