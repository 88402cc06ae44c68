#include "engine/schedule/host_swap.h"

#include <algorithm>

#include "base/check.h"
#include "engine/cache_bytes.h"
#include "layout/kv_layout.h"

namespace kvasir {
namespace {

std::int64_t slots_written(const KvCache& cache, const KvLease& lease) {
  return blocks_for(lease.length(), cache.block_tokens());
}

// Of one group's table, those to be saved where rows are from `first` on. A state is saved whole; a source has a
// name, and is read again if it was evicted. So has a kept state in a format of its own.
struct Slots {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
Slots slots_of(const KvCache& cache, const KvLease& lease, size_t i, std::int64_t first) {
  const size_t group = cache.groups_of(lease.policy())[i];
  if (cache.writes_state(group)) return {0, lease.table(i).size()};
  if (cache.keeps_state(group) || cache.keeps_source(group)) return {};
  return {first, slots_written(cache, lease)};
}

// The first slot that somebody would have to keep for this lease: every later one is saved with it. With states it is
// found again only as far as some are kept.
std::int64_t first_private_slot(const KvCache& cache, const KvLease& lease) {
  const std::int64_t slots = slots_written(cache, lease);
  std::int64_t first = slots;
  if (cache.has_states(lease.policy())) first = cache.found_again(lease) / cache.block_tokens();
  const std::span<const size_t> groups = cache.groups_of(lease.policy());
  for (size_t i = 0; i < groups.size(); ++i) {
    if (cache.keeps_state(groups[i]) || cache.keeps_source(groups[i])) continue;
    for (std::int64_t slot = 0; slot < first; ++slot) {
      const BlockId block = lease.table(i).at(slot);
      if (block != kNoBlock && cache.pool(groups[i]).refs(block) == 1) first = slot;
    }
  }
  return first;
}

// Whether it has not begun to write what it found: what would be saved is not there yet.
bool lacks_state(const KvCache& cache, const KvLease& lease) {
  const std::span<const size_t> groups = cache.groups_of(lease.policy());
  for (size_t i = 0; i < groups.size(); ++i) {
    if (cache.writes_state(groups[i]) && lease.table(i).size() == 0) return true;
  }
  return false;
}

bool has_holes(const KvCache& cache, const KvLease& lease, std::int64_t from) {
  for (size_t i = 0; i < cache.groups_of(lease.policy()).size(); ++i) {
    const Slots slots = slots_of(cache, lease, i, from);
    for (std::int64_t slot = slots.begin; slot < slots.end; ++slot) {
      if (lease.table(i).hole(slot)) return true;
    }
  }
  return false;
}

}  // namespace

std::uint64_t HostSwap::bytes_for(const KvCache& cache, const KvLease& lease) const {
  if (!cache.shares(lease.policy())) return 0;  // which rows it has is not in its blocks
  const std::int64_t first = first_private_slot(cache, lease);
  if (has_holes(cache, lease, first) || lacks_state(cache, lease)) return 0;
  std::uint64_t bytes = 0;
  const std::span<const size_t> groups = cache.groups_of(lease.policy());
  for (size_t i = 0; i < groups.size(); ++i) {
    const Slots slots = slots_of(cache, lease, i, first);
    bytes += static_cast<std::uint64_t>((slots.end - slots.begin) * storage_.block_bytes(groups[i]));
  }
  return bytes;
}

std::unique_ptr<SavedBlocks> HostSwap::save(KvCache& cache, const KvLease& lease) {
  const std::uint64_t bytes = bytes_for(cache, lease);
  CHECK(bytes > 0);
  auto saved = std::unique_ptr<SavedBlocks>(
      new SavedBlocks{lease.length(), first_private_slot(cache, lease), {}, HostSpan(pool_)});
  const std::span<const size_t> groups = cache.groups_of(lease.policy());
  std::vector<HostCopy> pieces;
  saved->blocks.resize(groups.size());
  for (size_t i = 0; i < groups.size(); ++i) {
    const auto size = static_cast<size_t>(storage_.block_bytes(groups[i]));
    const Slots slots = slots_of(cache, lease, i, saved->first_slot);
    for (std::int64_t slot = slots.begin; slot < slots.end; ++slot) {
      std::byte* place = saved->blocks[i].emplace_back(saved->bytes.place(size));
      if (place == nullptr) return nullptr;
      pieces.push_back(storage_.saved_at(place, groups[i], lease.table(i).at(slot)));
    }
  }
  copy_blocks(cache, storage_);
  measured_bytes_ < kMeasuredBytes ? measure(pieces) : storage_.save(pieces);
  return saved;
}

void HostSwap::measure(std::span<const HostCopy> pieces) {
  storage_.finish();
  const double start = clock_.now();
  storage_.save(pieces);
  storage_.finish();
  measured_seconds_ += clock_.now() - start;
  for (const HostCopy& piece : pieces) measured_bytes_ += static_cast<double>(piece.bytes);
}

std::optional<double> HostSwap::bytes_per_second() const {
  if (measured_seconds_ <= 0) return std::nullopt;
  return measured_bytes_ / measured_seconds_;
}

bool HostSwap::restore(KvCache& cache, KvLease& lease, std::span<const TokenId> tokens, const SavedBlocks& saved) {
  const Position found = lease.length();
  const std::int64_t size = cache.block_tokens();
  if (found >= saved.length) return true;
  if (found < saved.first_slot * size || !cache.reserve(lease, saved.length - found)) return false;
  copy_blocks(cache, storage_);
  const std::span<const size_t> groups = cache.groups_of(lease.policy());
  std::vector<HostCopy> pieces;
  for (size_t g = 0; g < groups.size(); ++g) {
    const bool state = cache.keeps_state(groups[g]);
    for (size_t i = 0; i < saved.blocks[g].size(); ++i) {
      const std::int64_t slot = (state ? 0 : saved.first_slot) + static_cast<std::int64_t>(i);
      if (!state && (slot + 1) * size <= found) continue;
      pieces.push_back(storage_.saved_at(saved.blocks[g][i], groups[g], lease.table(g).at(slot)));
    }
  }
  storage_.restore(pieces);
  cache.commit(lease, tokens.subspan(static_cast<size_t>(found), static_cast<size_t>(saved.length - found)));
  return true;
}

}  // namespace kvasir
