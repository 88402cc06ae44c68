// Models of any shape with random weights: speed can be measured without a download.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "model/config.h"
#include "model/model.h"

namespace kvasir {

struct RandomModelOptions {
  std::uint64_t seed = 1;
  std::string config = {};  // the text of the config.json that the spec was read from; empty: one is written of it
  std::function<void(std::uint64_t done, std::uint64_t all)> progress;  // bytes written; may be empty
};

// As a Hugging Face folder: writes config.json and model.safetensors; the same shape and seed give the same bytes.
// The folder is made if need be; a model already in it is not overwritten. Throws Error.
void write_random_model(const ModelSpec& spec, const std::filesystem::path& folder,
                        const RandomModelOptions& options);

// The model that write_random_model would write, without a file: its weights are made in pieces on their way to the
// backend. Throws Error.
std::unique_ptr<Model> make_random_model(const ModelSpec& spec, Backend& backend, const LoadOptions& options,
                                         std::uint64_t seed);

}  // namespace kvasir
