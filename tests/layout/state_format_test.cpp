// States that are kept in fewer bits: rounding, bytes, and that rounding what is rounded changes nothing.
#include "layout/state_format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"

namespace kvasir {
namespace {

constexpr StateShape kShape{5, 3, 2, 7, 9};
constexpr int kLayers = 3;

// Numbers of every size, rows of zeros among them, of two blocks' worth.
std::vector<float> numbers(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(static_cast<size_t>(kShape.floats() * kLayers));
  for (float& value : out) value = normal(random) * std::exp2(static_cast<float>(random() % 60) - 30.0F);
  for (size_t i = 40; i < 60; ++i) out[i] = 0;
  return out;
}

std::vector<float> rounded(StateFormat format, std::vector<float> state) {
  float* at = state.data();
  for (int layer = 0; layer < kLayers; ++layer) {
    round_conv_inputs(format, kShape, at);
    at += kShape.conv_floats();
    for (int head = 0; head < kShape.heads; ++head, at += kShape.k_dim * kShape.v_dim) {
      round_matrix(format, kShape, at);
    }
  }
  return state;
}

std::vector<float> kept_and_back(StateFormat format, const std::vector<float>& state) {
  std::vector<std::byte> bytes(static_cast<size_t>(state_bytes(kShape, kLayers, format)));
  encode_state(format, kShape, kLayers, state.data(), bytes.data());
  std::vector<float> out(state.size(), -1.0F);
  decode_state(format, kShape, kLayers, bytes.data(), out.data());
  return out;
}

class RoundedStates : public ::testing::TestWithParam<StateFormat> {};

INSTANTIATE_TEST_SUITE_P(Formats, RoundedStates, ::testing::Values(StateFormat::kBF16, StateFormat::kInt8),
                         [](const auto& format) { return std::string(state_format_name(format.param)); });

TEST_P(RoundedStates, WhatIsKeptIsTheRoundedState) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const std::vector<float> once = rounded(GetParam(), numbers(seed));
    EXPECT_NE(once, numbers(seed));
    EXPECT_EQ(rounded(GetParam(), once), once) << seed;
    EXPECT_EQ(kept_and_back(GetParam(), once), once) << seed;
    EXPECT_EQ(kept_and_back(GetParam(), numbers(seed)), once) << seed;
  }
}

// A row's numbers near each power of two, where the scale's last bit changes.
TEST_P(RoundedStates, RowsOfEveryMagnitude) {
  for (float most = 1e-37F; most < 1e36F; most *= 1.0173F) {
    std::vector<float> state = numbers(3);
    for (float& value : state) value = std::fmod(value, 1.0F) * most;
    const std::vector<float> once = rounded(GetParam(), state);
    ASSERT_EQ(rounded(GetParam(), once), once) << most;
    ASSERT_EQ(kept_and_back(GetParam(), once), once) << most;
  }
}

TEST_P(RoundedStates, ErrorsAreSmallBesideTheRow) {
  const std::vector<float> state = numbers(7);
  const std::vector<float> once = rounded(GetParam(), state);
  const auto first = static_cast<size_t>(kShape.conv_floats());
  for (size_t row = 0; row < static_cast<size_t>(kShape.heads * kShape.k_dim); ++row) {
    const size_t begin = first + row * static_cast<size_t>(kShape.v_dim);
    float most = 0;
    for (size_t i = 0; i < static_cast<size_t>(kShape.v_dim); ++i) most = std::max(most, std::abs(state[begin + i]));
    for (size_t i = 0; i < static_cast<size_t>(kShape.v_dim); ++i) {
      EXPECT_LE(std::abs(once[begin + i] - state[begin + i]), most / 250) << row << " " << i;
    }
  }
}

TEST_P(RoundedStates, WhatIsNoNumberDoesNotSpread) {
  std::vector<float> state = numbers(9);
  state[0] = std::numeric_limits<float>::quiet_NaN();
  state[16] = std::numeric_limits<float>::infinity();
  state[25] = -std::numeric_limits<float>::infinity();
  const std::vector<float> once = rounded(GetParam(), state);
  for (const float value : once) EXPECT_TRUE(std::isfinite(value));
  EXPECT_EQ(once[0], 0);
  EXPECT_EQ(rounded(GetParam(), once), once);
  EXPECT_EQ(kept_and_back(GetParam(), once), once);
}

TEST(StateFormats, Bytes) {
  const StateShape shape{8192, 3, 32, 128, 128};  // of Qwen3.6-35B-A3B, in 30 layers
  EXPECT_EQ(state_bytes(shape, 30, StateFormat::kF32), 30 * ((2 << 20) + (96 << 10)));
  EXPECT_EQ(state_bytes(shape, 30, StateFormat::kBF16), 30 * ((1 << 20) + (48 << 10)));
  EXPECT_EQ(state_bytes(shape, 30, StateFormat::kInt8), 30 * ((512 << 10) + (8 << 10) + (48 << 10)));
}

TEST(StateFormats, Names) {
  for (const auto format : {StateFormat::kF32, StateFormat::kBF16, StateFormat::kInt8}) {
    EXPECT_EQ(parse_state_format(state_format_name(format)), format);
  }
  EXPECT_THROW(parse_state_format("int4"), Error);
}

}  // namespace
}  // namespace kvasir
