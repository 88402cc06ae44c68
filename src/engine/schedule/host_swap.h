// Blocks of paused sequences in host memory: what only they held, to be written back when they resume.
// A sequence's states are saved with them.
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
#include "base/time_source.h"
#include "engine/schedule/host_pool.h"
#include "kv/cache.h"

namespace kvasir {

// One paused sequence.
struct SavedBlocks {
  Position length = 0;          // tokens whose K and V were in the cache
  std::int64_t first_slot = 0;  // of all groups
  // [group of its policy][slot - first_slot], of states [group][0]: where each lies in `bytes`
  std::vector<std::vector<std::byte*>> blocks;
  HostSpan bytes;
};

class HostSwap {
 public:
  // The storage outlives this and all that is saved, and the clock this. Memory is taken when something is saved for
  // the first time.
  HostSwap(KvStorage& storage, std::uint64_t bytes, const TimeSource& clock)
      : storage_(storage), clock_(clock), pool_(std::make_shared<HostPool>(storage, bytes)) {}

  // What saving this lease would take; 0: it cannot be saved.
  std::uint64_t bytes_for(const KvCache& cache, const KvLease& lease) const;
  bool has_room(std::uint64_t bytes) const { return bytes <= pool_->left(); }

  // Copies the lease's blocks out, from the first that only it holds on. Null, and nothing done, where the memory for
  // it cannot be had after all. Requires bytes_for() > 0. Runs the cache's pending copies first: they may be what is
  // saved.
  std::unique_ptr<SavedBlocks> save(KvCache& cache, const KvLease& lease);

  // Brings a lease that was opened anew for the same tokens up to the saved length. False, and nothing but the
  // lease's own room changed, when too little of the beginning is still cached or there is no room.
  bool restore(KvCache& cache, KvLease& lease, std::span<const TokenId> tokens, const SavedBlocks& saved);

  std::optional<double> bytes_per_second() const;  // of what was saved first; nullopt: nothing was
  std::uint64_t used() const { return pool_->used(); }
  std::uint64_t taken() const { return pool_->taken(); }  // from the system, to save in
  std::uint64_t size() const { return pool_->size(); }

 private:
  // Later ones go on while the device copies.
  static constexpr double kMeasuredBytes = 256e6;

  void measure(std::span<const HostCopy> pieces);

  double measured_bytes_ = 0;
  double measured_seconds_ = 0;

  KvStorage& storage_;
  const TimeSource& clock_;
  std::shared_ptr<HostPool> pool_;
};

}  // namespace kvasir
