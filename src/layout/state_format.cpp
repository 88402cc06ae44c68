#include "layout/state_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "layout/codec_bf16.h"

namespace kvasir {
namespace {

constexpr std::array<std::string_view, 3> kNames{"f32", "bf16", "int8"};
constexpr float kMostCode = 127.0F;
constexpr float kMostNumber = 1e30F;
constexpr float kLeastScale = 1e-30F;  // a row of smaller numbers is all zeros
constexpr std::int64_t kAlignment = 4;

using Half = CodecBF16::Stored;

std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

float sound(float x) { return std::isnan(x) ? 0.0F : std::clamp(x, -kMostNumber, kMostNumber); }

Half half_of(float x) { return CodecBF16::encode(sound(x)); }

// Of a row: as many levels as a code has on each side of 0.
Half scale_of(const float* row, int n) {
  float most = 0;
  for (int i = 0; i < n; ++i) most = std::max(most, std::abs(sound(row[i])));
  const Half scale = CodecBF16::encode(most / kMostCode);
  return CodecBF16::decode(scale) < kLeastScale ? Half{0} : scale;
}

std::int8_t code_of(float x, float scale) {
  if (scale == 0) return 0;
  return static_cast<std::int8_t>(std::clamp(std::nearbyint(sound(x) / scale), -kMostCode, kMostCode));
}

// Where the parts of a kept state lie: layer after layer, in each the inputs as bf16, and a head's matrix after the
// other, of int8 its rows' scales first.
struct Parts {
  Parts(const StateShape& of, StateFormat as)
      : shape(of),
        format(as),
        conv_bytes(aligned(of.conv_floats() * std::int64_t{sizeof(Half)})),
        numbers(std::int64_t{of.k_dim} * of.v_dim),
        scale_bytes(as == StateFormat::kInt8 ? of.k_dim * std::int64_t{sizeof(Half)} : 0),
        matrix_bytes(
            aligned(as == StateFormat::kInt8 ? scale_bytes + numbers : numbers * std::int64_t{sizeof(Half)})),
        layer_bytes(conv_bytes + of.heads * matrix_bytes) {}

  StateShape shape;
  StateFormat format;
  std::int64_t conv_bytes;
  std::int64_t numbers;  // of a matrix
  std::int64_t scale_bytes;
  std::int64_t matrix_bytes;
  std::int64_t layer_bytes;
};

void encode_halves(const float* from, std::int64_t count, std::byte* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    const Half half = half_of(from[i]);
    std::memcpy(to + i * std::int64_t{sizeof(Half)}, &half, sizeof(Half));
  }
}

Half half_at(const std::byte* from, std::int64_t i) {
  Half half = 0;
  std::memcpy(&half, from + i * std::int64_t{sizeof(Half)}, sizeof(Half));
  return half;
}

void decode_halves(const std::byte* from, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = CodecBF16::decode(half_at(from, i));
}

void round_halves(float* numbers, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) numbers[i] = CodecBF16::decode(half_of(numbers[i]));
}

void encode_matrix(const Parts& parts, const float* from, std::byte* to) {
  if (parts.format == StateFormat::kBF16) return encode_halves(from, parts.numbers, to);
  const int n = parts.shape.v_dim;
  for (int row = 0; row < parts.shape.k_dim; ++row) {
    const float* numbers = from + std::int64_t{row} * n;
    const Half scale = scale_of(numbers, n);
    std::memcpy(to + row * std::int64_t{sizeof(Half)}, &scale, sizeof(Half));
    std::byte* codes = to + parts.scale_bytes + std::int64_t{row} * n;
    for (int i = 0; i < n; ++i) codes[i] = static_cast<std::byte>(code_of(numbers[i], CodecBF16::decode(scale)));
  }
}

void decode_matrix(const Parts& parts, const std::byte* from, float* to) {
  if (parts.format == StateFormat::kBF16) return decode_halves(from, parts.numbers, to);
  const int n = parts.shape.v_dim;
  for (int row = 0; row < parts.shape.k_dim; ++row) {
    const float scale = CodecBF16::decode(half_at(from, row));
    const std::byte* codes = from + parts.scale_bytes + std::int64_t{row} * n;
    float* numbers = to + std::int64_t{row} * n;
    for (int i = 0; i < n; ++i) numbers[i] = scale * static_cast<float>(static_cast<std::int8_t>(codes[i]));
  }
}

}  // namespace

std::string_view state_format_name(StateFormat format) { return kNames.at(static_cast<size_t>(format)); }

StateFormat parse_state_format(std::string_view name) {
  const auto* const found = std::ranges::find(kNames, name);
  if (found == kNames.end()) {
    fail_usage(fmt::format("'{}' is not a format of states", name), "states=", "use f32, bf16 or int8");
  }
  return static_cast<StateFormat>(found - kNames.begin());
}

std::int64_t state_bytes(const StateShape& shape, int layers, StateFormat format) {
  if (format == StateFormat::kF32) return shape.floats() * layers * std::int64_t{sizeof(float)};
  return Parts(shape, format).layer_bytes * layers;
}

void round_conv_inputs(StateFormat format, const StateShape& shape, float* inputs) {
  if (format != StateFormat::kF32) round_halves(inputs, shape.conv_floats());
}

void round_matrix(StateFormat format, const StateShape& shape, float* matrix) {
  if (format == StateFormat::kF32) return;
  if (format == StateFormat::kBF16) return round_halves(matrix, std::int64_t{shape.k_dim} * shape.v_dim);
  for (int row = 0; row < shape.k_dim; ++row) {
    float* numbers = matrix + std::int64_t{row} * shape.v_dim;
    const float scale = CodecBF16::decode(scale_of(numbers, shape.v_dim));
    for (int i = 0; i < shape.v_dim; ++i) numbers[i] = scale * static_cast<float>(code_of(numbers[i], scale));
  }
}

void encode_state(StateFormat format, const StateShape& shape, int layers, const float* from, std::byte* to) {
  CHECK(format != StateFormat::kF32);
  const Parts parts(shape, format);
  for (int layer = 0; layer < layers; ++layer, to += parts.layer_bytes) {
    encode_halves(from, shape.conv_floats(), to);
    from += shape.conv_floats();
    for (int head = 0; head < shape.heads; ++head, from += parts.numbers) {
      encode_matrix(parts, from, to + parts.conv_bytes + head * parts.matrix_bytes);
    }
  }
}

void decode_state(StateFormat format, const StateShape& shape, int layers, const std::byte* from, float* to) {
  CHECK(format != StateFormat::kF32);
  const Parts parts(shape, format);
  for (int layer = 0; layer < layers; ++layer, from += parts.layer_bytes) {
    decode_halves(from, shape.conv_floats(), to);
    to += shape.conv_floats();
    for (int head = 0; head < shape.heads; ++head, to += parts.numbers) {
      decode_matrix(parts, from + parts.conv_bytes + head * parts.matrix_bytes, to);
    }
  }
}

}  // namespace kvasir
