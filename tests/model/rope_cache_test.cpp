// The angles of positions: the bits of rope_angles(), whatever was asked for before, each sent once.
#include "model/rope_cache.h"

#include <gtest/gtest.h>

#include <numeric>

#include "backend/forwarding_backend.h"
#include "backend/make_backend.h"
#include "backend/rope.h"

namespace kvasir::testing {
namespace {

class CountingBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  void upload(std::byte* to, std::span<const std::byte> from) override {
    bytes += from.size();
    ++uploads;
    ForwardingBackend::upload(to, from);
  }
  size_t bytes = 0;
  int uploads = 0;
};

class RopeCacheTest : public ::testing::Test {
 protected:
  static constexpr int kMostRows = 8192;
  static constexpr Position kContext = 40'000;  // 625 times 64: remembered as it is

  std::vector<std::int32_t> find(std::span<const Position> positions, RopeCache::Use use = RopeCache::Use::kRows) {
    std::vector<std::int32_t> rope_rows;
    table_.find(use, positions, rope_rows);
    return rope_rows;
  }
  void expect_angles(std::span<const Position> positions, const std::vector<std::int32_t>& rope_rows) {
    ASSERT_EQ(rope_rows.size(), positions.size());
    const RopeTable table = table_.at(rope_rows.data());
    const size_t pairs = frequencies_.size();
    ASSERT_EQ(table.pairs, std::ssize(frequencies_));
    std::vector<float> cos(pairs * positions.size());
    std::vector<float> sin(cos.size());
    rope_angles(positions, frequencies_, cos.data(), sin.data());
    for (size_t i = 0; i < positions.size(); ++i) {
      const std::int64_t first = table.first(static_cast<int>(i));
      ASSERT_TRUE(std::equal(table.cos + first, table.cos + first + pairs, cos.data() + i * pairs)) << positions[i];
      ASSERT_TRUE(std::equal(table.sin + first, table.sin + first + pairs, sin.data() + i * pairs)) << positions[i];
    }
  }

  std::vector<double> frequencies_{1.0, 0.25, 1e-3};
  CountingBackend backend_{make_backend({"ref", 1, "auto"})};
  RopeCache table_{backend_, {frequencies_}, kContext, kMostRows};
};

TEST_F(RopeCacheTest, PromptsStepsAndFarPositions) {
  std::vector<Position> prompt(5000);
  std::iota(prompt.begin(), prompt.end(), 37);
  const std::vector<std::vector<Position>> batches{
      prompt,
      {5, 5037, 20'000, 20'000, 63, 64, 0},
      {kContext - 1, kContext, -1, 12'345'678, 12'345'679, 3},  // known, and not, in turn
      {20'001, 20'063, 20'064, 19'999},
      {12'345'678, kContext + 5},
  };
  for (const std::vector<Position>& batch : batches) expect_angles(batch, find(batch));
  expect_angles(prompt, find(prompt));  // nothing of it was lost
}

TEST_F(RopeCacheTest, ABatchHasTwoListsThatAreNotRemembered) {
  std::vector<Position> first(kMostRows);
  std::iota(first.begin(), first.end(), 1'000'000);
  std::vector<Position> second(kMostRows);
  std::iota(second.begin(), second.end(), 2'000'000);
  for (int batch = 0; batch < 2; ++batch) {
    const std::vector<std::int32_t> rope_rows = find(first);
    const std::vector<std::int32_t> more = find(second, RopeCache::Use::kSinks);
    expect_angles(first, rope_rows);
    expect_angles(second, more);
    std::swap(first, second);
  }
}

TEST_F(RopeCacheTest, WhatIsKnownIsNotSentAgain) {
  const std::vector<Position> step{100, 700, 39'999};
  const std::vector<Position> next{101, 701, 39'998};
  find(step);
  EXPECT_EQ(backend_.uploads, 6);  // cosines and sines, of three neighbourhoods
  EXPECT_EQ(backend_.bytes, 3 * 2 * 64 * frequencies_.size() * sizeof(float));
  expect_angles(next, find(next));
  EXPECT_EQ(backend_.uploads, 6);
  std::vector<Position> prompt(2048);  // two of its neighbourhoods are known, the others come together
  std::iota(prompt.begin(), prompt.end(), 0);
  const size_t before = backend_.bytes;
  find(prompt);
  EXPECT_EQ(backend_.bytes - before, (2048 - 2 * 64) * 2 * frequencies_.size() * sizeof(float));
  EXPECT_LT(backend_.uploads, 6 + 2 * 5);
}

}  // namespace
}  // namespace kvasir::testing
