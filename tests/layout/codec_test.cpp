#include "layout/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"

namespace kvasir {
namespace {

// What makes a 16-bit format, so that one reference serves both.
struct Shape {
  int mantissa_bits;
  int least_exponent;  // of a normal number
  double largest;
};
constexpr Shape kF16{10, -14, 65504.0};
constexpr Shape kBF16{7, -126, 0x1.fep127};

// The nearest value of the format, ties to even, worked out in double precision, which holds every float and
// every midpoint exactly.
double nearest(double value, const Shape& shape) {
  if (value == 0 || std::isinf(value)) return value;
  const int exponent = std::max(std::ilogb(value), shape.least_exponent);
  const double step = std::ldexp(1.0, exponent - shape.mantissa_bits);
  const double rounded = std::nearbyint(value / step) * step;  // the default mode: to nearest even
  return std::abs(rounded) > shape.largest ? std::copysign(INFINITY, value) : rounded;
}

template <class Codec>
void expect_nearest(float value, const Shape& shape) {
  const float stored = Codec::decode(Codec::encode(value));
  ASSERT_EQ(static_cast<double>(stored), nearest(static_cast<double>(value), shape))
      << std::hexfloat << value << " " << Codec::kName;
  ASSERT_EQ(std::signbit(stored), std::signbit(value)) << std::hexfloat << value;
}

// Each stored value, its neighbours among the floats, and the midpoints to the next stored value with theirs.
template <class Codec>
void check_boundaries(const Shape& shape) {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const float value = Codec::decode(static_cast<std::uint16_t>(bits));
    const float next = Codec::decode(static_cast<std::uint16_t>(bits + 1));
    if (!std::isfinite(value)) continue;
    const float middle = std::isfinite(next)
                             ? static_cast<float>((static_cast<double>(value) + static_cast<double>(next)) / 2)
                             : value;
    for (const float at : {value, middle}) {
      for (const float x : {at, std::nextafter(at, INFINITY), std::nextafter(at, -INFINITY)}) {
        expect_nearest<Codec>(x, shape);
      }
    }
  }
}

template <class Codec>
void check_random(const Shape& shape) {
  std::mt19937 random(1);
  for (int i = 0; i < 500'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isnan(value)) expect_nearest<Codec>(value, shape);
  }
}

template <class Codec>
void check_round_trips() {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const auto stored = static_cast<std::uint16_t>(bits);
    const float value = Codec::decode(stored);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(Codec::decode(Codec::encode(value)))) << bits;
      EXPECT_EQ(std::signbit(value), (bits & 0x8000U) != 0) << bits;
    } else {
      ASSERT_EQ(Codec::encode(value), stored) << bits;
    }
  }
}

template <class Codec>
void check_nans() {
  for (const std::uint32_t payload : {0x1U, 0x400000U, 0x200000U, 0x1fffU, 0x7fffffU}) {
    for (const std::uint32_t sign : {0U, 0x80000000U}) {
      const auto value = std::bit_cast<float>(sign | 0x7f800000U | payload);
      EXPECT_TRUE(std::isnan(Codec::decode(Codec::encode(value)))) << std::hex << payload;
    }
  }
}

TEST(CodecF16, EveryStoredValueSurvives) { check_round_trips<CodecF16>(); }
TEST(CodecF16, RoundsToNearestEvenAtEveryBoundary) { check_boundaries<CodecF16>(kF16); }
TEST(CodecF16, RoundsToNearestEvenEverywhere) { check_random<CodecF16>(kF16); }
TEST(CodecF16, ANumberThatIsNoneStaysNone) { check_nans<CodecF16>(); }

TEST(CodecF16, KnownValues) {
  EXPECT_EQ(CodecF16::encode(1.0F), 0x3c00);
  EXPECT_EQ(CodecF16::encode(-2.0F), 0xc000);
  EXPECT_EQ(CodecF16::encode(65504.0F), 0x7bff);
  EXPECT_EQ(CodecF16::encode(0x1p-24F), 0x0001);
  EXPECT_EQ(CodecF16::encode(0x1p-25F), 0x0000);  // half of the smallest: to even
  EXPECT_EQ(CodecF16::encode(0x1.8p-25F), 0x0001);
  EXPECT_EQ(CodecF16::encode(-0.0F), 0x8000);
  EXPECT_EQ(CodecF16::decode(0x3555), 0x1.554p-2F);
}

TEST(CodecF16, WhatIsTooLargeBecomesInfinite) {
  EXPECT_EQ(CodecF16::encode(65519.996F), 0x7bff);
  EXPECT_EQ(CodecF16::encode(65520.0F), 0x7c00);
  EXPECT_EQ(CodecF16::encode(-65520.0F), 0xfc00);
  EXPECT_EQ(CodecF16::encode(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(CodecF16::encode(INFINITY), 0x7c00);
  EXPECT_EQ(CodecF16::encode(-INFINITY), 0xfc00);
}

TEST(CodecBF16, EveryStoredValueSurvives) { check_round_trips<CodecBF16>(); }
TEST(CodecBF16, RoundsToNearestEvenAtEveryBoundary) { check_boundaries<CodecBF16>(kBF16); }
TEST(CodecBF16, RoundsToNearestEvenEverywhere) { check_random<CodecBF16>(kBF16); }
TEST(CodecBF16, ANumberThatIsNoneStaysNone) { check_nans<CodecBF16>(); }

TEST(CodecBF16, KnownValues) {
  EXPECT_EQ(CodecBF16::encode(1.0F), 0x3f80);
  EXPECT_EQ(CodecBF16::encode(0x1.01p0F), 0x3f80);  // a tie, down to even
  EXPECT_EQ(CodecBF16::encode(0x1.03p0F), 0x3f82);  // a tie, up to even
  EXPECT_EQ(CodecBF16::encode(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(CodecBF16::encode(-INFINITY), 0xff80);
}

TEST(CodecF32, KeepsEveryBit) {
  for (const float value : {0.0F, -0.0F, 1.1F, INFINITY, std::numeric_limits<float>::denorm_min()}) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(CodecF32::decode(CodecF32::encode(value))),
              std::bit_cast<std::uint32_t>(value));
  }
}

// Every finite code of a format of eight bits, in order.
template <class Codec>
std::vector<float> finite_values(int largest_code) {
  std::vector<float> out;
  for (int code = largest_code; code > 0; --code)
    out.push_back(Codec::decode(static_cast<std::uint8_t>(code | 0x80)));
  for (int code = 0; code <= largest_code; ++code) out.push_back(Codec::decode(static_cast<std::uint8_t>(code)));
  return out;
}

// The nearest of all values, by looking at all of them; of two equally near the one with an even code.
template <class Codec>
void check_fp8(int largest_code) {
  const std::vector<float> values = finite_values<Codec>(largest_code);
  ASSERT_TRUE(std::ranges::is_sorted(values));
  EXPECT_EQ(values.back(), Codec::kLargest);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(Codec::decode(Codec::encode(values[i])), values[i]);
    if (i + 1 == values.size()) break;
    const float middle = (values[i] + values[i + 1]) / 2;
    EXPECT_EQ(Codec::decode(Codec::encode(std::nextafter(middle, -INFINITY))), values[i]) << values[i];
    EXPECT_EQ(Codec::decode(Codec::encode(std::nextafter(middle, INFINITY))), values[i + 1]) << values[i];
    EXPECT_EQ(Codec::encode(middle) & 1, 0) << middle;
  }
  EXPECT_EQ(Codec::decode(Codec::encode(1e9F)), Codec::kLargest);
  EXPECT_EQ(Codec::decode(Codec::encode(-INFINITY)), -Codec::kLargest);
}

TEST(CodecFp8, E4M3RoundsToNearestEven) {
  check_fp8<CodecE4M3>(0x7e);
  EXPECT_EQ(CodecE4M3::decode(0x38), 1.0F);
  EXPECT_EQ(CodecE4M3::decode(0x01), 0x1p-9F);
}
TEST(CodecFp8, E5M2RoundsToNearestEvenAndIsTheUpperHalfOfF16) {
  check_fp8<CodecE5M2>(0x7b);
  for (int code = 0; code < 0x7c; ++code) {
    EXPECT_EQ(CodecE5M2::decode(static_cast<std::uint8_t>(code)),
              CodecF16::decode(static_cast<std::uint16_t>(code << 8)));
  }
}

TEST(Codec, EveryFormatIsVisitedAsItself) {
  for (const KvFormat format : kAllKvFormats) {
    EXPECT_EQ(visit_codec(format, [](auto codec) { return decltype(codec)::kFormat; }), format);
    EXPECT_EQ(parse_kv_format(format_name(format)), format);
  }
  EXPECT_EQ(parse_kv_format("fp8"), KvFormat::kE4M3);
}

TEST(Codec, AnUnknownFormatIsAnErrorThatListsTheKnown) {
  for (const char* name : {"", "F16", "fp16", "f1"}) {
    try {
      parse_kv_format(name);
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kUsage);
      for (const KvFormat format : kAllKvFormats) {
        EXPECT_NE(std::string(error.what()).find(format_name(format)), std::string::npos);
      }
    }
  }
}

}  // namespace
}  // namespace kvasir
