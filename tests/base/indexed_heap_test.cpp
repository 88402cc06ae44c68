#include "base/indexed_heap.h"

#include <gtest/gtest.h>

#include <set>

#include "base/law.h"

namespace kvasir {
namespace {

constexpr int kIds = 20;

// Random pushes and removals against a std::set of (priority, id): few priorities, so that ties are many.
TEST(IndexedHeap, TheTopIsAlwaysTheSmallestAndTiesGoToTheSmallerId) {
  law(1000, [](const std::vector<std::pair<unsigned, unsigned>>& program) {
    IndexedHeap heap(kIds);
    std::set<std::pair<std::uint64_t, std::int32_t>> model;
    for (const auto& [who, priority] : program) {
      const auto id = static_cast<std::int32_t>(who % kIds);
      if (heap.contains(id)) {
        RC_ASSERT(model.erase({heap.priority(id), id}) == 1U);
        heap.remove(id);
      } else {
        heap.push(id, priority % 7);
        model.insert({priority % 7, id});
      }
      RC_ASSERT(heap.well_formed());
      RC_ASSERT(heap.size() == static_cast<std::int32_t>(model.size()));
      RC_ASSERT(heap.empty() == model.empty());
      if (!model.empty()) RC_ASSERT(heap.top() == model.begin()->second);
    }
    while (!heap.empty()) {
      RC_ASSERT(heap.top() == model.begin()->second);
      model.erase(model.begin());
      heap.remove(heap.top());
    }
    RC_ASSERT(model.empty());
  });
}

TEST(IndexedHeap, AllSixtyFourBitsOfAPriorityCount) {
  IndexedHeap heap(3);
  heap.push(0, ~0ULL);
  heap.push(1, 1ULL << 63);
  heap.push(2, (1ULL << 63) - 1);
  EXPECT_EQ(heap.top(), 2);
  heap.remove(2);
  EXPECT_EQ(heap.top(), 1);
}

TEST(IndexedHeapDeathTest, AnIdIsThereOnceOrNotAtAll) {
  IndexedHeap heap(2);
  EXPECT_DEATH(heap.remove(0), "contains");
  heap.push(0, 1);
  EXPECT_DEATH(heap.push(0, 2), "contains");
}

}  // namespace
}  // namespace kvasir
