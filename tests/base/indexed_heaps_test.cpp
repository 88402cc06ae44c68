#include "base/indexed_heaps.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "base/law.h"

namespace kvasir {
namespace {

constexpr int kIds = 20;
constexpr size_t kHeaps = 3;

// Random pushes and removals against sets of (priority, id): few priorities, so that ties are many.
TEST(IndexedHeaps, EachTopIsAlwaysTheSmallestAndTiesGoToTheSmallerId) {
  law(1000, [](const std::vector<std::pair<unsigned, unsigned>>& program) {
    IndexedHeaps heaps(kIds);
    std::array<std::set<std::pair<std::uint64_t, std::int32_t>>, kHeaps> model;
    std::array<size_t, kIds> in{};
    for (const auto& [who, priority] : program) {
      const auto id = static_cast<std::int32_t>(who % kIds);
      if (heaps.contains(id)) {
        RC_ASSERT(model[in[static_cast<size_t>(id)]].erase({heaps.priority(id), id}) == 1U);
        heaps.remove(id);
      } else {
        const size_t heap = in[static_cast<size_t>(id)] = priority / 7 % kHeaps;
        heaps.push(heap, id, priority % 7);
        model[heap].insert({priority % 7, id});
      }
      RC_ASSERT(heaps.well_formed());
      size_t all = 0;
      for (size_t h = 0; h < kHeaps; ++h) {
        all += model[h].size();
        RC_ASSERT(heaps.size(h) == static_cast<std::int32_t>(model[h].size()));
        RC_ASSERT(heaps.empty(h) == model[h].empty());
        if (!model[h].empty()) RC_ASSERT(heaps.top(h) == model[h].begin()->second);
      }
      RC_ASSERT(heaps.size() == static_cast<std::int32_t>(all));
    }
    for (size_t h = 0; h < kHeaps; ++h) {
      while (!heaps.empty(h)) {
        RC_ASSERT(heaps.top(h) == model[h].begin()->second);
        model[h].erase(model[h].begin());
        heaps.remove(heaps.top(h));
      }
      RC_ASSERT(model[h].empty());
    }
  });
}

TEST(IndexedHeaps, AllSixtyFourBitsOfAPriorityCount) {
  IndexedHeaps heaps(3);
  heaps.push(0, 0, ~0ULL);
  heaps.push(0, 1, 1ULL << 63);
  heaps.push(0, 2, (1ULL << 63) - 1);
  EXPECT_EQ(heaps.top(0), 2);
  heaps.remove(2);
  EXPECT_EQ(heaps.top(0), 1);
}

TEST(IndexedHeapsDeathTest, AnIdIsThereOnceOrNotAtAll) {
  IndexedHeaps heaps(2);
  EXPECT_DEATH(heaps.remove(0), "contains");
  heaps.push(0, 0, 1);
  EXPECT_DEATH(heaps.push(0, 0, 2), "contains");
  EXPECT_DEATH(heaps.push(1, 0, 2), "contains");
}

}  // namespace
}  // namespace kvasir
