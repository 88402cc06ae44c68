// Min-heaps over the ids 0 … n-1, each id with a priority and in at most one of the heaps, from which any id can be
// removed. Heaps are numbered from 0 and come into being when first named. Ties go to the smaller id, so the order is
// a function of the contents alone.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"

namespace kvasir {

class IndexedHeaps {
 public:
  explicit IndexedHeaps(std::int32_t ids) : places_(static_cast<size_t>(ids)) {}

  // So many ids from now on: never fewer.
  void grow(std::int32_t ids) {
    CHECK(static_cast<size_t>(ids) >= places_.size());
    places_.resize(static_cast<size_t>(ids));
  }

  size_t heaps() const { return heaps_.size(); }
  bool empty(size_t heap) const { return heap >= heaps_.size() || heaps_[heap].empty(); }
  std::int32_t size(size_t heap) const { return empty(heap) ? 0 : static_cast<std::int32_t>(heaps_[heap].size()); }
  std::int32_t size() const { return size_; }  // of all
  bool contains(std::int32_t id) const { return place(id).at != kAbsent; }
  std::int32_t top(size_t heap) const { return heaps_[heap].front(); }
  std::uint64_t priority(std::int32_t id) const { return place(id).priority; }

  void push(size_t heap, std::int32_t id, std::uint64_t priority) {
    CHECK(!contains(id));
    if (heap >= heaps_.size()) heaps_.resize(heap + 1);
    Heap& ids = heaps_[heap];
    ids.push_back(id);
    place(id) = {priority, heap, static_cast<std::int32_t>(ids.size()) - 1};
    sift_up(ids, place(id).at);
    ++size_;
  }

  void remove(std::int32_t id) {
    CHECK(contains(id));
    Heap& ids = heaps_[place(id).heap];
    const std::int32_t hole = place(id).at;
    const std::int32_t last = ids.back();
    ids.pop_back();
    place(id).at = kAbsent;
    --size_;
    if (last == id) return;
    ids[static_cast<size_t>(hole)] = last;
    place(last).at = hole;
    sift_up(ids, hole);
    sift_down(ids, place(last).at);
  }

  bool well_formed() const {
    std::int32_t seen = 0;
    for (size_t h = 0; h < heaps_.size(); ++h) {
      const Heap& ids = heaps_[h];
      for (std::int32_t i = 0; i < static_cast<std::int32_t>(ids.size()); ++i, ++seen) {
        const Place& here = place(ids[static_cast<size_t>(i)]);
        if (here.at != i || here.heap != h || (i > 0 && before(ids, i, (i - 1) / 2))) return false;
      }
    }
    return seen == size_;
  }

 private:
  using Heap = std::vector<std::int32_t>;  // ids, in heap order
  static constexpr std::int32_t kAbsent = -1;

  struct Place {
    std::uint64_t priority = 0;  // meaningful while present
    size_t heap = 0;
    std::int32_t at = kAbsent;  // index in the heap
  };

  Place& place(std::int32_t id) { return places_[static_cast<size_t>(id)]; }
  const Place& place(std::int32_t id) const { return places_[static_cast<size_t>(id)]; }

  bool before(const Heap& ids, std::int32_t a, std::int32_t b) const {
    const std::int32_t x = ids[static_cast<size_t>(a)];
    const std::int32_t y = ids[static_cast<size_t>(b)];
    return std::pair(priority(x), x) < std::pair(priority(y), y);
  }

  void swap_places(Heap& ids, std::int32_t a, std::int32_t b) {
    std::swap(ids[static_cast<size_t>(a)], ids[static_cast<size_t>(b)]);
    place(ids[static_cast<size_t>(a)]).at = a;
    place(ids[static_cast<size_t>(b)]).at = b;
  }

  void sift_up(Heap& ids, std::int32_t at) {
    for (; at > 0 && before(ids, at, (at - 1) / 2); at = (at - 1) / 2) swap_places(ids, at, (at - 1) / 2);
  }

  void sift_down(Heap& ids, std::int32_t at) {
    const auto size = static_cast<std::int32_t>(ids.size());
    while (true) {
      std::int32_t least = at;
      for (const std::int32_t child : {2 * at + 1, 2 * at + 2}) {
        if (child < size && before(ids, child, least)) least = child;
      }
      if (least == at) return;
      swap_places(ids, at, least);
      at = least;
    }
  }

  std::vector<Heap> heaps_;
  std::vector<Place> places_;  // by id
  std::int32_t size_ = 0;
};

}  // namespace kvasir
