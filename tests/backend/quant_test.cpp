// Quantized weights: blocks counted by hand, blocks as ggml decodes them, and encoders against what they lose.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "backend/quant/blocks.h"
#include "backend/quant/decode.h"
#include "backend/quant/encode.h"
#include "backend/weight_reader.h"
#include "layout/codec.h"
#include "support/random_data.h"
#include "support/source_dir.h"

namespace kvasir {
namespace {

using testing::noise;
using testing::source_dir;

constexpr std::array kEncoded{DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ8_0,
                              DType::kQ4_0, DType::kQ4_K, DType::kQ6_K};

nlohmann::json goldens() {
  std::ifstream file(source_dir() / "tests/backend/fixtures/quant.json");
  return nlohmann::json::parse(file);
}

std::vector<std::byte> from_hex(const std::string& text) {
  std::vector<std::byte> out;
  for (size_t i = 0; i < text.size(); i += 2)
    out.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return out;
}

// The generator of tools/goldens/make_quant_goldens.py: its numbers are exact in float32.
class Lcg {
 public:
  explicit Lcg(std::uint64_t seed) : state_(seed) {}
  float normal() {
    std::int64_t sum = 0;
    for (int i = 0; i < 4; ++i) {
      state_ = state_ * 6364136223846793005U + 1442695040888963407U;
      sum += static_cast<std::int64_t>(state_ >> 42);
    }
    return static_cast<float>(sum - (1 << 23)) / static_cast<float>(1 << 22);
  }

 private:
  std::uint64_t state_;
};

std::vector<float> encoded_and_back(DType type, const std::vector<float>& values) {
  const int cols = static_cast<int>(values.size());
  std::vector<std::byte> row(row_bytes(type, cols));
  encode_row(type, values.data(), cols, row.data());
  std::vector<float> back(values.size());
  decode_row(type, row.data(), cols, back.data());
  return back;
}

double mean_square_error(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
  return sum / static_cast<double>(a.size());
}

template <class Block>
std::vector<float> decoded(DType type, const Block& block) {
  std::vector<float> out(static_cast<size_t>(block_elements(type)));
  decode_row(type, reinterpret_cast<const std::byte*>(&block), block_elements(type), out.data());
  return out;
}

TEST(WeightType, SizesAndNames) {
  EXPECT_EQ(row_bytes(DType::kF32, 5), 20U);
  EXPECT_EQ(row_bytes(DType::kBF16, 5), 10U);
  EXPECT_EQ(row_bytes(DType::kQ4_0, 64), 36U);
  EXPECT_EQ(row_bytes(DType::kQ6_K, 512), 420U);
  EXPECT_EQ(name_of(DType::kQ4_K), "q4_k");
  EXPECT_EQ(weight_type_named("q5_1"), DType::kQ5_1);
  EXPECT_EQ(weight_type_named("q5"), std::nullopt);
  EXPECT_FALSE(is_quantized(DType::kF16));
  EXPECT_TRUE(is_quantized(DType::kQ8_0));
}

TEST(Quant, SmallBlocksByHand) {
  quant::Q4_0 q4{CodecF16::encode(0.5F), {}};
  q4.q[0] = 0xF0;  // number 0: (0 - 8) / 2; number 16: (15 - 8) / 2
  q4.q[15] = 0x98;
  std::vector<float> x = decoded(DType::kQ4_0, q4);
  EXPECT_EQ(x[0], -4.0F);
  EXPECT_EQ(x[16], 3.5F);
  EXPECT_EQ(x[15], 0.0F);
  EXPECT_EQ(x[31], 0.5F);

  quant::Q5_1 q5{CodecF16::encode(2.0F), CodecF16::encode(-1.0F), {0x01, 0, 0, 0x80}, {}};
  q5.q[0] = 0x03;
  q5.q[15] = 0x70;
  x = decoded(DType::kQ5_1, q5);
  EXPECT_EQ(x[0], 2.0F * (16 + 3) - 1);
  EXPECT_EQ(x[31], 2.0F * (16 + 7) - 1);
  EXPECT_EQ(x[1], -1.0F);

  quant::IQ4_NL nl{CodecF16::encode(1.0F), {}};
  nl.q[3] = 0x8F;
  x = decoded(DType::kIQ4_NL, nl);
  EXPECT_EQ(x[3], 113.0F);
  EXPECT_EQ(x[19], 1.0F);
  EXPECT_EQ(x[0], -127.0F);

  quant::MXFP4 mx{129, {}};  // 2^2
  mx.q[0] = 0xF7;
  mx.q[15] = 0x19;
  x = decoded(DType::kMXFP4, mx);
  EXPECT_EQ(x[0], 24.0F);
  EXPECT_EQ(x[16], -24.0F);
  EXPECT_EQ(x[15], -2.0F);
  EXPECT_EQ(x[31], 2.0F);
  EXPECT_EQ(x[1], 0.0F);
  mx.e = 0;  // the smallest scale there is
  EXPECT_EQ(decoded(DType::kMXFP4, mx)[31], 0x1p-128F);
}

TEST(Quant, BlocksOfOurOwnByHand) {
  const float scale = 0.3F;
  quant::Int8x32 i8{};
  std::memcpy(i8.d, &scale, 4);
  i8.q[5] = -128;
  EXPECT_EQ(decoded(DType::kInt8x32, i8)[5], 0.3F * -128);

  quant::Int4x32 i4{};
  std::memcpy(i4.d, &scale, 4);
  i4.zero = 9;
  i4.q[2] = 0xE1;
  EXPECT_EQ(decoded(DType::kInt4x32, i4)[2], 0.3F * -8);
  EXPECT_EQ(decoded(DType::kInt4x32, i4)[18], 0.3F * 5);

  quant::Fp8x32 f8{};
  std::memcpy(f8.d, &scale, 4);
  f8.q[31] = 0x7e;
  f8.q[0] = 0x81;
  EXPECT_EQ(decoded(DType::kFp8x32, f8)[31], 0.3F * 448);
  EXPECT_EQ(decoded(DType::kFp8x32, f8)[0], 0.3F * -0x1p-9F);
}

TEST(Quant, ScalesOfLargeBlocksByHand) {
  std::uint8_t scales[12] = {};
  for (int s = 0; s < 8; ++s) quant::set_scale_min(scales, s, {60 - 7 * s, 5 + 8 * s});
  for (int s = 0; s < 8; ++s) {
    EXPECT_EQ(quant::scale_min(scales, s).scale, 60 - 7 * s);
    EXPECT_EQ(quant::scale_min(scales, s).min, 5 + 8 * s);
  }
  quant::Q4_K block{CodecF16::encode(0.25F), CodecF16::encode(0.5F), {}, {}};
  quant::set_scale_min(block.scales, 7, {40, 3});
  block.q[96 + 31] = 0xB0;  // the last number: sub-block 7, high nibble
  const std::vector<float> x = decoded(DType::kQ4_K, block);
  EXPECT_EQ(x[255], 0.25F * 40 * 11 - 0.5F * 3);
  EXPECT_EQ(x[254], -1.5F);
  EXPECT_EQ(x[0], 0.0F);
}

TEST(Quant, EveryTypeDecodesAsGgmlDoesToTheLastBit) {
  const nlohmann::json all = goldens();
  int compared = 0;
  for (const WeightType& type : kWeightTypes) {
    if (!is_quantized(type.type) || !in_gguf(type.type)) continue;
    ASSERT_TRUE(all.contains(type.name)) << type.name;
    const std::vector<std::byte> block = from_hex(all[std::string(type.name)]["block"]);
    const std::vector<std::byte> bits = from_hex(all[std::string(type.name)]["bits"]);
    ASSERT_EQ(block.size(), block_bytes(type.type));
    ASSERT_EQ(bits.size(), 4U * static_cast<size_t>(type.block_elements));
    // One byte off alignment: rows of a file may lie anywhere.
    std::vector<std::byte> shifted(block.size() + 1);
    std::memcpy(shifted.data() + 1, block.data(), block.size());
    std::vector<float> out(static_cast<size_t>(type.block_elements));
    decode_row(type.type, shifted.data() + 1, type.block_elements, out.data());
    for (size_t i = 0; i < out.size(); ++i) {
      std::uint32_t expected = 0;
      for (size_t k = 0; k < 4; ++k) expected = expected << 8 | static_cast<std::uint32_t>(bits[4 * i + k]);
      ASSERT_EQ(std::bit_cast<std::uint32_t>(out[i]), expected) << type.name << " number " << i;
    }
    ++compared;
  }
  EXPECT_EQ(compared, 13);
}

TEST(Quant, EncodersLoseNoMoreThanGgmls) {
  const nlohmann::json all = goldens();
  Lcg lcg(77);
  std::vector<float> values(4096);
  for (float& value : values) value = lcg.normal();
  for (const DType type : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_K, DType::kQ6_K}) {
    const double theirs = all[std::string(name_of(type))]["mean_square_error"];
    const double ours = mean_square_error(values, encoded_and_back(type, values));
    RecordProperty(std::string(name_of(type)), std::to_string(ours / theirs));
    EXPECT_LT(ours, 1.01 * theirs) << name_of(type) << ": " << ours / theirs;
    EXPECT_GT(ours, 0.5 * theirs) << name_of(type);
  }
}

TEST(Quant, WhatATypeCanHoldComesBackAsItWas) {
  for (const DType type : kEncoded) {
    std::vector<float> values(256);
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.25F * static_cast<float>(static_cast<int>(i % 16) - 8);
    const std::vector<float> back = encoded_and_back(type, values);
    // q6_k has 64 levels and q8_0 255 over the same span: not these numbers exactly.
    const float tolerance = type == DType::kQ8_0 || type == DType::kQ6_K ? 0.01F : type == DType::kQ4_K ? 2e-3F : 0;
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(back[i], values[i], tolerance) << name_of(type) << i;
  }
}

TEST(Quant, ErrorsStayBelowHalfALevel) {
  std::vector<float> values(1024);
  for (size_t i = 0; i < values.size(); ++i) values[i] = noise(5, i);
  const auto worst_of = [&](DType type, size_t block) {
    const std::vector<float> back = encoded_and_back(type, values);
    double worst = 0;  // as a share of the block's largest number
    for (size_t first = 0; first < values.size(); first += block) {
      float largest = 0;
      double off = 0;
      for (size_t i = first; i < first + block; ++i) {
        largest = std::max(largest, std::fabs(values[i]));
        off = std::max(off, std::fabs(static_cast<double>(back[i]) - values[i]));
      }
      worst = std::max(worst, off / largest);
    }
    return worst;
  };
  EXPECT_LT(worst_of(DType::kQ8_0, 32), 0.5 / 127 * 1.1);
  EXPECT_LT(worst_of(DType::kQ4_0, 32), 1.0 / 8 * 1.01);  // the far end of the other sign is clipped
  EXPECT_LT(worst_of(DType::kQ6_K, 16), 0.04);
  EXPECT_LT(worst_of(DType::kQ4_K, 32), 0.13);
}

TEST(Quant, ZerosAndExtremesStayFinite) {
  for (const DType type : kEncoded) {
    const std::vector<float> zeros(256, 0.0F);
    EXPECT_EQ(encoded_and_back(type, zeros), zeros) << name_of(type);
    std::vector<float> mixed(256, 0.0F);
    mixed[0] = 3e4F;
    mixed[1] = -1e-42F;
    mixed[100] = -3e4F;
    for (size_t i = 128; i < 256; ++i) mixed[i] = 1e-40F;
    for (const float value : encoded_and_back(type, mixed)) EXPECT_TRUE(std::isfinite(value)) << name_of(type);
    // Only positive, and all alike: nothing to span, or a min that cannot be stored.
    std::vector<float> same(256, 0.75F);
    for (const float value : encoded_and_back(type, same)) EXPECT_NEAR(value, 0.75F, 0.01F) << name_of(type);
    for (float& value : same) value = -0.75F;
    for (const float value : encoded_and_back(type, same)) EXPECT_NEAR(value, -0.75F, 0.01F) << name_of(type);
  }
}

TEST(Quant, RowsOfAWeightAreReadByTheirOwnBytes) {
  std::vector<float> values(2 * 64);
  for (size_t i = 0; i < values.size(); ++i) values[i] = noise(9, i);
  std::vector<std::byte> bytes(2 * row_bytes(DType::kQ8_0, 64));
  encode_row(DType::kQ8_0, values.data(), 64, bytes.data());
  encode_row(DType::kQ8_0, values.data() + 64, 64, bytes.data() + bytes.size() / 2);
  std::vector<float> row(64);
  read_row({bytes, DType::kQ8_0, 2, 64}, 1, row.data());
  for (size_t i = 0; i < row.size(); ++i) EXPECT_NEAR(row[i], values[64 + i], 0.02F);
}

}  // namespace
}  // namespace kvasir
