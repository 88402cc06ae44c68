// The paged, content-addressed KV cache: bookkeeping only. It decides; KvStorage moves the bytes.
//
//     add_policy(groups)        another way to cache, in the same memory
//     open(tokens, for whom)    pin the longest reusable prefix, at most n-1 tokens, and say why no more
//     reserve(lease, n)         room to write the next n tokens, or false and nothing changed
//     take_copies()             byte moves that must happen before those tokens are written
//     commit(lease, tokens)     they are written: publish full blocks, drop what the retention no longer needs
//     keep_state(lease)         the states of recurrent layers, as they are now, may be found by others
//     commit_source(lease)      the rows of the source are written: they may be found by others
//     truncate(lease, length)   give back what was reserved or written beyond
//     shrink(lease, …)          rows were evicted, and the others moved together: give back what is left over
//     fork(lease)               a second hold on the same blocks, copied on the first write
//     ~KvLease                  let go: full blocks stay, to be found by key until they are evicted
//
// Policies share one memory (cache_pages.cpp): it is cut into pages of one size, and a page serves the blocks of one
// group at a time. Whether so many blocks can be had is a count, wherever blocks lie: a page that is wanted is
// emptied, its cached blocks forgotten and its held ones moved.
//
// A group keeps rows, or a state: what recurrent layers know of all tokens so far. A state cannot be cut short, so a
// lease has one block of such a group, which every step writes, and a text is found again as far as rows and states
// both are there (cache_states.cpp). A third kind keeps rows of a source: what the text is an answer to
// (cache_source.cpp).
//
// Single-threaded: the engine's thread owns it. No floats, no bytes, no devices.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"
#include "kv/block_pool.h"
#include "kv/cache_types.h"
#include "kv/explain.h"
#include "kv/lease.h"
#include "kv/owners.h"
#include "kv/prefix_index.h"
#include "kv/tenant.h"
#include "layout/retention.h"

namespace kvasir {

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
  Opened open(std::span<const TokenId> tokens, const OpenContext& context);
  // A request begins with what open found for it: once for each, however often it must be opened again.
  void count_query(const KvLease& lease, const ReuseReport& report);
  // What open would pin; changes nothing.
  Position reusable(std::span<const TokenId> tokens, const OpenContext& context) const;
  // The keys of a prompt's whole blocks, as far as open would look for them: of its content alone, so that who waits
  // may keep them. held_prefix() then says how many of these blocks, from the first on, somebody holds just now:
  // sharing them takes no room, while one that is only cached is no longer there for others once it is pinned.
  std::vector<Key256> block_keys(std::span<const TokenId> tokens, const OpenContext& context) const;
  std::int64_t held_prefix(std::span<const TokenId> tokens, std::span<const Key256> keys, PolicyId policy = 0) const;
  // With states: again after fork() and keep_state(), which leave what was reserved to others.
  bool reserve(KvLease& lease, std::int64_t tokens);
  // The same where nothing that is cached is lost for it: in blocks that are the lease's, or hold nothing.
  bool reserve_free(KvLease& lease, std::int64_t tokens);
  void commit(KvLease& lease, std::span<const TokenId> tokens);
  // From now on others may find the lease's states, and so its text, up to here: where they are is a boundary of
  // blocks, or else nothing is done. Not inside a public text, but for the system: that it was asked for could be
  // told from how far the text is found. kUntilNext: the next call forgets them.
  enum class Stay : std::uint8_t { kUntilEvicted, kUntilNext };
  void keep_state(KvLease& lease, Stay stay);
  bool has_states(PolicyId policy) const { return policies_[policy].states; }
  // The lease's text will be gone on from at these places, whatever comes behind them: states there are not
  // superseded by its later ones, and those that are kept already were of use just now. Ascending multiples of
  // state_step().
  void expect(KvLease& lease, std::span<const Position> places);
  // Another text parts from the lease's there, where the lease will keep a state: it is not superseded by later ones.
  void expect_another(KvLease& lease, Position place);
  // Of what length a text is a multiple wherever its states are kept. REQUIRES: has_states().
  std::int64_t state_step(PolicyId policy) const;
  bool keeps_state(size_t group) const { return groups_[group].config.state(); }
  bool writes_state(size_t group) const { return groups_[group].config.written_state(); }
  // From now on others may find the source, whose rows are written in all groups that keep it. Nothing, where they
  // were found. REQUIRES: they are reserved.
  void commit_source(KvLease& lease);
  bool keeps_source(size_t group) const { return groups_[group].config.source(); }
  // Whether somebody holds all of the source's blocks just now.
  bool holds_source(const OpenContext& context) const;
  // The lease holds its states as they are kept, and not as they would be written: for who keeps it for others.
  // False, and nothing changed, where they are not kept.
  bool hold_kept_states(KvLease& lease);
  // How far the lease would come back from what is kept, as far as it knows.
  Position found_again(const KvLease& lease) const;
  void truncate(KvLease& lease, Position length);
  // A window that slid on cannot slide back, and a state never.
  bool may_truncate(const KvLease& lease, Position length) const;
  KvLease fork(const KvLease& lease);  // requires a policy that shares
  // The lease is again what it was when it was forked, with its states. Requires that nothing was committed since.
  void go_back(KvLease& lease, KvLease&& before);
  // The group, counted within the lease's policy, keeps its first `rows` rows alone. Requires a private policy, and
  // that nothing is reserved.
  void shrink(KvLease& lease, size_t group, std::int64_t rows);
  std::vector<BlockCopy> take_copies();

  // A block of each group fits a page (see fits_a_page). The id of a policy that was dropped may be given again.
  PolicyId add_policy(CachePolicy policy);
  void drop_policy(PolicyId policy);  // forgets all of it. Not the first, and not one that a lease has.
  bool in_use(PolicyId policy) const;
  PolicyStats policy_stats(PolicyId policy) const;
  // Its groups, in order: what pool(), BlockCopy and KvStorage know them by.
  std::span<const size_t> groups_of(PolicyId policy) const { return policies_[policy].groups; }

  // Seconds on any clock that only goes forward, for what is told of the past. Decides nothing.
  void set_clock(double seconds) { now_ = seconds; }
  double clock() const { return now_; }

  bool shares(PolicyId policy) const { return policies_[policy].sharing == CachePolicy::Sharing::kByName; }
  bool reuses() const { return config_.reuse == CacheConfig::Reuse::kOn; }
  int block_tokens() const { return config_.block_tokens; }
  size_t groups() const { return groups_.size(); }
  const BlockPool& pool(size_t group) const { return groups_[group].pool; }
  const CacheGroupConfig& group_config(size_t group) const { return groups_[group].config; }
  std::optional<PolicyId> policy_of(size_t group) const {  // nullopt: dropped
    return groups_[group].policy == kDropped ? std::nullopt : std::optional(groups_[group].policy);
  }
  const CacheStats& stats() const { return stats_; }

  // From the next reserve on. Tenants nobody told of have the default share. Tenants' ids are dense.
  void set_share(std::uint32_t tenant, TenantShare share);
  TenantStats tenant_stats(std::uint32_t tenant) const;
  bool over_guarantee(std::uint32_t tenant) const;
  // Whether the tenant would hold no more than it is guaranteed with so many more blocks of each of a policy's
  // groups, and so many tokens of a source.
  bool within_guarantee(PolicyId policy, std::uint32_t tenant, std::int64_t blocks, Position source = 0) const;

  // Why reserve() would refuse so many tokens.
  enum class Shortage : std::uint8_t { kNone, kQuota, kPool };
  Shortage shortage(const KvLease& lease, std::int64_t tokens) const;
  // The same for a sequence that is to have so many tokens, of which it shares the first blocks, and for so many
  // blocks more of each group. A window takes no more blocks than it keeps.
  struct Growth {
    Position tokens = 0;
    std::int64_t shared_blocks = 0;
    std::int64_t more_blocks = 0;
    Position source = 0;  // tokens of a source that nobody holds
  };
  Shortage shortage(PolicyId policy, std::uint32_t tenant, const Growth& growth) const;
  // Of what never changes: all memory, and how many blocks of each of the first policy's groups it could hold at
  // once.
  std::int64_t memory_bytes() const { return std::ssize(pages_) * config_.pages.bytes; }
  std::int64_t blocks_alone() const;
  // How many blocks nobody but this lease holds, in all groups: what letting go of it would make available.
  std::int64_t private_blocks(const KvLease& lease) const;

  // What happened since the last call; kept only while somebody listens, the first kMostEvents of it.
  static constexpr size_t kMostEvents = size_t{1} << 16;
  void listen() { listening_ = true; }
  std::vector<CacheEvent> take_events();

  // For those who watch: events as above, and with the first call after watch() every block, later those that
  // changed.
  void watch();
  void unwatch();
  CacheChanges take_changes();
  BlockInfo info(size_t group, BlockId block) const;
  // The published block whose key begins with these bytes, and its tokens.
  std::optional<BlockInfo> find_key(std::uint64_t beginning) const;
  std::span<const TokenId> published_tokens(const BlockInfo& block) const;

  // Whether a sequence of this length could ever be held, were it alone, by a tenant with this share, where so many
  // bytes are kept for others; under the first policy, or under any. Of what never changes: may be asked from any
  // thread.
  bool fits_alone(const TextSize& size, const TenantShare& share = {}) const;
  bool fits_alone(std::span<const CacheGroupConfig> groups, const TextSize& size, const TenantShare& share,
                  std::int64_t kept_bytes = 0) const;
  // What that takes: pages, and bytes of blocks in them.
  struct Room {
    std::int64_t pages = 0;
    std::int64_t bytes = 0;
  };
  Room room_of(std::span<const CacheGroupConfig> groups,
               const TextSize& size) const;  // REQUIRES: fits_a_page(groups)
  std::int64_t pages() const { return std::ssize(pages_); }
  std::int64_t page_bytes() const { return config_.pages.bytes; }
  std::int64_t guaranteed_bytes(const TenantShare& share) const { return limits_of(share).guaranteed; }
  // Memory that no page of which could be given to another group, for what is held in it just now.
  std::int64_t held_page_bytes() const;
  bool fits_a_page(std::span<const CacheGroupConfig> groups) const;

  // Recounts everything from the leases up. Nothing, or the first thing that is wrong. O(blocks); callable any time.
  std::optional<std::string> problem() const;

 private:
  friend class KvLease;
  struct Group {
    CacheGroupConfig config;
    size_t id = 0;
    PolicyId policy = 0;
    std::int64_t per_page = 0;  // blocks; block b lies in page b / per_page
    BlockPool pool;
    PrefixIndex index;
    struct Use {
      std::uint64_t tick = 0;
      double time = 0;
      StateStanding standing = StateStanding::kNewest;
    };
    std::vector<Use> last_use;  // by block: when its last holder let go, and how a state stands

    // Whether a block is of no use without those before it: these go after it.
    bool chained() const { return !config.state() && config.retention.full(); }
  };
  struct Policy {
    Key256 key;
    std::vector<size_t> groups;  // none: dropped
    CachePolicy::Sharing sharing = CachePolicy::Sharing::kByName;
    size_t full_attention_group = 0;  // one that keeps all rows, if there is one: it knows the most texts
    bool states = false;              // some group keeps states
    PolicyStats stats;                // what cannot be counted from the pools
  };
  static constexpr PolicyId kDropped = ~PolicyId{0};  // of a group that waits for another policy
  // Every page is one group's.
  struct Page {
    size_t group = 0;
    std::int64_t held = 0;     // of its blocks
    std::int64_t filled = 0;   // that are not free
    std::uint64_t newest = 0;  // when one of them was last let go
  };
  // What a prompt finds: `whole_blocks` blocks, then `tail` tokens of one more block that goes on differently.
  struct Found {
    std::vector<Key256> keys;                  // of the prompt's full blocks, as far as they were asked for
    std::vector<std::vector<BlockId>> blocks;  // [group][block_index], kNoBlock where missing; the tail's block last
    std::int64_t whole_blocks = 0;
    std::int64_t tail = 0;
    ReuseStop stop = ReuseStop::kNeverSeen;
    TokenId cached_token = -1;                        // kDiverged: what the nearest cached text has there
    std::int64_t whole_row_blocks = 0;                // that rows alone would give
    std::optional<PrefixIndex::Eviction> lost_state;  // of the one behind those rows
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
  void set_root_key(std::span<const TokenId> tokens, LeaseState& state) const;
  Key256 private_root(const LeaseState& state) const;
  static Key256 parent_of(const LeaseState& state, std::span<const Key256> keys, std::int64_t block_index);
  static Key256 key_of(const LeaseState& state, const Key256& parent, std::int64_t block_index,
                       std::span<const TokenId> tokens);
  void check_public(LeaseState& state, std::int64_t block_index) const;
  void end_public(LeaseState& state, std::int64_t blocks) const;

  Group& group_of(const LeaseState& state, size_t i) { return groups_[policies_[state.policy].groups[i]]; }
  const Group& group_of(const LeaseState& state, size_t i) const {
    return groups_[policies_[state.policy].groups[i]];
  }
  const Group& full_attention_group_of(const LeaseState& state) const {
    return groups_[policies_[state.policy].full_attention_group];
  }
  size_t table_of(const Group& group) const;  // its place among a lease's tables
  LeaseState blank(std::span<const TokenId> tokens, const OpenContext& context) const;
  Found find(std::span<const TokenId> tokens, const LeaseState& state) const;
  void find_blocks(std::span<const TokenId> tokens, const LeaseState& state, Found& found) const;
  void find_tail(std::span<const TokenId> tokens, const LeaseState& state, Found& found) const;
  void explain_stop(std::span<const TokenId> tokens, const LeaseState& state, Found& found) const;
  bool cached_otherwise(std::span<const TokenId> tokens, const LeaseState& state) const;
  bool serves(const Group& group, const std::vector<BlockId>& blocks, std::int64_t whole) const;
  enum class Serving : std::uint8_t { kRows, kAll };
  std::int64_t most_that_serve(const LeaseState& state, const Found& found, std::int64_t most, Serving who) const;
  void pin(const Found& found, std::span<const TokenId> tokens, LeaseState& state);
  void release(LeaseState& state);

  // That so many rows need; of a source all of it, as soon as there are some.
  std::int64_t table_size(const LeaseState& state, const Group& group, std::int64_t rows) const {
    if (group.config.source()) return rows > 0 ? state.source.blocks() : 0;
    if (group.config.kept_state()) return rows > 0 ? state.tables[table_of(group)].size() : 0;
    return group.config.state() ? static_cast<std::int64_t>(rows > 0) : blocks_for(rows, config_.block_tokens);
  }
  void name_source(std::span<const TokenId> source, LeaseState& state) const;
  Key256 source_root(const LeaseState& state) const;
  std::optional<BlockId> source_block(const LeaseState& state, const Group& group, std::int64_t block_index) const;
  void pin_source(LeaseState& state);
  void report_source(const LeaseState& state, ReuseReport& report) const;
  void report_eviction(const PrefixIndex::Eviction& how, std::uint32_t asking, ReuseReport& report) const;
  void forget_passing_state(LeaseState& state);
  void supersede_before(LeaseState& state, Position length);
  void set_standing(Group& group, BlockId block, StateStanding standing);
  void note_states(const Group& group, const std::vector<BlockId>& blocks, LeaseState& state);
  std::optional<PrefixIndex::Eviction> lost_state(const LeaseState& state, const Key256& key) const;
  template <class Visit>
  void each_state_at(LeaseState& state, Position place, Visit visit);
  bool keep_in_own_format(LeaseState& state, size_t i, const PrefixIndex::Entry& as);
  void go_on_from_kept(LeaseState& state, size_t i);
  bool has_states_at(PolicyId policy, const Key256& key, std::span<const TokenId> block) const;
  Need need_of(const LeaseState& state, size_t i, Position target) const;
  bool has_room(const LeaseState& state, Position target) const;
  std::vector<Need> needs_of(const LeaseState& state, Position target) const;  // by group of the policy
  Shortage shortage_of(PolicyId policy, std::uint32_t tenant, std::span<const Need> needs) const;
  std::int64_t own_bytes(PolicyId policy, std::span<const Need> needs) const;  // without public blocks
  std::int64_t most_blocks(const CacheGroupConfig& group, const TextSize& size) const;
  Owners::Limits limits_of(const TenantShare& share) const;
  void make_tail_writable(LeaseState& state, size_t i, Need::Tail how);
  OwnerId owner_of_block(const Group& group, const LeaseState& state, std::int64_t block_index) const;
  BlockId take(Group& group, const LeaseState& state, std::int64_t block_index);
  void evict(Group& group, BlockId block, const PrefixIndex::Eviction& why);
  void forget(Group& group, BlockId block, OwnerId owner, const PrefixIndex::Eviction& why);

  // cache_pages.cpp
  static std::int64_t pages_for(const Group& group, std::int64_t blocks) {
    return (blocks + group.per_page - 1) / group.per_page;
  }
  Page& page_at(PageId id) { return pages_[static_cast<size_t>(id)]; }
  const Page& page_at(PageId id) const { return pages_[static_cast<size_t>(id)]; }
  Page& page_of(const Group& group, BlockId block) { return page_at(static_cast<PageId>(block / group.per_page)); }
  std::vector<BlockId> blocks_in(const Group& group, PageId page) const;
  void add_pages(Group& group, std::span<const PageId> pages);
  void assign_pages();
  bool pages_suffice(PolicyId policy, OwnerId asking, std::span<const Need> needs) const;
  std::vector<std::int64_t> blocks_then(PolicyId policy, std::span<const Need> needs) const;  // held by each group
  std::int64_t kept_blocks(const Group& group, OwnerId asking) const;
  bool kept_from(OwnerId asking, OwnerId owner) const;
  void ensure_blocks(const LeaseState& state, std::span<const Need> needs, const PrefixIndex::Eviction& why);
  void evict_over_quota(const LeaseState& state, std::span<const Need> needs, PrefixIndex::Eviction why);
  enum class Kept : std::uint8_t { kStay, kGo };  // what others are guaranteed
  bool guaranteed(PageId page, OwnerId asking) const;
  std::vector<std::int64_t> spare_pages(const LeaseState& state, std::span<const Need> needs, Kept kept) const;
  struct IdlePages {
    std::optional<PageId> oldest;
    std::optional<PageId> superseded;  // the oldest in which nothing but superseded states lies
  };
  IdlePages idle_pages(const LeaseState& state, const Group& to, std::span<const Need> needs) const;
  bool all_superseded(PageId id) const;
  std::uint64_t age_of_next(const Group& group, BlockId next) const;
  static bool superseded(const Group& group, BlockId block) {
    return group.last_use[static_cast<size_t>(block)].standing == StateStanding::kSuperseded;
  }
  std::optional<PageId> donor_page(const LeaseState& state, std::span<const Need> needs, Kept kept) const;
  void reassign_page(PageId page, Group& to, const PrefixIndex::Eviction& why);
  void expel_free(Group& from, PageId page);
  void clear_cached(Group& from, PageId page, const PrefixIndex::Eviction& why);
  bool make_free_outside(Group& from, PageId page, const PrefixIndex::Eviction& why);
  void move_cached(Group& group, BlockId from);
  BlockId move_to_free(Group& group, BlockId held);
  void evict_subtree(Group& group, BlockId block, const PrefixIndex::Eviction& why);
  void move_block(Group& group, BlockId from, const PrefixIndex::Eviction& why);
  void ref_block(Group& group, BlockId block);
  void unref_block(Group& group, BlockId block);
  void retire(Group& group, BlockId block);
  void publish(LeaseState& state, std::int64_t block_index);
  void publish_block(LeaseState& state, size_t i, std::int64_t place, const PrefixIndex::Entry& as);
  // Whether a sequence of this length still reads anything of the block.
  bool needs_block(const Retention& retention, std::int64_t block_index, Position length) const;
  void drop_unneeded(LeaseState& state, size_t group);
  void shrink_table(LeaseState& state, size_t group, std::int64_t keep);  // all but the first
  BlockUse use_of(const Group& group, BlockId block) const;
  std::span<const TokenId> tokens_of_block(std::span<const TokenId> tokens, std::int64_t block_index) const;
  void note(CacheEvent event);
  void note(CacheEvent::Kind kind, const Group& group, BlockId block, const LeaseState& state);  // a request's doing
  void note_parent_changed(Group& group, const Key256& key);
  std::optional<std::string> problem_in(const Group& group) const;
  std::optional<std::string> problem_with_pages() const;

  CacheConfig config_;
  std::shared_ptr<Owners> owners_ = std::make_shared<Owners>();
  std::vector<Group> groups_;
  std::vector<Policy> policies_;
  std::vector<Page> pages_;  // by PageId
  std::vector<LeaseState*> leases_;
  std::vector<BlockCopy> copies_;
  std::vector<CacheEvent> events_;
  CacheStats stats_;
  std::map<std::uint32_t, TenantStats> tenants_;  // what cannot be counted from the pool
  double now_ = 0;
  std::uint64_t tick_ = 0;
  std::int64_t lost_events_ = 0;
  bool listening_ = false;
  bool watched_ = false;  // and every group tracks its changes
};

}  // namespace kvasir
