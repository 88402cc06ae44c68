// Blocks of paused sequences in host memory: what only they held, to be written back when they resume.
//
// A saved run of blocks has no holes. Where a window has dropped blocks in the middle of what would have to be saved,
// nothing is: such a sequence is computed again instead.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/kv_storage.h"
#include "kv/cache.h"

namespace kvasir {

// The bytes of one paused sequence; gives its room back when it goes.
struct SavedBlocks {
  SavedBlocks(std::shared_ptr<std::uint64_t> counter, std::uint64_t size);
  ~SavedBlocks();
  SavedBlocks(const SavedBlocks&) = delete;
  SavedBlocks& operator=(const SavedBlocks&) = delete;

  Position length = 0;                                    // tokens whose K and V were in the cache
  std::int64_t first_slot = 0;                            // of all groups
  std::vector<std::vector<std::vector<std::byte>>> data;  // [group of its policy][slot - first_slot]

 private:
  std::shared_ptr<std::uint64_t> used_;
  std::uint64_t bytes_;
};

class HostSwap {
 public:
  // The storage outlives this. Memory is taken only while something is saved.
  HostSwap(KvStorage& storage, std::uint64_t bytes) : storage_(storage), bytes_(bytes) {}

  // What saving this lease would take; 0: it cannot be saved.
  std::uint64_t bytes_for(const KvCache& cache, const KvLease& lease) const;
  bool has_room(std::uint64_t bytes) const { return bytes <= bytes_ - *used_; }

  // Copies the lease's blocks out, from the first that only it holds on. Requires bytes_for() > 0 and room. Runs the
  // cache's pending copies first: they may be what is saved.
  std::unique_ptr<SavedBlocks> save(KvCache& cache, const KvLease& lease);

  // Brings a lease that was opened anew for the same tokens up to the saved length. False, and nothing but the
  // lease's own room changed, when too little of the beginning is still cached or there is no room.
  bool restore(KvCache& cache, KvLease& lease, std::span<const TokenId> tokens, const SavedBlocks& saved);

  std::optional<double> bytes_per_second() const;  // of what was saved so far; nullopt: nothing was
  std::uint64_t used() const { return *used_; }
  std::uint64_t size() const { return bytes_; }

 private:
  void run_copies(KvCache& cache);

  double saved_bytes_ = 0;
  double saved_seconds_ = 0;

  KvStorage& storage_;
  std::uint64_t bytes_;
  std::shared_ptr<std::uint64_t> used_ = std::make_shared<std::uint64_t>(0);
};

}  // namespace kvasir
