// The paged, content-addressed KV cache: bookkeeping only. It decides; KvStorage moves the bytes.
//
//     open(tokens, tenant)      pin the longest reusable prefix, at most n-1 tokens, and say why no more
//     reserve(lease, n)         room to write the next n tokens, or false and nothing changed
//     take_copies()             byte moves that must happen before those tokens are written
//     commit(lease, tokens)     they are written: publish full blocks, drop what the retention no longer needs
//     truncate(lease, length)   give back what was reserved or written beyond
//     fork(lease)               a second hold on the same blocks, copied on the first write
//     ~KvLease                  let go: full blocks stay, to be found by key until they are evicted
//
// Single-threaded: the engine's thread owns it. No floats, no bytes, no devices.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/histogram.h"
#include "base/ids.h"
#include "kv/block_pool.h"
#include "kv/explain.h"
#include "kv/lease.h"
#include "kv/prefix_index.h"
#include "kv/tenant.h"
#include "layout/retention.h"

namespace kvasir {

// What a token at position p costs to compute again, in any unit: constant + per_position * p.
struct RecomputeCost {
  std::uint64_t constant = 1;
  std::uint64_t per_position = 0;
};

struct CacheGroupConfig {
  Retention retention;
  std::vector<BlockId> free_order;  // its blocks, in the order they are first handed out
  std::int64_t block_bytes = 0;
};

struct CacheConfig {
  enum class Reuse : std::uint8_t { kOn, kOff };

  int block_tokens = 16;
  std::vector<CacheGroupConfig> groups;
  Key256 policy_key;  // names the weights, the formats, the retention and the kernels: blocks of another never match
  std::string eviction = "lru";
  RecomputeCost recompute;
  Reuse reuse = Reuse::kOn;
  std::vector<std::vector<TokenId>> public_texts;  // beginnings whose whole blocks all tenants share
};

// The blocks 0 … n-1 in order: what every free_order is when nobody wants to test another.
std::vector<BlockId> blocks_in_order(std::int64_t blocks);

// A block's rows must be copied before anything writes to `to`. Run in the order given.
struct BlockCopy {
  size_t group = 0;
  BlockId from = kNoBlock;
  BlockId to = kNoBlock;
};

struct CacheEvent {
  enum class Kind : std::uint8_t { kPublished, kEvicted };
  Kind kind = Kind::kPublished;
  size_t group = 0;
  BlockId block = kNoBlock;
  std::uint64_t tick = 0;
};

struct CacheStats {
  std::int64_t queried_tokens = 0;  // of prompts opened
  std::int64_t hit_tokens = 0;
  std::int64_t published_blocks = 0;
  std::int64_t deduplicated_blocks = 0;  // computed twice at the same time; one copy was given back
  std::int64_t evicted_blocks = 0;
  std::int64_t copied_blocks = 0;  // by forks
  // In seconds of the clock that set_clock tells.
  Histogram block_lifetime{life_bounds()};   // from published to evicted
  Histogram block_idle{life_bounds()};       // from last held to evicted
  Histogram block_reuse_gap{life_bounds()};  // from last held to held again

  static std::vector<double> life_bounds();
};

class KvCache {
 public:
  explicit KvCache(CacheConfig config);
  ~KvCache();  // requires that every lease is gone
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  struct Opened {
    KvLease lease;
    ReuseReport report;
  };
  Opened open(std::span<const TokenId> tokens, const Tenant& tenant, std::uint64_t request = 0);
  Position reusable(std::span<const TokenId> tokens,
                    const Tenant& tenant) const;  // what open would pin; changes nothing
  // The names of a prompt's whole blocks, as far as open would look for them: of its content alone, so that who waits
  // may keep them. held_prefix() then says how many of these blocks, from the first on, somebody holds just now:
  // sharing them takes no room, while one that is only cached is no longer there for others once it is pinned.
  std::vector<Key256> block_names(std::span<const TokenId> tokens, const Tenant& tenant) const;
  std::int64_t held_prefix(std::span<const TokenId> tokens, std::span<const Key256> names) const;
  bool reserve(KvLease& lease, std::int64_t tokens);
  void commit(KvLease& lease, std::span<const TokenId> tokens);
  void truncate(KvLease& lease, Position length);
  bool may_truncate(const KvLease& lease, Position length) const;  // a window that slid on cannot slide back
  KvLease fork(const KvLease& lease);
  std::vector<BlockCopy> take_copies();

  // Seconds on any clock that only goes forward, for what is told of the past. Decides nothing.
  void set_clock(double seconds) { now_ = seconds; }

  bool reuses() const { return config_.reuse == CacheConfig::Reuse::kOn; }
  int block_tokens() const { return config_.block_tokens; }
  size_t groups() const { return groups_.size(); }
  const BlockPool& pool(size_t group) const { return groups_[group].pool; }
  const CacheStats& stats() const { return stats_; }

  // From the next reserve on. Tenants nobody told of have the default share. Tenants' ids are dense.
  void set_share(std::uint32_t tenant, TenantShare share);
  TenantStats tenant_stats(std::uint32_t tenant) const;
  bool over_guarantee(std::uint32_t tenant) const;

  // How many more blocks of this group a tenant's leases could take now.
  std::int64_t available(size_t group, std::uint32_t tenant) const {
    return groups_[group].pool.available(owner_of(tenant));
  }
  // Why reserve() would refuse so many tokens.
  enum class Shortage : std::uint8_t { kNone, kQuota, kPool };
  Shortage shortage(const KvLease& lease, std::int64_t tokens) const;
  // How many blocks nobody but this lease holds, in all groups: what letting go of it would make available.
  std::int64_t private_blocks(const KvLease& lease) const;

  // What happened since the last call; kept only once a listener has asked for it.
  void listen() { listening_ = true; }
  std::vector<CacheEvent> take_events();

  // Whether a sequence of this length could ever be held, were it alone, by a tenant with this share. Of what never
  // changes: may be asked from any thread.
  bool fits_alone(Position length, const TenantShare& share = {}) const;

  // Recounts everything from the leases up. Nothing, or the first thing that is wrong. O(blocks); callable any time.
  std::optional<std::string> problem() const;

 private:
  friend class KvLease;
  struct Group {
    CacheGroupConfig config;
    BlockPool pool;
    PrefixIndex index;
    struct Use {
      std::uint64_t tick = 0;
      double time = 0;
    };
    std::vector<Use> last_use;  // by block: when its last holder let go
  };
  // What a prompt finds: `slots` whole blocks, then `tail` tokens of one more block that goes on differently.
  struct Found {
    std::vector<Key256> keys;                  // of the prompt's full blocks, as far as they were asked for
    std::vector<std::vector<BlockId>> blocks;  // [group][slot], kNoBlock where missing; the tail's block last
    std::int64_t slots = 0;
    std::int64_t tail = 0;
    ReuseStop stop = ReuseStop::kNeverSeen;
    PrefixIndex::Eviction eviction;
  };
  // What a lease needs of one group before tokens can be written.
  struct Need {
    enum class Tail : std::uint8_t {
      kWrite,  // the open block is ours alone, or there is none
      kCopy,   // others hold it, or it has a name: write into a copy
      kSteal,  // the same, but there is no room for a copy and nobody else holds it: unname it and write into it
    };
    std::int64_t blocks = 0;         // to take …
    std::int64_t public_blocks = 0;  // … of which so many for everybody
    Tail tail = Tail::kWrite;
  };

  static OwnerId owner_of(std::uint32_t tenant);  // 0 owns what is public
  void name_roots(std::span<const TokenId> tokens, LeaseState& state) const;
  static Key256 parent_of(const LeaseState& state, std::span<const Key256> keys, std::int64_t slot);
  static Key256 name_of(const LeaseState& state, const Key256& parent, std::int64_t slot,
                        std::span<const TokenId> tokens);
  void check_public(LeaseState& state, std::int64_t slot) const;
  void end_public(LeaseState& state, std::int64_t slots) const;

  LeaseState blank(std::span<const TokenId> tokens, const Tenant& tenant) const;
  Found find(std::span<const TokenId> tokens, const LeaseState& state) const;
  void find_slots(std::span<const TokenId> tokens, const LeaseState& state, Found& found) const;
  void find_tail(std::span<const TokenId> tokens, const LeaseState& state, Found& found) const;
  void explain_stop(std::span<const TokenId> tokens, const LeaseState& state, Found& found) const;
  bool serves(const Group& group, const std::vector<BlockId>& blocks, std::int64_t slots) const;
  void pin(const Found& found, std::span<const TokenId> tokens, LeaseState& state);
  void release(LeaseState& state);

  Need need_of(const LeaseState& state, size_t group, Position target) const;
  Shortage shortage_of(const LeaseState& state, size_t group, const Need& need) const;
  void make_tail_writable(LeaseState& state, size_t group, Need::Tail how);
  BlockId take(size_t group, const LeaseState& state, std::int64_t slot);
  void forget(size_t group, BlockId block, const PrefixIndex::Eviction& why);
  void hold(Group& group, BlockId block);
  void let_go(Group& group, BlockId block);
  void settle(Group& group, BlockId block);
  void publish(LeaseState& state, std::int64_t slot);
  void drop_unneeded(LeaseState& state, size_t group);
  BlockUse use_of(const Group& group, BlockId block) const;
  std::span<const TokenId> slot_tokens(std::span<const TokenId> tokens, std::int64_t slot) const;
  void note(CacheEvent::Kind kind, size_t group, BlockId block);
  std::optional<std::string> problem_in(size_t group) const;

  CacheConfig config_;
  std::vector<Group> groups_;
  size_t widest_ = 0;  // a group that keeps everything, if there is one: it knows the most texts
  std::vector<const LeaseState*> leases_;
  std::vector<BlockCopy> copies_;
  std::vector<CacheEvent> events_;
  CacheStats stats_;
  std::map<std::uint32_t, TenantStats> tenants_;  // what cannot be counted from the pool
  double now_ = 0;
  std::uint64_t tick_ = 0;
  bool listening_ = false;
};

}  // namespace kvasir
