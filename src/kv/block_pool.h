// The blocks of one group, as numbers: who is held how often, whose they are, and which goes next. Knows no tokens,
// hashes or bytes.
//
// A block is in exactly one state:
//
//     free        held by nobody, holds nothing worth keeping
//     held        refs > 0
//     covered     refs = 0, keeps content, but content that continues it is kept too: it goes after that
//     evictable   refs = 0, keeps content, nothing depends on it
//
// A block that is not free has an owner: the one it was taken for. take() gives free blocks first, then evictable
// ones by the policy's priority: first of owners who have more than they are guaranteed, and of others only when
// there is no such owner. An owner who has the most it may have gets back its own.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/indexed_heaps.h"
#include "kv/eviction.h"

namespace kvasir {

// Owners are small numbers, handed out densely by the caller.
using OwnerId = std::uint32_t;

class BlockPool {
 public:
  enum class State : std::uint8_t { kFree, kHeld, kCovered, kEvictable };

  // The blocks 0 … n-1, all free, handed out in the order given (a permutation), which no result may depend on.
  BlockPool(std::vector<BlockId> free_order, std::unique_ptr<EvictionPolicy> policy);

  std::int64_t size() const { return static_cast<std::int64_t>(refs_.size()); }
  std::int64_t held() const { return held_; }
  std::int64_t available() const { return size() - held_; }  // to an owner without a limit, one after the other
  std::int64_t available(OwnerId owner) const;
  std::int64_t free_blocks() const { return static_cast<std::int64_t>(free_.size()); }

  struct Limits {
    std::int64_t guaranteed = 0;
    std::int64_t most = std::numeric_limits<std::int64_t>::max();
  };
  void set_limits(OwnerId owner, Limits limits) { book(owner).limits = limits; }
  Limits limits(OwnerId owner) const { return owner < owners_.size() ? owners_[owner].limits : Limits{}; }
  std::int64_t owned(OwnerId owner) const { return owner < owners_.size() ? owners_[owner].has : 0; }
  bool over_guarantee(OwnerId owner) const { return owned(owner) > limits(owner).guaranteed; }

  struct Taken {
    BlockId block = kNoBlock;
    State was = State::kFree;  // kEvictable: its content must be forgotten
    OwnerId from = 0;          // kEvictable: whose it was
  };
  // A block with one ref, or nothing when there is none to be had. A covered block becomes takable once the caller
  // has forgotten what covers it (make_evictable).
  std::optional<Taken> take(OwnerId owner = 0);

  void ref(BlockId block);
  // The refs left; at 0 the caller says at once what becomes of it, with one of these three.
  int unref(BlockId block);
  void make_free(BlockId block);
  void make_covered(BlockId block);
  void make_evictable(BlockId block, const BlockUse& use);  // from refs = 0 or from covered

  int refs(BlockId block) const { return refs_[index(block)]; }
  State state(BlockId block) const { return states_[index(block)]; }
  OwnerId owner(BlockId block) const { return owner_[index(block)]; }  // meaningful unless free
  bool well_formed() const;

 private:
  struct Book {
    Limits limits;
    std::int64_t has = 0;   // held, covered and evictable
    std::int64_t held = 0;  // of those
  };

  static size_t index(BlockId block) { return static_cast<size_t>(block); }
  Book& book(OwnerId owner);
  std::optional<OwnerId> whose_goes_next(OwnerId asking);
  void count_held(BlockId block, std::int64_t by);

  std::unique_ptr<EvictionPolicy> policy_;
  std::vector<int> refs_;       // by block
  std::vector<State> states_;   // by block
  std::vector<OwnerId> owner_;  // by block
  std::vector<BlockId> free_;   // a stack: the back goes first
  IndexedHeaps evictable_;      // a heap an owner
  std::vector<Book> owners_;
  std::int64_t held_ = 0;
};

}  // namespace kvasir
