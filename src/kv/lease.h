// A sequence's hold on its blocks: move-only, and its destructor lets go, tail first, so that a prefix outlives what
// follows it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"
#include "kv/block_table.h"
#include "kv/tenant.h"

namespace kvasir {

class KvCache;

using PolicyId = size_t;  // of a KvCache; 0 is the one it was made with

// Touched only by KvCache. Invariants, checked by KvCache::problem():
//   tokens.size() is the length: tokens whose K and V are in the cache;
//   keys.size() = length / block_tokens: the keys of the full blocks; of a private policy there are none;
//   each table has blocks for its rows, and whatever is reserved beyond them. A row is a token, but under a private
//   policy, where some were evicted: the rows are the length less those;
//   the table of a group that keeps states has one block, or none while there are no rows; where kept states have a
//   group of their own, either of the two has it: that of kept ones from when it was found until there is room to
//   write; the table of a group that keeps a source has blocks for all of it, or, until they are reserved, none.
struct LeaseState {
  // What the text is an answer to, see OpenContext::source.
  struct Source {
    std::vector<TokenId> tokens;  // to the end of its last block: -1 behind its own
    Position length = 0;
    std::vector<Key256> keys;  // of its blocks, full or not; none of a private policy
    int block_tokens = 1;
    bool written = false;

    std::int64_t blocks() const { return std::ssize(tokens) / block_tokens; }
  };

  Tenant tenant;
  PolicyId policy = 0;
  std::uint64_t request = 0;       // whose lease it is, for explanations
  std::optional<Key256> after;     // what stands before the first block, see OpenContext
  size_t public_text = 0;          // which of the public texts the prompt begins with …
  std::int64_t public_blocks = 0;  // … and how many whole blocks of it: they are named for everybody
  Key256 root;
  std::vector<TokenId> tokens;
  std::vector<Key256> keys;
  std::vector<BlockTable> tables;     // by group of the policy
  std::vector<std::int64_t> evicted;  // by group of the policy: rows
  // By group of the policy: no block before this index is held any more, sinks aside.
  std::vector<std::int64_t> dropped_upto;
  Source source;
  Position state_from = 0;     // where it last found or kept states that stay
  Position passing_state = 0;  // where it keeps those that the next ones replace; 0: nowhere
  // Where states of its text are kept, as far as it knows, but for those that it made superseded; where its text will
  // be gone on from again; and where another text parted from it, which found no state there. Each ascending.
  std::vector<Position> state_places;
  std::vector<Position> expected;
  std::vector<Position> parted;
};

class KvLease {
 public:
  KvLease() = default;
  KvLease(KvLease&&) noexcept = default;
  KvLease& operator=(KvLease&& other) noexcept;
  ~KvLease();

  bool valid() const { return state_ != nullptr; }
  Position length() const { return static_cast<Position>(state_->tokens.size()); }
  std::int64_t rows(size_t group) const { return length() - state_->evicted[group]; }  // counted within its policy
  std::span<const TokenId> tokens() const { return state_->tokens; }
  const Tenant& tenant() const { return state_->tenant; }
  PolicyId policy() const { return state_->policy; }
  std::span<const Key256> keys() const { return state_->keys; }  // of the full blocks
  std::span<const TokenId> source() const {
    return std::span(state_->source.tokens).first(static_cast<size_t>(state_->source.length));
  }
  std::span<const Key256> source_keys() const { return state_->source.keys; }
  bool lacks_source() const {
    return state_->source.length > 0 && !state_->source.written;
  }                                                                              // its rows, in the cache
  const BlockTable& table(size_t group) const { return state_->tables[group]; }  // counted within its policy

 private:
  friend class KvCache;
  KvLease(KvCache* cache, std::unique_ptr<LeaseState> state) : cache_(cache), state_(std::move(state)) {}

  KvCache* cache_ = nullptr;  // outlives the lease
  std::unique_ptr<LeaseState> state_;
};

}  // namespace kvasir
