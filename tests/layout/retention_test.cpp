#include "layout/retention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace kvasir {
namespace {

std::vector<Retention> all_kinds() {
  std::vector<Retention> kinds{{}};
  for (std::int64_t window = 1; window <= 6; ++window) {
    for (std::int64_t sinks = 0; sinks <= 5; ++sinks) kinds.push_back({window, sinks});
  }
  for (const std::int64_t chunk : {1, 2, 5, 7}) {
    for (const std::int64_t window : {0, 1, 3, 9}) {
      for (const std::int64_t sinks : {0, 2}) kinds.push_back({window, sinks, chunk});
    }
  }
  return kinds;
}

TEST(Retention, ShowsTheWindowAndTheSinksAndNothingOfTheFuture) {
  for (const Retention& kept : all_kinds()) {
    for (std::int64_t query = 0; query < 20; ++query) {
      for (std::int64_t key = 0; key < 25; ++key) {
        bool expected = key <= query;
        const bool in_window = kept.window == 0 || key > query - kept.window;
        const bool in_chunk = kept.chunk == 0 || key / kept.chunk == query / kept.chunk;
        expected = expected && ((in_window && in_chunk) || key < kept.sinks);
        EXPECT_EQ(kept.visible(query, key), expected);
      }
      EXPECT_TRUE(kept.visible(query, query));
    }
  }
}

// A block is needed exactly while some query, now or later, sees some of its positions.
TEST(Retention, NeededIsExactlyWhatSomeQueryFromNowOnSees) {
  for (const Retention& kept : all_kinds()) {
    for (std::int64_t first = 0; first < 12; ++first) {
      for (std::int64_t last = first; last < first + 5; ++last) {
        for (std::int64_t next = 0; next < 24; ++next) {
          bool seen = false;
          for (std::int64_t query = next; query < 40; ++query) {
            for (std::int64_t key = first; key <= last; ++key) seen |= kept.visible(query, key);
          }
          ASSERT_EQ(kept.needed(first, last, next), seen)
              << kept.window << " " << kept.sinks << " " << kept.chunk << " " << first << " " << last << " " << next;
        }
      }
    }
  }
}

TEST(Retention, OnceUnneededStaysUnneeded) {
  for (const Retention& kept : all_kinds()) {
    for (std::int64_t first = 0; first < 12; ++first) {
      bool needed = true;
      for (std::int64_t next = 0; next < 40; ++next) {
        const bool now = kept.needed(first, first + 3, next);
        EXPECT_TRUE(needed || !now);
        needed = now;
      }
    }
  }
}

TEST(Retention, TheWindowBeginsAtTheFirstPositionItShows) {
  for (const Retention& kept : all_kinds()) {
    const Retention bare{kept.window, 0, kept.chunk};
    for (std::int64_t query = 0; query < 20; ++query) {
      std::int64_t first = 0;
      while (!bare.visible(query, first)) ++first;
      EXPECT_EQ(kept.window_begin(query), first);
    }
  }
}

TEST(Retention, TheSpanIsTheMostThatAQuerySees) {
  for (const Retention& kept : all_kinds()) {
    if (kept.full()) continue;
    std::int64_t most = 0;
    for (std::int64_t query = 0; query < 40; ++query) most = std::max(most, query - kept.window_begin(query) + 1);
    EXPECT_EQ(kept.span(), most) << kept.window << " " << kept.chunk;
  }
}

TEST(Retention, HoldsBeyondTwoToTheThirtyOne) {
  const Retention kept{1024, 4};
  const std::int64_t far = 1LL << 40;
  EXPECT_TRUE(kept.visible(far, far - 1023));
  EXPECT_FALSE(kept.visible(far, far - 1024));
  EXPECT_TRUE(kept.visible(far, 3));
  EXPECT_FALSE(kept.needed(4, 19, far));
  EXPECT_TRUE(kept.needed(0, 15, far));
}

}  // namespace
}  // namespace kvasir
