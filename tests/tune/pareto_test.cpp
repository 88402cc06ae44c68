#include "tune/pareto.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/hash.h"

namespace kvasir {
namespace {

using Parts = std::vector<std::vector<PartChoice>>;

// Harms are whole numbers: their sums are exact in any order.
Parts some_parts(std::uint64_t seed, size_t count) {
  Parts parts(count);
  for (size_t i = 0; i < count; ++i) {
    const std::uint64_t choices = 1 + mix(seed, i, 0) % 4;
    for (std::uint64_t c = 0; c < choices; ++c) {
      parts[i].push_back({static_cast<std::int64_t>(1 + mix(seed, i, 2 * c + 1) % 5),
                          static_cast<double>(mix(seed, i, 2 * c + 2) % 50)});
    }
  }
  return parts;
}

// Every selection there is, by its size, harms ascending.
std::map<std::int64_t, std::vector<double>> every_selection(const Parts& parts) {
  std::vector<PartChoice> sums(1);
  for (const auto& part : parts) {
    std::vector<PartChoice> longer;
    for (const PartChoice& sum : sums) {
      for (const PartChoice& choice : part) longer.push_back({sum.bytes + choice.bytes, sum.harm + choice.harm});
    }
    sums = std::move(longer);
  }
  std::map<std::int64_t, std::vector<double>> out;
  for (const PartChoice& sum : sums) out[sum.bytes].push_back(sum.harm);
  for (auto& [bytes, harms] : out) std::ranges::sort(harms);
  return out;
}

TEST(Pareto, FindsWhatTryingEverythingFinds) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Parts parts = some_parts(seed, 1 + seed % 7);
    const auto expected = every_selection(parts);
    for (const int deep : {1, 3}) {
      std::map<std::int64_t, std::vector<double>> found;
      for (const Selection& one : best_selections(parts, deep)) {
        std::int64_t bytes = 0;
        double harm = 0;
        for (size_t i = 0; i < parts.size(); ++i) {
          bytes += parts[i][one.choices[i]].bytes;
          harm += parts[i][one.choices[i]].harm;
        }
        EXPECT_EQ(bytes, one.bytes);
        EXPECT_EQ(harm, one.harm);
        found[one.bytes].push_back(one.harm);
      }
      ASSERT_EQ(found.size(), expected.size());
      for (const auto& [bytes, harms] : expected) {
        const auto most = std::min(static_cast<size_t>(deep), harms.size());
        EXPECT_EQ(found[bytes], std::vector<double>(harms.begin(), harms.begin() + static_cast<std::ptrdiff_t>(most)))
            << seed << " " << bytes;
      }
    }
  }
}

TEST(Pareto, TheFrontHasNothingThatSomethingSmallerBeats) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Parts parts = some_parts(seed, 6);
    const std::vector<Selection> all = best_selections(parts, 1);
    const std::vector<Selection> front = pareto_front(all);
    ASSERT_FALSE(front.empty());
    for (const Selection& one : all) {
      const bool beaten = std::ranges::any_of(
          all, [&](const Selection& other) { return other.bytes < one.bytes && other.harm <= one.harm; });
      EXPECT_EQ(std::ranges::find(front, one) == front.end(), beaten) << seed << " " << one.bytes;
    }
  }
}

}  // namespace
}  // namespace kvasir
