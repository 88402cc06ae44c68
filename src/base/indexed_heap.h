// A min-heap over the ids 0 … n-1, each with a priority, in which any id can be removed. No allocation after
// construction; ties go to the smaller id, so the order is a function of the contents alone.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"

namespace kvasir {

class IndexedHeap {
 public:
  explicit IndexedHeap(std::int32_t ids) : place_(static_cast<size_t>(ids), kAbsent), priority_(place_.size()) {
    heap_.reserve(place_.size());
  }

  bool empty() const { return heap_.empty(); }
  std::int32_t size() const { return static_cast<std::int32_t>(heap_.size()); }
  bool contains(std::int32_t id) const { return place_[static_cast<size_t>(id)] != kAbsent; }
  std::int32_t top() const { return heap_.front(); }
  std::uint64_t priority(std::int32_t id) const { return priority_[static_cast<size_t>(id)]; }

  void push(std::int32_t id, std::uint64_t priority) {
    CHECK(!contains(id));
    priority_[static_cast<size_t>(id)] = priority;
    heap_.push_back(id);
    place_[static_cast<size_t>(id)] = size() - 1;
    sift_up(size() - 1);
  }

  void remove(std::int32_t id) {
    CHECK(contains(id));
    const std::int32_t hole = place_[static_cast<size_t>(id)];
    const std::int32_t last = heap_.back();
    heap_.pop_back();
    place_[static_cast<size_t>(id)] = kAbsent;
    if (last == id) return;
    heap_[static_cast<size_t>(hole)] = last;
    place_[static_cast<size_t>(last)] = hole;
    sift_up(hole);
    sift_down(place_[static_cast<size_t>(last)]);
  }

  bool well_formed() const {
    for (std::int32_t i = 1; i < size(); ++i) {
      if (before(i, (i - 1) / 2) || place_[static_cast<size_t>(heap_[static_cast<size_t>(i)])] != i) return false;
    }
    return true;
  }

 private:
  static constexpr std::int32_t kAbsent = -1;

  bool before(std::int32_t a, std::int32_t b) const {
    const std::int32_t x = heap_[static_cast<size_t>(a)];
    const std::int32_t y = heap_[static_cast<size_t>(b)];
    return std::pair(priority(x), x) < std::pair(priority(y), y);
  }

  void swap_places(std::int32_t a, std::int32_t b) {
    std::swap(heap_[static_cast<size_t>(a)], heap_[static_cast<size_t>(b)]);
    place_[static_cast<size_t>(heap_[static_cast<size_t>(a)])] = a;
    place_[static_cast<size_t>(heap_[static_cast<size_t>(b)])] = b;
  }

  void sift_up(std::int32_t at) {
    for (; at > 0 && before(at, (at - 1) / 2); at = (at - 1) / 2) swap_places(at, (at - 1) / 2);
  }

  void sift_down(std::int32_t at) {
    while (true) {
      std::int32_t least = at;
      for (const std::int32_t child : {2 * at + 1, 2 * at + 2}) {
        if (child < size() && before(child, least)) least = child;
      }
      if (least == at) return;
      swap_places(at, least);
      at = least;
    }
  }

  std::vector<std::int32_t> heap_;       // ids, in heap order
  std::vector<std::int32_t> place_;      // id -> index in heap_, or kAbsent
  std::vector<std::uint64_t> priority_;  // id -> priority, meaningful while present
};

}  // namespace kvasir
