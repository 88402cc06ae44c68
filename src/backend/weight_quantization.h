// What becomes of a matrix of weights as it is loaded.
//
// A form of 8 bits is a code for each weight and one float32 scale for each output, applied to the finished sum:
// y[o] = scale[o] * sum over k of code[o][k] x[k]. Codes are exact in bf16, and rows are rounded to that
// before they meet them (but with ActivationPrecision::kF32). quant/row_codes.h makes them.
#pragma once

#include <cstdint>
#include <string_view>

namespace kvasir {

enum class WeightQuantization : std::uint8_t {
  kAsStored,
  kInt8,  // integers, -127 to 127
  kFp8,   // e4m3
};

std::string_view name_of(WeightQuantization form);

// "as-stored", "int8" and "fp8". Throws Error.
WeightQuantization parse_weight_quantization(std::string_view name);

}  // namespace kvasir
