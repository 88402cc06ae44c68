#include "model/quantized/coded_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/quant/blocks.h"
#include "base/error.h"
#include "layout/codec_fp8.h"

namespace kvasir {
namespace {

using Code = CodedMatrix::Code;
using quant::kSmallBlock;

constexpr int kMiddleOfInt8 = 128;
constexpr int kLargestZero = 16;  // of codes of four bits: GPTQ's are from 1 on
constexpr const char* kUseAnotherCopy = "use another copy of the model: this one was damaged, or badly quantized";

// The scales and zeros of one row.
struct RowGroups {
  std::vector<float> scales;
  std::vector<int> zeros;
};

RowGroups groups_of_row(const CodedMatrix& matrix, int row, const std::string& where) {
  RowGroups out;
  for (int g = 0; g < matrix.groups(); ++g) {
    out.scales.push_back(matrix.scale(row, g));
    out.zeros.push_back(matrix.shape().code == Code::kE4m3 ? 0 : matrix.zero(row, g));
    const int zero = out.zeros.back();
    if (matrix.shape().code == Code::kInt4 && (zero < 0 || zero > kLargestZero)) {
      fail_input(fmt::format("the zero of '{}' for output {} and group {} is {}, outside 0..{}", matrix.name(), row,
                             g, zero, kLargestZero),
                 where, kUseAnotherCopy);
    }
    if (std::isfinite(out.scales.back())) continue;
    fail_input(
        fmt::format("the scale of '{}' for output {} and group {} is {}", matrix.name(), row, g, out.scales.back()),
        where, kUseAnotherCopy);
  }
  return out;
}

void check_codes(const CodedMatrix& matrix, const std::uint8_t* codes, int row, const std::string& where) {
  if (matrix.shape().code != Code::kE4m3) return;
  const auto* end = codes + matrix.shape().cols;
  const auto* found = std::find_if(codes, end, [](std::uint8_t code) { return (code & 0x7f) == 0x7f; });
  if (found == end) return;
  fail_input(fmt::format("'{}' has a weight that is no number, of output {} and input {}", matrix.name(), row,
                         found - codes),
             where, kUseAnotherCopy);
}

bool all_in_the_middle(const CodedMatrix& matrix) {
  for (int row = 0; row < matrix.shape().rows; ++row) {
    for (int g = 0; g < matrix.groups(); ++g) {
      if (matrix.zero(row, g) != kMiddleOfInt8) return false;
    }
  }
  return true;
}

DType type_for(const CodedMatrix& matrix) {
  const CodedMatrix::Shape& shape = matrix.shape();
  const bool one_group = shape.group >= shape.cols;
  const bool whole_blocks = shape.cols % kSmallBlock == 0 && (one_group || shape.group % kSmallBlock == 0);
  if (!whole_blocks || !matrix.in_order()) return DType::kF32;
  if (shape.code == Code::kE4m3) return DType::kFp8x32;
  if (shape.code == Code::kInt4) return DType::kInt4x32;
  return all_in_the_middle(matrix) ? DType::kInt8x32 : DType::kF32;
}

void put_block(const std::uint8_t* codes, quant::Int4x32& block) {
  for (int i = 0; i < 16; ++i) block.q[i] = static_cast<std::uint8_t>(codes[i] | codes[i + 16] << 4);
}
void put_block(const std::uint8_t* codes, quant::Int8x32& block) {
  for (int i = 0; i < kSmallBlock; ++i) block.q[i] = static_cast<std::int8_t>(codes[i] - kMiddleOfInt8);
}
void put_block(const std::uint8_t* codes, quant::Fp8x32& block) { std::memcpy(block.q, codes, sizeof block.q); }

template <class Block>
void put_row(const CodedMatrix& matrix, const std::uint8_t* codes, const RowGroups& groups, std::byte* to) {
  for (int col = 0; col < matrix.shape().cols; col += kSmallBlock, to += sizeof(Block)) {
    const auto g = static_cast<size_t>(matrix.group_of(col));
    Block block;
    std::memcpy(block.d, &groups.scales[g], sizeof block.d);
    if constexpr (requires { block.zero; }) block.zero = static_cast<std::uint8_t>(groups.zeros[g]);
    put_block(codes + col, block);
    std::memcpy(to, &block, sizeof block);
  }
}

void put_floats(const CodedMatrix& matrix, const std::uint8_t* codes, const RowGroups& groups, std::byte* to) {
  for (int col = 0; col < matrix.shape().cols; ++col, to += sizeof(float)) {
    const auto g = static_cast<size_t>(matrix.group_of(col));
    const float code = matrix.shape().code == Code::kE4m3 ? CodecE4M3::decode(codes[col])
                                                          : static_cast<float>(codes[col] - groups.zeros[g]);
    const float value = groups.scales[g] * code;
    std::memcpy(to, &value, sizeof value);
  }
}

void put_row_as(DType type, const CodedMatrix& matrix, const std::uint8_t* codes, const RowGroups& groups,
                std::byte* to) {
  if (type == DType::kInt4x32) return put_row<quant::Int4x32>(matrix, codes, groups, to);
  if (type == DType::kInt8x32) return put_row<quant::Int8x32>(matrix, codes, groups, to);
  if (type == DType::kFp8x32) return put_row<quant::Fp8x32>(matrix, codes, groups, to);
  put_floats(matrix, codes, groups, to);
}

}  // namespace

RelaidMatrix relay(const CodedMatrix& matrix, const std::string& where) {
  const auto [code, rows, cols, group] = matrix.shape();
  RelaidMatrix out;
  out.dtype = type_for(matrix);
  const size_t row_size = row_bytes(out.dtype, cols);
  out.bytes.resize(row_size * static_cast<size_t>(rows));
  std::vector<std::uint8_t> strip(static_cast<size_t>(kStripRows) * static_cast<size_t>(cols));
  for (int first = 0; first < rows; first += kStripRows) {
    const int count = std::min(kStripRows, rows - first);
    matrix.read_codes(first, count, strip.data());
    for (int i = 0; i < count; ++i) {
      const std::uint8_t* codes = strip.data() + static_cast<size_t>(i) * static_cast<size_t>(cols);
      check_codes(matrix, codes, first + i, where);
      const RowGroups groups = groups_of_row(matrix, first + i, where);
      put_row_as(out.dtype, matrix, codes, groups, out.bytes.data() + row_size * static_cast<size_t>(first + i));
    }
  }
  return out;
}

}  // namespace kvasir
