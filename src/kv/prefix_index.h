// From what a block holds to where it is: chains of keys, one entry a published block of one group.
//
// An entry's key names its tokens and, through its parent's key, all tokens before them. A key that is found is still
// compared with its tokens before it is believed. Knows no ref counts and no devices.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"

namespace kvasir {

class PrefixIndex {
 public:
  PrefixIndex(std::int64_t blocks, int block_tokens) : block_tokens_(block_tokens) { grow(blocks); }

  void grow(std::int64_t blocks);  // ids below this may be used from now on: never fewer

  // When and for whom a block was evicted.
  struct Eviction {
    std::uint64_t tick = 0;
    double time = 0;            // on the clock that the cache was told
    std::uint32_t tenant = 0;   // whose request needed the room …
    std::uint64_t request = 0;  // … and which
    bool over_quota = false;    // the tenant had the most it may have
    bool superseded = false;    // it was a state, and a later one of its text had taken its place
  };

  struct Entry {
    Key256 key;
    Key256 parent;                 // the key of the block before, or the root's
    std::int64_t block_index = 0;  // how many blocks come before it
    std::uint64_t born = 0;
    double born_time = 0;
    std::int64_t saves = 0;  // tokens that need not be computed again where it is found
  };

  // The block that holds exactly these tokens after exactly that prefix, if it is here.
  std::optional<BlockId> find(const Key256& key, std::span<const TokenId> tokens) const;

  // Publishes a block. False, and nothing changes, when the key is taken (the block that has it is find's answer; or,
  // once in 2^128 lookups, tokens that collide).
  bool insert(BlockId block, const Entry& entry, std::span<const TokenId> tokens);

  // Forgets a block's content, and remembers for a while that it was here.
  void remove(BlockId block, const Eviction& why);

  // What `from` holds has been copied to `to`, which has no name.
  void move(BlockId from, BlockId to);

  // Of an index that was never grown nothing is.
  bool published(BlockId block) const { return !nodes_.empty() && nodes_[static_cast<size_t>(block)].used; }
  const Entry& entry(BlockId block) const { return nodes_[static_cast<size_t>(block)].entry; }
  std::span<const TokenId> tokens(BlockId block) const;
  std::int64_t size() const { return static_cast<std::int64_t>(by_key_.size()); }

  // Whether some entry continues this key; and which block has it.
  bool has_children(const Key256& key) const { return children_.contains(key); }
  std::optional<BlockId> block_of(const Key256& key) const;
  // The first of the entries that continue this key, or kNoBlock; and the one after an entry among its siblings.
  BlockId first_child(const Key256& key) const;
  BlockId next_sibling(BlockId block) const { return node(block).next; }

  // Of the entries that continue `parent`, the one that agrees with the most of `tokens`, and with how many.
  struct Agreement {
    BlockId block = kNoBlock;  // kNoBlock: nothing continues `parent`
    std::int64_t tokens = 0;
  };
  Agreement longest_agreement(const Key256& parent, std::span<const TokenId> tokens) const;
  // How the block of this key was evicted, if that was not too long ago.
  std::optional<Eviction> eviction_of(const Key256& key) const;

  bool well_formed() const;

 private:
  // The children of a key are a list through their blocks: no allocation a child, any child removed in O(1).
  struct Node {
    Entry entry;
    BlockId next = kNoBlock;
    BlockId previous = kNoBlock;
    bool used = false;
  };

  Node& node(BlockId block) { return nodes_[static_cast<size_t>(block)]; }
  const Node& node(BlockId block) const { return nodes_[static_cast<size_t>(block)]; }
  void link(BlockId block);
  void unlink(BlockId block);
  void remember(const Key256& key, const Eviction& why);

  int block_tokens_;
  std::vector<Node> nodes_;      // by block
  std::vector<TokenId> tokens_;  // [block][block_tokens]
  std::unordered_map<Key256, BlockId, Key256Hash> by_key_;
  std::unordered_map<Key256, BlockId, Key256Hash> children_;  // parent key -> first child
  std::unordered_map<Key256, Eviction, Key256Hash> ghosts_;   // evicted key -> how
  std::deque<std::pair<Key256, std::uint64_t>> ghost_order_;  // oldest first; as many as there are ids
};

}  // namespace kvasir
