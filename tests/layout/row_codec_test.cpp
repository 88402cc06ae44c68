// Rows of every format through a block: errors, extremes, and that a row is its own business.
#include "layout/row_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"
#include "layout/codec.h"
#include "layout/hadamard.h"

namespace kvasir {
namespace {

std::vector<float> noise(int count, unsigned seed, float spread = 1.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, spread);
  std::vector<float> out(static_cast<size_t>(count));
  for (float& value : out) value = normal(random);
  return out;
}

std::vector<KvFormat> formats_where(bool (*holds)(KvFormat)) {
  std::vector<KvFormat> out;
  std::ranges::copy_if(kAllKvFormats, std::back_inserter(out), holds);
  return out;
}

// One block of two heads, whose bytes were something else before.
class Block {
 public:
  Block(KvFormat format, int dim, int tokens, int old = 0xa5)
      : view_{nullptr, make_layout({{0}, {2, dim, dim}, format, format, {}}, tokens), {}, 0},
        bytes_(static_cast<size_t>(view_.layout.block_bytes()), static_cast<std::byte>(old)) {
    view_.arena = bytes_.data();
  }

  void write(int head, int slot, const std::vector<float>& row) {
    encode_k(view_, {0, head, slot}, row.data());
    encode_v(view_, {0, head, slot}, row.data());
  }
  // As the row was before it was encoded: turned back.
  std::vector<float> k(int head, int slot) const { return read(&decode_k, head, slot); }
  std::vector<float> v(int head, int slot) const { return read(&decode_v, head, slot); }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  void copy(int head, int from, int to) { copy_row(view_, {0, head, from}, {0, head, to}); }

 private:
  std::vector<float> read(void (*decode)(const KvView&, const RowPlace&, float*), int head, int slot) const {
    std::vector<float> row(static_cast<size_t>(view_.layout.shape.k_dim));
    decode(view_, {0, head, slot}, row.data());
    turn(view_.layout.k_format, row.data(), view_.layout.shape.k_dim);
    return row;
  }

  KvView view_;
  std::vector<std::byte> bytes_;
};

std::vector<float> through(KvFormat format, const std::vector<float>& row) {
  Block block(format, static_cast<int>(row.size()), 16);
  block.write(1, 7, row);
  EXPECT_EQ(block.k(1, 7), block.v(1, 7)) << format_name(format);
  return block.k(1, 7);
}

double relative_error(const std::vector<float>& got, const std::vector<float>& expected) {
  double error = 0;
  double squares = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += std::pow(static_cast<double>(got[i]) - expected[i], 2);
    squares += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(error / squares);
}

struct Bound {
  KvFormat format;
  double error;  // root mean square, relative, of normal noise
};

TEST(RowCodec, NoiseComesBackWithTheErrorOfItsBits) {
  for (const Bound& bound : std::vector<Bound>{{KvFormat::kF32, 0},
                                               {KvFormat::kF16, 3e-4},
                                               {KvFormat::kBF16, 2.5e-3},
                                               {KvFormat::kInt8, 8.5e-3},
                                               {KvFormat::kInt4, 0.125},
                                               {KvFormat::kInt2, 0.36},
                                               {KvFormat::kE4M3, 0.028},
                                               {KvFormat::kE5M2, 0.056},
                                               {KvFormat::kTop50, 0.31},
                                               {KvFormat::kTop25, 0.58}}) {
    for (const int dim : {64, 80, 128}) {
      double worst = 0;
      for (unsigned seed = 0; seed < 50; ++seed) {
        const std::vector<float> row = noise(dim, seed, 3.0F);
        worst = std::max(worst, relative_error(through(bound.format, row), row));
      }
      EXPECT_LE(worst, bound.error * 1.15) << format_name(bound.format) << " " << dim;
      EXPECT_GE(worst, bound.error * 0.5) << format_name(bound.format) << " " << dim;
    }
  }
}

// A dimension that is far larger than the others costs rotated formats little more than noise does.
TEST(RowCodec, AnOutlierDoesNotDrownTheRest) {
  for (const KvFormat format : formats_where(&is_rotated)) {
    std::vector<float> row = noise(64, 3);
    row[11] = 40;
    std::vector<float> got = through(format, row);
    if (format == KvFormat::kInt8) {
      EXPECT_LT(relative_error(got, row), 0.01);
    }
    got[11] = row[11] = 0;  // of the others alone
    EXPECT_LT(relative_error(got, row), format == KvFormat::kInt8   ? 0.05
                                        : format == KvFormat::kInt4 ? 0.9
                                                                    : 3.5)
        << format_name(format);
  }
}

TEST(RowCodec, EveryHeadSizeComesBack) {
  const auto most = [](KvFormat format) {
    if (format == KvFormat::kTop50) return 0.7072;  // the root of the share that is dropped, were all equally large
    if (format == KvFormat::kTop25) return 0.8661;
    return format == KvFormat::kInt2 ? 0.65 : 0.2;
  };
  for (const KvFormat format : kAllKvFormats) {
    for (int dim = 1; dim <= 70; ++dim) {
      const std::vector<float> row = noise(dim, static_cast<unsigned>(dim));
      EXPECT_LT(relative_error(through(format, row), row), most(format)) << format_name(format) << " " << dim;
    }
  }
}

TEST(RowCodec, ZerosStayZero) {
  for (const KvFormat format : kAllKvFormats) {
    for (const float tiny : {0.0F, -0.0F, 1e-33F}) {
      const std::vector<float> got = through(format, std::vector<float>(20, tiny));
      for (const float value : got) {
        EXPECT_TRUE(!has_scale(format) || value == 0.0F) << format_name(format);
        EXPECT_LE(std::abs(value), 1.001e-33F) << format_name(format);
      }
    }
  }
}

// A single number is a row of one: nothing is lost but what its scale rounds.
TEST(RowCodec, SmallAndLargeRowsKeepTheirPrecision) {
  for (const KvFormat format : formats_where(&has_scale)) {
    for (const float size : {1e-25F, 1e-8F, 1.0F, 300.0F, 60000.0F}) {
      for (const float sign : {1.0F, -1.0F}) {
        const std::vector<float> got = through(format, {size * sign});
        EXPECT_NEAR(got[0] / (size * sign), 1.0, 0.13) << format_name(format) << " " << size;
      }
      std::vector<float> row = noise(64, 9);
      for (float& value : row) value *= size / 4;
      EXPECT_LT(relative_error(through(format, row), row), 0.36) << format_name(format) << " " << size;
    }
  }
}

TEST(RowCodec, WhatIsNotFiniteIsHeldAndSpoilsNobody) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const KvFormat format : formats_where([](KvFormat one) { return has_scale(one) || is_pruned(one); })) {
    Block block(format, 32, 4);
    Block alone(format, 32, 4);
    const std::vector<float> good = noise(32, 1);
    for (int slot : {0, 2, 3}) block.write(0, slot, good), alone.write(0, slot, good);
    std::vector<float> bad = good;
    bad[3] = std::numeric_limits<float>::quiet_NaN();
    bad[5] = kInf;
    bad[6] = -kInf;
    bad[7] = std::numeric_limits<float>::max();
    block.write(0, 1, bad);
    for (const float value : block.k(0, 1)) EXPECT_TRUE(std::isfinite(value)) << format_name(format);
    for (const float value : block.v(0, 1)) EXPECT_LE(std::abs(value), 3e5F) << format_name(format);
    for (int slot : {0, 2, 3}) {
      EXPECT_EQ(block.k(0, slot), alone.k(0, slot)) << format_name(format);
      EXPECT_EQ(block.v(0, slot), alone.v(0, slot)) << format_name(format);
    }
  }
}

// Neither the order of writing, nor what was there before, nor a row written twice can be seen in a block's bytes.
TEST(RowCodec, ABlocksBytesDependOnItsRowsAlone) {
  for (const KvFormat format : kAllKvFormats) {
    for (const int dim : {1, 5, 20, 64}) {
      for (const int tokens : {1, 3, 4, 16}) {
        // Bytes between the parts of a head, which no row has, stay as they were.
        Block forwards(format, dim, tokens, tokens % kPartAlignment == 0 ? 0x00 : 0xff);
        Block backwards(format, dim, tokens, 0xff);
        for (int i = 0; i < 2 * tokens; ++i) {
          const auto row_of = [&](int n) { return noise(dim, static_cast<unsigned>(100 + n)); };
          forwards.write(i % 2, i / 2, row_of(i));
          const int j = 2 * tokens - 1 - i;
          backwards.write(j % 2, j / 2, noise(dim, 7));
          backwards.write(j % 2, j / 2, row_of(j));
        }
        EXPECT_EQ(forwards.bytes(), backwards.bytes()) << format_name(format) << " " << dim << " " << tokens;
      }
    }
  }
}

// What a block holds is a fixed point: encoding it again changes nothing. (Integers of few bits look for their
// scale.)
TEST(RowCodec, WhatWasHeldIsHeldAgain) {
  for (const KvFormat format :
       {KvFormat::kF16, KvFormat::kBF16, KvFormat::kE4M3, KvFormat::kE5M2, KvFormat::kTop50, KvFormat::kTop25}) {
    const std::vector<float> once = through(format, noise(64, 5));
    EXPECT_EQ(through(format, once), once) << format_name(format);
  }
}

// By looking at every number: it is kept, to the precision of f16, if fewer than the format keeps are larger, or as
// large and before it; otherwise it is 0.
TEST(RowCodec, PrunedRowsKeepTheirLargestNumbers) {
  for (const KvFormat format : formats_where(&is_pruned)) {
    for (const int dim : {1, 2, 3, 7, 8, 9, 15, 16, 17, 20, 33, 64, 80, 1024}) {
      const int kept = (dim + (format == KvFormat::kTop50 ? 1 : 3)) / (format == KvFormat::kTop50 ? 2 : 4);
      for (const bool ties : {false, true}) {
        std::vector<float> row = noise(dim, static_cast<unsigned>(dim));
        if (ties)
          std::ranges::for_each(row, [](float& value) { value = std::copysign(std::ceil(std::abs(value)), value); });
        const std::vector<float> got = through(format, row);
        for (size_t i = 0; i < row.size(); ++i) {
          std::ptrdiff_t before = 0;
          for (size_t j = 0; j < row.size(); ++j) {
            const float other = std::abs(row[j]);
            before += other > std::abs(row[i]) || (other == std::abs(row[i]) && j < i) ? 1 : 0;
          }
          const float expected = before < kept ? CodecF16::decode(CodecF16::encode(row[i])) : 0.0F;
          EXPECT_EQ(got[i], expected) << format_name(format) << " " << dim << " " << i;
        }
      }
    }
  }
}

// A block that a row was copied in is to the byte one that the row was written in.
TEST(RowCodec, ACopiedRowIsTheRow) {
  for (const KvFormat format : kAllKvFormats) {
    for (const int dim : {1, 5, 20, 64}) {
      for (const int tokens : {3, 16}) {
        Block copied(format, dim, tokens);
        Block written(format, dim, tokens);
        for (int i = 0; i < 2 * tokens; ++i) {
          copied.write(i % 2, i / 2, noise(dim, static_cast<unsigned>(i)));
          written.write(i % 2, i / 2, noise(dim, static_cast<unsigned>(i / 2 == 0 && i % 2 == 1 ? 2 * 2 + 1 : i)));
        }
        copied.copy(1, 2, 0);
        EXPECT_EQ(copied.bytes(), written.bytes()) << format_name(format) << " " << dim << " " << tokens;
      }
    }
  }
}

// What is sparse already loses nothing.
TEST(RowCodec, APrunedRowWithFewNumbersIsExact) {
  std::vector<float> row(64, 0.0F);
  for (const size_t i : {0, 7, 8, 31, 62, 63}) row[i] = static_cast<float>(i) - 20.5F;
  for (const KvFormat format : formats_where(&is_pruned)) EXPECT_EQ(through(format, row), row);
}

TEST(RowCodec, IntegersUseEveryLevel) {
  const auto level_of = [](float value, float step) { return static_cast<int>(std::lround(value / step)); };
  std::vector<float> row(64);
  for (int i = 0; i < 64; ++i) row[static_cast<size_t>(i)] = static_cast<float>(i % 16) * 2 - 15;
  hadamard(row.data(), 64);  // so that the row as it is stored has these values
  std::vector<float> got = through(KvFormat::kInt4, row);
  hadamard(got.data(), 64);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(level_of(got[static_cast<size_t>(i)], got[15] / 15), i % 16 * 2 - 15) << i;
}

TEST(RowCodec, QueriesAreRoundedToTheNearestLevel) {
  std::vector<float> q{12.7F, -6.35F, 0.04F, 0.06F, 0.0F};
  EXPECT_FLOAT_EQ(round_query(q.data(), 5), 0.1F);
  EXPECT_EQ(q, (std::vector<float>{127, -64, 0, 1, 0}));  // -63.5 is a tie: to even
  std::vector<float> none{0.0F, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_EQ(round_query(none.data(), 2), 0.0F);
  EXPECT_EQ(none, (std::vector<float>{0, 0}));
}

TEST(Hadamard, IsItsOwnInverseAndKeepsDotProducts) {
  for (int dim = 1; dim <= 130; ++dim) {
    const std::vector<float> a = noise(dim, 1);
    const std::vector<float> b = noise(dim, 2);
    std::vector<float> turned_a = a;
    std::vector<float> turned_b = b;
    hadamard(turned_a.data(), dim);
    hadamard(turned_b.data(), dim);
    double plain = 0;
    double turned = 0;
    for (size_t i = 0; i < a.size(); ++i) plain += a[i] * b[i], turned += turned_a[i] * turned_b[i];
    EXPECT_NEAR(plain, turned, 1e-4) << dim;
    hadamard(turned_a.data(), dim);
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(turned_a[i], a[i], 1e-5) << dim;
  }
}

TEST(Hadamard, SpreadsOneDimensionOverItsPart) {
  std::vector<float> row(20, 0.0F);
  row[3] = 8;
  hadamard(row.data(), 20);  // parts of 16 and 4
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(std::abs(row[i]), 2.0F);
  for (size_t i = 16; i < 20; ++i) EXPECT_EQ(row[i], 0.0F);
}

TEST(RowCodec, HeadsThatAreTooLongAreAnError) {
  const KvGroup group{{0}, {1, 2048, 2048}, KvFormat::kInt8, KvFormat::kInt8, {}};
  try {
    make_layout(group, 16);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("2048"), std::string::npos);
  }
  EXPECT_NO_THROW(make_layout({{0}, {1, 2048, 2048}, KvFormat::kE4M3, KvFormat::kF16, {}}, 16));
}

}  // namespace
}  // namespace kvasir
