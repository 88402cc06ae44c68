#include "kv/eviction.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace kvasir {
namespace {

constexpr std::uint64_t kNotSuperseded = std::uint64_t{1} << 63;

class Lru final : public EvictionPolicy {
 public:
  std::string_view name() const override { return "lru"; }
  std::uint64_t rank(const BlockUse& use) const override { return use.last_use; }
};

class Fifo final : public EvictionPolicy {
 public:
  std::string_view name() const override { return "fifo"; }
  std::uint64_t rank(const BlockUse& use) const override { return use.born; }
};

class CostAware final : public EvictionPolicy {
 public:
  std::string_view name() const override { return "cost"; }

  std::uint64_t rank(const BlockUse& use) const override {
    // Fixed point with 16 bits below the point, so that blocks of like size but different depth still differ.
    const std::uint64_t bytes = std::max<std::uint64_t>(use.bytes, 1);
    return std::min(floor_ + (use.recompute << 16) / bytes, kNotSuperseded - 1);
  }

  void rank_evicted(std::uint64_t rank) override { floor_ = std::max(floor_, rank); }

 private:
  std::uint64_t floor_ = 0;
};

}  // namespace

std::uint64_t EvictionPolicy::priority(const BlockUse& use) const {
  return rank(use) + (use.superseded ? 0 : kNotSuperseded);
}

// What is superseded goes whatever it would cost: that it went tells nothing of what the others are worth.
void EvictionPolicy::evicted(std::uint64_t priority) {
  if (priority >= kNotSuperseded) rank_evicted(priority - kNotSuperseded);
}

std::unique_ptr<EvictionPolicy> make_eviction_policy(std::string_view name) {
  if (name == "lru") return std::make_unique<Lru>();
  if (name == "fifo") return std::make_unique<Fifo>();
  if (name == "cost") return std::make_unique<CostAware>();
  fail_usage(fmt::format("'{}' is not an eviction policy", name), "--eviction", "use lru, fifo or cost");
}

}  // namespace kvasir
