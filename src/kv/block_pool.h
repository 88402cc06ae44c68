// The blocks of one group, as numbers: who is held how often, whose they are, and which goes next. Knows no tokens,
// hashes or bytes.
//
// A block is in exactly one state:
//
//     absent      not this group's: the memory it would lie in serves another
//     free        held by nobody, holds nothing worth keeping
//     held        refs > 0
//     interior    refs = 0, keeps content, but content that continues it is kept too: it goes after that
//     evictable   refs = 0, keeps content, nothing depends on it
//
// A block that is held, interior or evictable has an owner: the one it was taken for. take() gives free blocks first,
// then evictable ones by the policy's priority: first the asking owner's own and those of owners who have more than
// they are guaranteed; others' guaranteed ones only when there is nothing else, which the cache's count prevents but
// for what page boundaries cost. An owner who has the most it may have gets back its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/indexed_heaps.h"
#include "kv/eviction.h"
#include "kv/owners.h"

namespace kvasir {

class BlockPool {
 public:
  enum class State : std::uint8_t { kAbsent, kFree, kHeld, kInterior, kEvictable };
  enum class Tracking : std::uint8_t { kOff, kOn };

  // No blocks yet. Each will count as `weight` in the ledger, which other pools may share.
  BlockPool(std::unique_ptr<EvictionPolicy> policy, std::shared_ptr<Owners> owners, std::int64_t weight);

  std::int64_t size() const { return size_; }  // blocks that are not absent
  std::int64_t held() const { return held_; }
  std::int64_t available() const { return size() - held_; }  // to an owner without a limit, one after the other
  std::int64_t free_blocks() const { return static_cast<std::int64_t>(free_.size()); }
  std::int64_t owned(OwnerId owner) const { return owner < owned_.size() ? owned_[owner] : 0; }
  std::int64_t cached(OwnerId owner) const { return owned(owner) - (owner < held_of_.size() ? held_of_[owner] : 0); }
  std::int64_t weight() const { return weight_; }
  // All ids below it may be asked about.
  std::int64_t id_limit() const { return static_cast<std::int64_t>(refs_.size()); }

  // Absent blocks become free, to be handed out in the order given, before those that already are; free ones absent.
  void admit(std::span<const BlockId> blocks);
  void expel(std::span<const BlockId> blocks);

  struct Taken {
    BlockId block = kNoBlock;
    State was = State::kFree;  // kEvictable: its content must be forgotten
    OwnerId from = 0;          // kEvictable: whose it was
  };
  // A block with one ref, or nothing when there is none to be had. An interior block becomes takable once the
  // caller has forgotten what continues it (make_evictable).
  std::optional<Taken> take(OwnerId owner = 0);
  // The evictable block that take() would give were nothing free; of one owner alone, the one that goes next.
  std::optional<BlockId> next_to_go(OwnerId asking) const;
  std::optional<BlockId> next_of(OwnerId owner) const;
  BlockId next_free() const { return free_.back(); }  // there is one

  void ref(BlockId block);
  // The refs left; at 0 the caller says at once what becomes of it, with one of these three.
  int unref(BlockId block);
  void make_free(BlockId block);
  void make_interior(BlockId block);
  void make_evictable(BlockId block, const BlockUse& use);  // from refs = 0 or from interior
  void rank_again(BlockId block, const BlockUse& use);      // evictable: more is known of it

  void evict(BlockId block);              // evictable to free: its content must be forgotten
  void move(BlockId held, BlockId free);  // all that is known of the one is true of the other; the first is free
  void give(BlockId held, OwnerId to);    // its owner is another from now on

  // From now on blocks that change are remembered, each once; or no longer, and those that were are forgotten.
  void track_changes(Tracking tracking);
  void touch(BlockId block);  // something that the pool does not know of changed
  std::vector<BlockId> take_changed();

  int refs(BlockId block) const { return refs_[index(block)]; }
  State state(BlockId block) const { return states_[index(block)]; }
  OwnerId owner(BlockId block) const { return owner_[index(block)]; }  // meaningful where there is one
  bool well_formed() const;                                            // but for the ledger, which others write too

 private:
  static size_t index(BlockId block) { return static_cast<size_t>(block); }
  bool at_its_most(OwnerId owner) const;
  std::optional<OwnerId> whose_goes_next(OwnerId asking) const;
  void count_held(BlockId block, std::int64_t by);
  void count_owned(OwnerId owner, std::int64_t by);

  std::unique_ptr<EvictionPolicy> policy_;
  std::shared_ptr<Owners> owners_;
  std::int64_t weight_;
  std::vector<int> refs_;              // by block
  std::vector<State> states_;          // by block
  std::vector<OwnerId> owner_;         // by block
  std::vector<BlockId> free_;          // a stack: the back goes first
  IndexedHeaps evictable_;             // a heap an owner
  std::vector<std::int64_t> owned_;    // by owner: blocks of this pool …
  std::vector<std::int64_t> held_of_;  // … and those of them that are held
  std::vector<BlockId> changed_;       // since take_changed(), while they are tracked
  std::vector<bool> is_changed_;       // by block
  Tracking tracking_ = Tracking::kOff;
  std::int64_t size_ = 0;
  std::int64_t held_ = 0;
};

}  // namespace kvasir
