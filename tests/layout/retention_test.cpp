#include "layout/retention.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvasir {
namespace {

std::vector<Retention> all_kinds() {
  std::vector<Retention> kinds{{}};
  for (std::int64_t window = 1; window <= 6; ++window) {
    for (std::int64_t sinks = 0; sinks <= 5; ++sinks) kinds.push_back({window, sinks});
  }
  return kinds;
}

TEST(Retention, ShowsTheWindowAndTheSinksAndNothingOfTheFuture) {
  for (const Retention& kept : all_kinds()) {
    for (std::int64_t query = 0; query < 20; ++query) {
      for (std::int64_t key = 0; key < 25; ++key) {
        bool expected = key <= query;
        if (!kept.full()) expected = expected && (key > query - kept.window || key < kept.sinks);
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
              << kept.window << " " << kept.sinks << " " << first << " " << last << " " << next;
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
    const Retention bare{kept.window, 0};
    for (std::int64_t query = 0; query < 20; ++query) {
      std::int64_t first = 0;
      while (!bare.visible(query, first)) ++first;
      EXPECT_EQ(kept.window_begin(query), first);
    }
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
