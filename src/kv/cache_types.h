// What goes into the cache's verbs and comes out of them, as values: what a cache is made of, what a request opens,
// and what those who watch are told. kv/cache.h has the verbs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/histogram.h"
#include "base/ids.h"
#include "kv/block_pool.h"
#include "kv/lease.h"
#include "kv/tenant.h"
#include "layout/retention.h"

namespace kvasir {

// Of a kept state, among those of its text.
enum class StateStanding : std::uint8_t {
  kNewest,      // as far as is known its text goes on from here
  kSuperseded,  // a later one of the same text was kept: it goes before all that are not superseded
  kShared,      // several texts went on from here: later ones of one of them do not supersede it
};

// What a token at position p costs to compute again, in any unit: constant + per_position * p.
struct RecomputeCost {
  std::uint64_t constant = 1;
  std::uint64_t per_position = 0;
};

struct CacheGroupConfig {
  enum class Keeps : std::uint8_t {
    kRows,   // of each token some: a block holds those of block_tokens
    kState,  // of all tokens together: a block holds all of it
    // The same where kept states have a format of their own: what a lease writes, never named, and behind it, as the
    // next group, what is kept, never written. A state passes from one to the other by a copy.
    kLiveState,
    kKeptState,
    // Of each token of the source some, written once and read whole: a lease has blocks for all of them, and they are
    // found together or not at all. REQUIRES: retention is full.
    kSource,
  };

  Retention retention;
  std::int64_t block_bytes = 0;
  Keeps keeps = Keeps::kRows;
  int state_step = 1;  // of kKeptState: states are kept behind multiples of so many tokens alone

  bool rows() const { return keeps == Keeps::kRows; }
  bool named_state() const { return keeps == Keeps::kState || keeps == Keeps::kKeptState; }
  bool written_state() const { return keeps == Keeps::kState || keeps == Keeps::kLiveState; }
  bool state() const { return named_state() || written_state(); }
  bool live_state() const { return keeps == Keeps::kLiveState; }
  bool kept_state() const { return keeps == Keeps::kKeptState; }
  bool source() const { return keeps == Keeps::kSource; }
};

// What is cached under one policy shares nothing but memory with what is cached under another.
struct CachePolicy {
  enum class Sharing : std::uint8_t {
    kByName,
    kPrivate,  // rows are evicted, so that blocks are not what their tokens say: never published, never found
  };

  Key256 key;  // names the weights, the formats, the retention and the kernels: blocks of another never match
  std::vector<CacheGroupConfig> groups;  // the first keeps rows; with states the policy shares
  Sharing sharing = Sharing::kByName;
};

using PageId = std::int32_t;

// The memory. No answer depends on the order.
struct CachePages {
  std::vector<PageId> order;  // 0 … n-1, as they are first handed out
  std::int64_t bytes = 0;     // of a page; a group's blocks lie in it one after the other, as many as fit
};

struct CacheConfig {
  enum class Reuse : std::uint8_t { kOn, kOff };

  int block_tokens = 16;
  CachePages pages;
  CachePolicy policy;  // the first
  std::string eviction = "lru";
  RecomputeCost recompute;
  Reuse reuse = Reuse::kOn;
  std::vector<std::vector<TokenId>> public_texts;  // beginnings whose whole blocks all tenants share
};

// 0 … n-1: what every order is when nobody wants to test another.
std::vector<std::int32_t> in_order(std::int64_t count);

// A block's content must be copied before anything writes to `to`. Run in the order given. Between two groups it is a
// state that is kept, or that a sequence goes on from.
struct BlockCopy {
  size_t group = 0;
  BlockId from = kNoBlock;
  size_t to_group = 0;
  BlockId to = kNoBlock;
};

struct CacheEvent {
  enum class Kind : std::uint8_t {
    kPublished,
    kEvicted,
    kMoved,
    kTaken,  // for a request's next tokens
    kHit,    // a request found it
  };
  Kind kind = Kind::kPublished;
  size_t group = 0;
  BlockId block = kNoBlock;
  std::uint64_t tick = 0;
  BlockId to = kNoBlock;      // kMoved
  OwnerId owner = 0;          // of the block
  std::uint32_t tenant = 0;   // whose request's doing it was, …
  std::uint64_t request = 0;  // … and which; 0: nobody's
  double time = 0;            // on the clock that the cache was told
};

std::string_view name_of(CacheEvent::Kind kind);  // "published"

// What is known of a block, for those who look.
struct BlockInfo {
  size_t group = 0;
  BlockId block = kNoBlock;
  BlockPool::State state = BlockPool::State::kAbsent;
  int refs = 0;
  OwnerId owner = 0;             // 0: nobody's in particular; else the tenant's id, plus 1
  double last_use = 0;           // when its last holder let go
  bool published = false;        // it has a name, and so has what follows:
  Key256 key{};                  // … which is this
  BlockId parent = kNoBlock;     // the block before, if it is here
  std::int64_t block_index = 0;  // how many blocks come before it
  double born = 0;               // when it got its name
};

// What happened to a cache that is watched.
struct CacheChanges {
  std::vector<CacheEvent> events;  // in order
  std::int64_t lost_events = 0;    // that there was no room for
  std::vector<BlockInfo> blocks;   // that changed, as they are now
};

// What requests of one policy did, and what is cached under it now.
struct PolicyStats {
  std::int64_t queried_tokens = 0;
  std::int64_t hit_tokens = 0;
  std::int64_t evicted_blocks = 0;
  std::int64_t evicted_rows = 0;  // that shrink() took from sequences, in all groups
  std::int64_t blocks = 0;        // held or cached, in all groups
  std::int64_t bytes = 0;         // of them
};

struct CacheStats {
  std::int64_t queried_tokens = 0;  // of requests' prompts, when they began
  std::int64_t hit_tokens = 0;
  std::int64_t published_blocks = 0;
  std::int64_t deduplicated_blocks = 0;  // computed twice at the same time; one copy was given back
  std::int64_t evicted_blocks = 0;
  std::int64_t copied_blocks = 0;  // by forks
  std::int64_t moved_pages = 0;    // from one group to another …
  std::int64_t moved_blocks = 0;   // … and blocks that had to be copied for it
  // In seconds of the clock that set_clock tells.
  Histogram block_lifetime{life_bounds()};   // from published to evicted
  Histogram block_idle{life_bounds()};       // from last held to evicted
  Histogram block_reuse_gap{life_bounds()};  // from last held to held again

  static std::vector<double> life_bounds();
};

// Whose tokens are opened, under which policy, and what stands before the first of them.
struct OpenContext {
  OpenContext(const Tenant& owner = {}, std::uint64_t asking = 0, PolicyId under = 0,  // NOLINT: a tenant will do
              const std::optional<Key256>& before = std::nullopt, std::span<const TokenId> answers = {})
      : tenant(owner), request(asking), policy(under), after(before), source(answers) {}

  Tenant tenant;
  std::uint64_t request = 0;  // who asks, for explanations
  PolicyId policy = 0;
  // What the tokens' K and V depend on but the tokens themselves (a source text, an adapter, an image): blocks behind
  // different keys are never shared, nor with those behind none.
  std::optional<Key256> after;
  // What the tokens are an answer to, where a policy's groups keep rows of it: part of what stands before them.
  std::span<const TokenId> source;
};

// Of a sequence.
struct TextSize {
  TextSize(Position in_text, Position in_source = 0)
      : tokens(in_text), source(in_source) {}  // NOLINT: of a text alone

  Position tokens = 0;
  Position source = 0;
};

}  // namespace kvasir
