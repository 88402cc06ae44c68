#include "engine/schedule/prefix_pins.h"

#include <algorithm>
#include <chrono>

#include "layout/kv_layout.h"

namespace kvasir {

bool PrefixPins::pin(KvCache& cache, const KvLease& lease, const PinRequest& wanted) {
  const std::int64_t size = cache.block_tokens();
  const Position whole = std::min((wanted.tokens + size - 1) / size * size, lease.length() / size * size);
  if (whole == 0) return false;
  const Key256& name = lease.keys()[static_cast<size_t>(whole / size - 1)];
  const auto same = std::ranges::find(pins_, name, &Pin::name);
  if (same != pins_.end()) {
    same->expires = std::max(same->expires, wanted.expires);
    same->yields = std::max(same->yields, wanted.yields);
    return true;
  }
  if (!cache.may_truncate(lease, whole)) return false;
  Pin pin{name, wanted.expires, wanted.yields, cache.fork(lease)};
  cache.truncate(pin.lease, whole);
  if (!cache.hold_kept_states(pin.lease)) return false;
  pins_.push_back(std::move(pin));
  count(pins_.back().lease, 1);
  if (bytes() > most_bytes_ || bytes(lease.tenant().id) > wanted.most_bytes) {
    drop(pins_.size() - 1);
    return false;
  }
  return true;
}

void PrefixPins::pin_breakpoints(KvCache& cache, Sequence& sequence, const When& when) {
  const std::vector<Breakpoint>& marks = sequence.request.breakpoints;
  if (!sequence.lease.valid() || !cache.shares(sequence.lease.policy())) return;
  for (; sequence.has_pins_to_come(); ++sequence.pinned_breakpoints) {
    const Breakpoint& mark = marks[sequence.pinned_breakpoints];
    const Position end = blocks_for(mark.tokens, cache.block_tokens()) * cache.block_tokens();
    if (when.moment == Moment::kRunning && sequence.lease.length() < end) return;
    const double expires = when.now + std::chrono::duration<double>(mark.keep).count();
    const Yields yields =
        sequence.request.origin == Request::Origin::kInternal ? Yields::kNever : Yields::kToLoneRequests;
    if (pin(cache, sequence.lease, {mark.tokens, expires, when.most_bytes, yields})) {
      sequence.record.pinned_tokens = std::max(sequence.record.pinned_tokens, mark.tokens);
    }
  }
}

const PrefixPins::Tally& PrefixPins::tally(std::optional<std::uint32_t> tenant) const {
  if (!tenant) return all_;
  const auto found = of_tenant_.find(*tenant);
  return found == of_tenant_.end() ? none_ : found->second;
}

void PrefixPins::count(Tally& tally, const KvLease& lease, int by) const {
  const std::span<const size_t> groups = cache_.groups_of(lease.policy());
  for (size_t i = 0; i < groups.size(); ++i) {
    const BlockTable& table = lease.table(i);
    for (std::int64_t slot = 0; slot < table.size(); ++slot) {
      if (table.hole(slot)) continue;
      const std::span<const Key256> keys = cache_.keeps_source(groups[i]) ? lease.source_keys() : lease.keys();
      const Key256& name = cache_.keeps_state(groups[i]) ? keys.back() : keys[static_cast<size_t>(slot)];
      const auto at = tally.pins.try_emplace({name, groups[i]}, 0).first;
      const bool was = std::exchange(at->second, at->second + by) > 0;
      const int change = static_cast<int>(at->second > 0) - static_cast<int>(was);
      tally.blocks += i == 0 ? change : 0;
      tally.bytes += change * cache_.pool(groups[i]).weight();
      if (at->second == 0) tally.pins.erase(at);
    }
  }
}

void PrefixPins::count(const KvLease& lease, int by) {
  count(all_, lease, by);
  count(of_tenant_[lease.tenant().id], lease, by);
}

void PrefixPins::drop(size_t pin) {
  count(pins_[pin].lease, -1);
  pins_.erase(pins_.begin() + static_cast<std::ptrdiff_t>(pin));
}

std::int64_t PrefixPins::idle_blocks() const {
  std::map<std::pair<size_t, BlockId>, int> held;  // by pins
  for (const Pin& pin : pins_) {
    const std::span<const size_t> groups = cache_.groups_of(pin.lease.policy());
    for (size_t i = 0; i < groups.size(); ++i) {
      const BlockTable& table = pin.lease.table(i);
      for (std::int64_t slot = 0; slot < table.size(); ++slot) {
        if (!table.hole(slot)) ++held[{groups[i], table.at(slot)}];
      }
    }
  }
  return std::ranges::count_if(held, [this](const auto& block) {
    return cache_.pool(block.first.first).refs(block.first.second) == block.second;
  });
}

void PrefixPins::expire(double now) {
  for (size_t i = pins_.size(); i > 0; --i) {
    if (pins_[i - 1].expires <= now) drop(i - 1);
  }
}

bool PrefixPins::drop_soonest(std::optional<std::uint32_t> tenant) {
  std::optional<size_t> soonest;
  for (size_t i = 0; i < pins_.size(); ++i) {
    if (pins_[i].yields == Yields::kNever || (tenant && pins_[i].lease.tenant().id != *tenant)) continue;
    if (!soonest || pins_[i].expires < pins_[*soonest].expires) soonest = i;
  }
  if (soonest) drop(*soonest);
  return soonest.has_value();
}

}  // namespace kvasir
