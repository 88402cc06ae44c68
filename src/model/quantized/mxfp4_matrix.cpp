// Matrices of MXFP4 as gpt-oss has them, one expert's after the other.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backend/quant/blocks.h"
#include "base/error.h"
#include "model/quantized/coded_formats.h"

namespace kvasir {
namespace {

constexpr std::uint8_t kNoExponent = 255;  // stands for no number

// A file has number 2 j in the low nibble of byte j and 2 j + 1 in the high one; a block of ours has j and j + 16.
quant::MXFP4 in_halves(std::uint8_t exponent, const std::byte* pairs) {
  const auto code = [pairs](int i) { return std::to_integer<int>(pairs[i / 2]) >> (i % 2 * 4) & 15; };
  quant::MXFP4 block{exponent, {}};
  for (int j = 0; j < 16; ++j) block.q[j] = static_cast<std::uint8_t>(code(j) | code(j + 16) << 4);
  return block;
}

FileTensor mxfp4_part(const std::string& name, const FindTensor& find, std::initializer_list<std::int64_t> shape,
                      const std::string& where) {
  const std::optional<FileTensor> tensor = find(name);
  constexpr const char* kFix = "check that the config and the weights belong together";
  if (!tensor) fail_input(fmt::format("tensor '{}' is missing", name), where, kFix);
  const bool bytes = tensor->type == "U8" || tensor->type == "F8_E8M0";
  if (!bytes || !std::ranges::equal(tensor->shape, shape)) {
    fail_input(fmt::format("tensor '{}' is [{}] of {}, and the config calls for [{}] of U8", name,
                           fmt::join(tensor->shape, ", "), tensor->type, fmt::join(shape, ", ")),
               where, kFix);
  }
  return *tensor;
}

}  // namespace

RelaidMatrix mxfp4_matrix(const AskedMatrix& asked, const FindTensor& find, const std::string& where) {
  const std::int64_t across = asked.cols / quant::kSmallBlock;
  if (asked.cols % quant::kSmallBlock != 0) {
    fail_input(fmt::format("'{}' has {} inputs, and MXFP4 takes blocks of 32", asked.name, asked.cols), where,
               "check that the config and the weights belong together");
  }
  const bool alone = asked.expert < 0;
  const int experts = alone ? 1 : asked.experts;
  const FileTensor codes = alone ? mxfp4_part(asked.name + "_blocks", find, {asked.rows, across, 16}, where)
                                 : mxfp4_part(asked.name + "_blocks", find, {experts, asked.rows, across, 16}, where);
  const FileTensor scales = alone ? mxfp4_part(asked.name + "_scales", find, {asked.rows, across}, where)
                                  : mxfp4_part(asked.name + "_scales", find, {experts, asked.rows, across}, where);
  const auto blocks = static_cast<size_t>(asked.rows) * static_cast<size_t>(across);
  const size_t first = alone ? 0 : static_cast<size_t>(asked.expert) * blocks;
  RelaidMatrix out;
  out.dtype = DType::kMXFP4;
  out.bytes.resize(blocks * sizeof(quant::MXFP4));
  for (size_t i = 0; i < blocks; ++i) {
    const auto exponent = scales.at<std::uint8_t>(static_cast<std::int64_t>(first + i));
    if (exponent == kNoExponent) {
      fail_input(fmt::format("the scale of '{}' for output {} and block {} is no number", asked.name,
                             i / static_cast<size_t>(across), i % static_cast<size_t>(across)),
                 where, "use another copy of the model: this one was damaged, or badly quantized");
    }
    const quant::MXFP4 block = in_halves(exponent, codes.bytes.data() + (first + i) * 16);
    std::memcpy(out.bytes.data() + i * sizeof block, &block, sizeof block);
  }
  return out;
}

}  // namespace kvasir
