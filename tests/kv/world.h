// A KvCache and everything that can be known of it from outside: whose text each lease holds, what the bytes
// of each block are, which blocks have a name. Every verb is carried out on the cache and on this model, and
// both compared.
//
// The bytes are shadows: one number a (group, block, row), a hash of the tenant and of all tokens up to that
// row. They are written where a kernel would write them and copied where take_copies() says so. A lease whose
// rows do not read back as its own text has met a bug in sharing, copying, stealing or evicting.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kv/cache.h"

namespace kvasir {

Tenant tenant_of(std::uint32_t id);  // its secret follows from its id

struct WorldConfig {
  struct Group {
    Retention retention;
    std::int64_t blocks = 4;    // the memory is what all groups together would need for so many
    std::int64_t bytes = 1024;  // of a block
    CacheGroupConfig::Keeps keeps = CacheGroupConfig::Keeps::kRows;

    bool state() const { return keeps == CacheGroupConfig::Keeps::kState; }
  };
  // kEager: bytes move after every verb. kLate: only before a commit, as the engine does it once a step.
  enum class Copies : std::uint8_t { kEager, kLate };

  int block_tokens = 4;
  std::vector<Group> groups{{}};
  std::string eviction = "lru";
  Copies copies = Copies::kEager;
  std::uint64_t shuffle = 0;           // of the order in which blocks are first handed out
  std::vector<TokenId> public_text{};  // whose whole blocks all tenants share
  std::map<std::uint32_t, TenantShare> shares{};
  std::int64_t page_bytes = 1024;
  std::vector<std::vector<Group>> more_policies{};  // their memory is the same: `blocks` counts for nothing
};

class World {
 public:
  using Text = std::vector<TokenId>;

  explicit World(const WorldConfig& config);

  // The verbs. `lease` counts the leases in the order they came.
  ReuseReport open(const Text& prompt, std::uint32_t tenant, PolicyId policy = 0);
  bool reserve(size_t lease, std::int64_t tokens);
  void commit(size_t lease, const Text& tokens);  // at most what is reserved
  bool write(size_t lease, const Text& tokens);   // reserve and commit
  void keep_state(size_t lease, KvCache::Stay stay);
  void expect(size_t lease, const std::vector<Position>& places);
  void truncate(size_t lease, Position length);
  void fork(size_t lease);
  void release(size_t lease);
  void release_all();

  // The first thing that went wrong, or "".
  const std::string& wrong() const { return wrong_; }

  KvCache& cache() { return *cache_; }
  TenantShare share(std::uint32_t tenant) const {
    const auto found = config_.shares.find(tenant);
    return found == config_.shares.end() ? TenantShare{} : found->second;
  }
  size_t leases() const { return held_.size(); }
  const KvLease& lease(size_t i) const { return held_[i].lease; }
  const Text& text(size_t i) const { return held_[i].text; }
  std::int64_t reserved(size_t i) const { return held_[i].reserved; }
  bool may_truncate(size_t i, Position length) const;
  bool has_states(PolicyId policy) const;
  size_t policies() const { return 1 + config_.more_policies.size(); }
  std::int64_t published(size_t group) const { return std::ssize(names_[group]); }
  std::int64_t copies_made() const { return copies_made_; }

  // What a prompt must find, by looking at every named block: exact where one group keeps all rows and others states,
  // else the whole blocks that are certainly there.
  struct Expected {
    std::int64_t tokens = 0;
    bool exact = false;
  };
  Expected expected_reuse(const Text& prompt, std::uint32_t tenant, PolicyId policy = 0) const;
  bool fits_alone(PolicyId policy, std::int64_t length, std::uint32_t tenant) const;
  std::int64_t guaranteed_to_others(std::uint32_t tenant) const;  // bytes

 private:
  using Row = std::uint64_t;
  struct Held {
    KvLease lease;
    std::uint32_t tenant = 0;
    PolicyId policy = 0;
    Text text;
    std::vector<Row> rows;           // what each position's bytes must be
    std::int64_t reserved = 0;       // tokens that may be committed
    std::int64_t public_blocks = 0;  // blocks that may get a public name
  };
  struct Name {
    std::uint32_t tenant = 0;        // kEverybody: public
    Text text;                       // all tokens from the start to the block's end
    std::int64_t public_blocks = 0;  // of a private name: how many blocks of its chain are public

    friend bool operator==(const Name&, const Name&) = default;
  };

  static constexpr std::uint32_t kEverybody = 0xffffffff;

  std::int64_t public_blocks(const Text& prompt, PolicyId policy) const;
  Row next_row(const Held& held, TokenId token) const;
  void hear(const Held* from, const std::vector<BlockTable>& tables);
  void look();
  void check_what_watchers_know();
  std::span<const size_t> groups_of(const Held& held) const { return cache_->groups_of(held.policy); }
  std::vector<std::int64_t> kept_for_others(std::uint32_t tenant) const;
  void move_bytes();
  void scribble(const Held& held);
  void check();
  void check_lease(const Held& held);
  void check_pools();
  bool has_room(const Held& held, std::int64_t tokens) const;
  std::string observable() const;
  std::int64_t rows_of_page() const;
  Row* row(size_t group, BlockId block, Position position);
  std::int64_t blocks_of(size_t group, std::int64_t rows) const;
  static Name name_of(const Held& held, std::int64_t block_index, Text text);
  bool named(size_t group, const Name& name) const;
  void fail(const std::string& what);

  WorldConfig config_;
  std::optional<KvCache> cache_;
  std::vector<Held> held_;                           // declared after the cache: leases go first
  std::vector<WorldConfig::Group> groups_;           // by the cache's numbers
  std::vector<Row> memory_;                          // [page][block in the page][row], whoever has the page
  std::vector<std::map<BlockId, BlockInfo>> known_;  // [group]: to somebody who watches
  std::vector<CacheEvent> heard_;
  std::vector<std::map<BlockId, Name>> names_;  // [group]
  std::vector<BlockCopy> pending_;
  std::int64_t copies_made_ = 0;
  std::string wrong_;
};

}  // namespace kvasir
