// Prefixes that are kept for a while because a request marked them: a second hold on their blocks, until it expires.
//
// Pins are bounded in blocks, all together and for each tenant, and yield when a lone request needs the room: they
// delay eviction and fail nobody.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "kv/cache.h"

namespace kvasir {

class PinBoard {
 public:
  explicit PinBoard(std::int64_t most_blocks) : most_blocks_(most_blocks) {}

  // What to keep: the lease's first `tokens`, rounded up to whole blocks as far as they are written, until `expires`.
  struct Wish {
    Position tokens = 0;
    double expires = 0;
    std::int64_t most_blocks = 0;  // of all pins of the lease's tenant together
  };
  // The same prefix pinned again is kept until the later of both. False: there is no room among the pins or among the
  // tenant's own, or a window no longer holds that place.
  bool hold(KvCache& cache, const KvLease& lease, const Wish& wish);

  void expire(double now);
  // Lets the pin go that would expire first: of one tenant, or of all. False: there is none.
  bool drop_soonest(std::optional<std::uint32_t> tenant);

  std::int64_t size() const { return static_cast<std::int64_t>(pins_.size()); }
  std::int64_t blocks() const { return std::ssize(blocks_); }  // of the first group
  std::int64_t blocks(std::uint32_t tenant) const;

 private:
  struct Pin {
    Key256 name;  // of its last full block
    Position tokens = 0;
    double expires = 0;
    KvLease lease;
  };

  using Holds = std::unordered_map<BlockId, int>;  // blocks of the first group: how many pins hold each

  void count(const KvLease& lease, int by);
  static void count(const BlockTable& table, int by, Holds& holds);
  void drop(size_t index);

  std::int64_t most_blocks_;
  std::vector<Pin> pins_;
  Holds blocks_;
  std::map<std::uint32_t, Holds> by_tenant_;  // no empty ones
};

}  // namespace kvasir
