// The blocks of one group, as numbers: who is held how often, and which goes next. Knows no tokens, hashes or bytes.
//
// A block is in exactly one state:
//
//     free        held by nobody, holds nothing worth keeping
//     held        refs > 0
//     covered     refs = 0, keeps content, but content that continues it is kept too: it goes after that
//     evictable   refs = 0, keeps content, nothing depends on it
//
// free and evictable form one order: take() gives free blocks first, then evictable ones by the policy's priority.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/indexed_heap.h"
#include "kv/eviction.h"

namespace kvasir {

class BlockPool {
 public:
  enum class State : std::uint8_t { kFree, kHeld, kCovered, kEvictable };

  // The blocks 0 … n-1, all free, handed out in the order given (a permutation), which no result may depend on.
  BlockPool(std::vector<BlockId> free_order, std::unique_ptr<EvictionPolicy> policy);

  std::int64_t size() const { return static_cast<std::int64_t>(refs_.size()); }
  std::int64_t held() const { return held_; }
  std::int64_t available() const { return size() - held_; }  // what take() can give, one after the other
  std::int64_t free_blocks() const { return static_cast<std::int64_t>(free_.size()); }

  struct Taken {
    BlockId block = kNoBlock;
    State was = State::kFree;  // kEvictable: its content must be forgotten
  };
  // A block with one ref, or nothing when all are held or covered. A covered block becomes takable once the caller
  // has forgotten what covers it (make_evictable).
  std::optional<Taken> take();

  void ref(BlockId block);
  int unref(
      BlockId block);  // the refs left; at 0 the caller says at once what becomes of it, with one of these three
  void make_free(BlockId block);
  void make_covered(BlockId block);
  void make_evictable(BlockId block, const BlockUse& use);  // from refs = 0 or from covered

  int refs(BlockId block) const { return refs_[index(block)]; }
  State state(BlockId block) const { return states_[index(block)]; }
  bool well_formed() const;

 private:
  static size_t index(BlockId block) { return static_cast<size_t>(block); }

  std::unique_ptr<EvictionPolicy> policy_;
  std::vector<int> refs_;      // by block
  std::vector<State> states_;  // by block
  std::vector<BlockId> free_;  // a stack: the back goes first
  IndexedHeap evictable_;
  std::int64_t held_ = 0;
};

}  // namespace kvasir
