#include "engine/pins.h"

#include <algorithm>

#include "base/check.h"

namespace kvasir {

bool PinBoard::hold(KvCache& cache, const KvLease& lease, const Wish& wish) {
  const std::int64_t size = cache.block_tokens();
  const Position whole = std::min((wish.tokens + size - 1) / size * size, lease.length() / size * size);
  if (whole == 0) return false;
  const Key256& name = lease.keys()[static_cast<size_t>(whole / size - 1)];
  const auto same = std::ranges::find(pins_, name, &Pin::name);
  if (same != pins_.end()) {
    same->expires = std::max(same->expires, wish.expires);
    return true;
  }
  if (!cache.may_truncate(lease, whole)) return false;
  Pin pin{name, whole, wish.expires, cache.fork(lease)};
  cache.truncate(pin.lease, whole);
  count(pin.lease, 1);
  if (blocks() > most_blocks_ || blocks(lease.tenant().id) > wish.most_blocks) {
    count(pin.lease, -1);
    return false;
  }
  pins_.push_back(std::move(pin));
  return true;
}

std::int64_t PinBoard::blocks(std::uint32_t tenant) const {
  const auto found = by_tenant_.find(tenant);
  return found == by_tenant_.end() ? 0 : std::ssize(found->second);
}

void PinBoard::count(const KvLease& lease, int by) {
  count(lease.table(0), by, blocks_);
  const auto theirs = by_tenant_.try_emplace(lease.tenant().id).first;
  count(lease.table(0), by, theirs->second);
  if (theirs->second.empty()) by_tenant_.erase(theirs);
}

void PinBoard::count(const BlockTable& table, int by, Holds& holds) {
  for (std::int64_t slot = 0; slot < table.slots(); ++slot) {
    if (table.hole(slot)) continue;
    const auto held = holds.try_emplace(table.at(slot), 0).first;
    held->second += by;
    CHECK(held->second >= 0);
    if (held->second == 0) holds.erase(held);
  }
}

void PinBoard::drop(size_t index) {
  count(pins_[index].lease, -1);
  pins_.erase(pins_.begin() + static_cast<std::ptrdiff_t>(index));
}

void PinBoard::expire(double now) {
  for (size_t i = pins_.size(); i > 0; --i) {
    if (pins_[i - 1].expires <= now) drop(i - 1);
  }
}

bool PinBoard::drop_soonest(std::optional<std::uint32_t> tenant) {
  std::optional<size_t> soonest;
  for (size_t i = 0; i < pins_.size(); ++i) {
    if (tenant && pins_[i].lease.tenant().id != *tenant) continue;
    if (!soonest || pins_[i].expires < pins_[*soonest].expires) soonest = i;
  }
  if (soonest) drop(*soonest);
  return soonest.has_value();
}

}  // namespace kvasir
