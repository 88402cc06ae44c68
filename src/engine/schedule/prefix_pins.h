// Prefixes that are kept for a while because a request marked them: a second hold on their blocks, until it expires.
//
// Pins are bounded in bytes, all together and for each tenant, and yield when a lone request needs the room: they
// delay eviction and fail nobody. What the engine itself keeps (public texts) does not yield: whether it is there
// must not depend on what anybody asks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "engine/sequence.h"
#include "kv/cache.h"

namespace kvasir {

// What to keep: a lease's first `tokens`, rounded up to whole blocks as far as they are written, until `expires`.
struct PinRequest {
  enum class Yields : std::uint8_t { kToLoneRequests, kNever };

  Position tokens = 0;
  double expires = 0;
  std::int64_t most_bytes = 0;  // of all pins of the lease's tenant together
  Yields yields = Yields::kToLoneRequests;
};

class PrefixPins {
 public:
  using Yields = PinRequest::Yields;

  PrefixPins(const KvCache& cache, std::int64_t most_bytes) : cache_(cache), most_bytes_(most_bytes) {}

  // The same prefix pinned again is kept until the later of both. False: there is no room among the pins or among the
  // tenant's own, or a window no longer holds that place.
  bool pin(KvCache& cache, const KvLease& lease, const PinRequest& wanted);

  // Pins the sequence's next breakpoints whose last block is full, so that it can be found; at its end, whatever
  // there is of them.
  enum class Moment : std::uint8_t { kRunning, kEnded };
  struct When {
    double now = 0;
    Moment moment = Moment::kRunning;
    std::int64_t most_bytes = 0;  // of all pins of its tenant together
  };
  void pin_breakpoints(KvCache& cache, Sequence& sequence, const When& when);

  void expire(double now);
  // Lets the pin go that would expire first, of those that yield: of one tenant, or of all. False: there is none.
  bool drop_soonest(std::optional<std::uint32_t> tenant);

  std::int64_t size() const { return static_cast<std::int64_t>(pins_.size()); }
  // What is pinned, of one tenant or of all: each block once, whoever pins it. Blocks are of the leases' first
  // groups.
  std::int64_t blocks(std::optional<std::uint32_t> tenant = std::nullopt) const { return tally(tenant).blocks; }
  std::int64_t bytes(std::optional<std::uint32_t> tenant = std::nullopt) const { return tally(tenant).bytes; }
  template <class Visit>
  void each_lease(Visit visit) const {
    for (const Pin& pin : pins_) visit(pin.lease);
  }
  // Blocks of all groups that nobody but pins holds. O(pinned blocks).
  std::int64_t idle_blocks() const;

 private:
  struct Pin {
    Key256 name;  // of its last full block
    double expires = 0;
    Yields yields = Yields::kToLoneRequests;
    KvLease lease;
  };

  // Sums over pins, kept as they come and go. Blocks may move: they are known by name and group.
  struct Tally {
    std::map<std::pair<Key256, size_t>, int> pins;  // of each block
    std::int64_t blocks = 0;
    std::int64_t bytes = 0;
  };

  const Tally& tally(std::optional<std::uint32_t> tenant) const;
  void count(Tally& tally, const KvLease& lease, int by) const;
  void count(const KvLease& lease, int by);
  void drop(size_t pin);

  const KvCache& cache_;
  std::int64_t most_bytes_;
  std::vector<Pin> pins_;
  Tally all_;
  std::map<std::uint32_t, Tally> of_tenant_;
  const Tally none_;
};

}  // namespace kvasir
