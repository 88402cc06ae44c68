// quantization_config of a config.json: how a folder's weights are quantized. What single tensors are, the files say;
// this tells what they leave open, and refuses what is not read.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/json_reader.h"

namespace kvasir {

struct QuantizationConfig {
  enum class Method : std::uint8_t { kFp8, kMxfp4, kAwq, kGptq, kCompressedTensors };

  Method method = Method::kFp8;
  std::array<std::int64_t, 2> block{128, 128};  // outputs and inputs of an fp8 scale, where scales are for blocks
  int zero_offset = 0;                          // GPTQ: what is added to the zeros of a file

  friend bool operator==(const QuantizationConfig&, const QuantizationConfig&) = default;
};

// Of the value of "quantization_config". Throws Error that names the field and the value that is not supported.
QuantizationConfig parse_quantization(const JsonReader& in);

// Of a folder's config.json; none where it has none or that has no quantization_config.
std::optional<QuantizationConfig> folder_quantization(const std::filesystem::path& folder);

// Every number of it: with that of the tensors its hash says what the weights are.
std::string to_text(const QuantizationConfig& config);

}  // namespace kvasir
