// Which cached block goes first. A policy is a function from a block's history to a priority; the pool keeps the
// blocks in that order, and the smallest goes.
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
};

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  virtual std::string_view name() const = 0;

  // The smaller, the sooner it goes. Asked once, when the block becomes evictable.
  virtual std::uint64_t priority(const BlockUse& use) const = 0;

  // Told each time a block is evicted, with the priority it had.
  virtual void evicted(std::uint64_t /*priority*/) {}
};

// "lru": the least recently held goes first.
// "fifo": the one published first goes first.
// "cost": GreedyDual-Size. Priority is cost per byte on top of a floor that rises to the priority of whatever was
// last
//   evicted: dear blocks outlive cheap ones of the same age, and every block that is not used again goes in the end.
// Throws Error on any other name.
std::unique_ptr<EvictionPolicy> make_eviction_policy(std::string_view name);

}  // namespace kvasir
