// A model of a known shape with random weights, and a tokenizer that has a text for each of its tokens: speed without
// a download.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace kvasir::bench {

// The folder, made once under the system's folder for temporary files.
std::filesystem::path synthetic_model(const std::string& shape);

std::int64_t vocabulary_of(const std::filesystem::path& model);  // tokens, from its config.json

}  // namespace kvasir::bench
