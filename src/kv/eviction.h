// Which cached block goes first. A policy is a function from a block's history to a priority; the pool keeps the
// blocks in that order, and the smallest goes. Under every policy what is superseded goes before all that is not.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace kvasir {

// What is known of a block when its last holder lets go. Times are ticks of the cache's own clock.
struct BlockUse {
  std::uint64_t born = 0;       // published
  std::uint64_t last_use = 0;   // held by a lease
  std::uint64_t recompute = 0;  // what making it again would cost, in the unit of RecomputeCost
  std::uint64_t bytes = 0;
  bool superseded = false;  // a state with a later one of the same text, which the text's next request goes on from
};

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  virtual std::string_view name() const = 0;

  // The smaller, the sooner it goes. Asked when the block becomes evictable, and when it is superseded after that.
  std::uint64_t priority(const BlockUse& use) const;

  // To be told each time a block is evicted, with the priority it had.
  void evicted(std::uint64_t priority);

 private:
  // Among blocks that are superseded, or among those that are not: below 2^63.
  virtual std::uint64_t rank(const BlockUse& use) const = 0;
  virtual void rank_evicted(std::uint64_t /*rank*/) {}
};

// "lru": the least recently held goes first.
// "fifo": the one published first goes first.
// "cost": GreedyDual-Size. Priority is cost per byte on top of a floor that rises to the priority of whatever was
// last
//   evicted: dear blocks outlive cheap ones of the same age, and every block that is not used again goes in the end.
// Throws Error on any other name.
std::unique_ptr<EvictionPolicy> make_eviction_policy(std::string_view name);

}  // namespace kvasir
