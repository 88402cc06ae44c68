// Types of weights on disk and in memory. ActivationPrecision are always float32.
//
// A type cuts a row into blocks of block_elements numbers, block_bytes each; a plain type's block is one number. A
// row is always whole blocks: nothing is ever cut inside one, so rows can be moved about without being decoded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace kvasir {

enum class DType : std::uint8_t {
  // Plain numbers.
  kF32,
  kF16,
  kBF16,
  // Blocks of 32 numbers with a scale (x = d q), or a scale and an offset (x = d q + m).
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kIQ4_NL,  // q names one of 16 levels that lie closer to each other near zero
  kMXFP4,   // q is a number of four bits with an exponent (e2m1), the scale a power of two
  // Blocks of 256 numbers whose sub-blocks have small integer scales of their own.
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_XS,  // levels as kIQ4_NL's
  // Blocks of 32 numbers with a float32 scale: what other formats of quantized weights become as they are read. No
  // GGUF
  // file has them.
  kInt8x32,
  kInt4x32,  // with a zero of its own: x = d (q - zero)
  kFp8x32,   // e4m3; never rounded to integers, and neither is what it is multiplied with
};

struct WeightType {
  DType type;
  std::string_view name;  // as options and reports spell it
  int block_elements;
  int block_bytes;
};

// By DType.
inline constexpr std::array<WeightType, 19> kWeightTypes{{{DType::kF32, "f32", 1, 4},
                                                          {DType::kF16, "f16", 1, 2},
                                                          {DType::kBF16, "bf16", 1, 2},
                                                          {DType::kQ8_0, "q8_0", 32, 34},
                                                          {DType::kQ4_0, "q4_0", 32, 18},
                                                          {DType::kQ4_1, "q4_1", 32, 20},
                                                          {DType::kQ5_0, "q5_0", 32, 22},
                                                          {DType::kQ5_1, "q5_1", 32, 24},
                                                          {DType::kIQ4_NL, "iq4_nl", 32, 18},
                                                          {DType::kMXFP4, "mxfp4", 32, 17},
                                                          {DType::kQ2_K, "q2_k", 256, 84},
                                                          {DType::kQ3_K, "q3_k", 256, 110},
                                                          {DType::kQ4_K, "q4_k", 256, 144},
                                                          {DType::kQ5_K, "q5_k", 256, 176},
                                                          {DType::kQ6_K, "q6_k", 256, 210},
                                                          {DType::kIQ4_XS, "iq4_xs", 256, 136},
                                                          {DType::kInt8x32, "int8x32", 32, 36},
                                                          {DType::kInt4x32, "int4x32", 32, 21},
                                                          {DType::kFp8x32, "fp8x32", 32, 36}}};

constexpr const WeightType& weight_type(DType type) { return kWeightTypes[static_cast<size_t>(type)]; }
constexpr std::string_view name_of(DType type) { return weight_type(type).name; }
constexpr int block_elements(DType type) { return weight_type(type).block_elements; }
constexpr size_t block_bytes(DType type) { return static_cast<size_t>(weight_type(type).block_bytes); }
constexpr bool is_quantized(DType type) { return block_elements(type) > 1; }
constexpr bool has_integers(DType type) { return is_quantized(type) && type != DType::kFp8x32; }
constexpr bool in_gguf(DType type) { return type < DType::kInt8x32; }

// Bytes of a row, or of any whole number of blocks: `elements` is a multiple of block_elements.
constexpr size_t row_bytes(DType type, std::int64_t elements) {
  return static_cast<size_t>(elements / block_elements(type)) * block_bytes(type);
}

// The type of that name, or none.
constexpr std::optional<DType> weight_type_named(std::string_view name) {
  for (const WeightType& entry : kWeightTypes) {
    if (entry.name == name) return entry.type;
  }
  return std::nullopt;
}

constexpr bool kWeightTypesInOrder = [] {
  for (size_t i = 0; i < kWeightTypes.size(); ++i) {
    if (kWeightTypes[i].type != static_cast<DType>(i)) return false;
  }
  return true;
}();
static_assert(kWeightTypesInOrder, "kWeightTypes is indexed by DType");

}  // namespace kvasir
