#include "engine/pins.h"

#include <algorithm>
#include <set>
#include <utility>

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
  pins_.push_back(std::move(pin));
  if (bytes() > most_bytes_ || bytes(lease.tenant().id) > wish.most_bytes) {
    pins_.pop_back();
    return false;
  }
  return true;
}

PinBoard::Count PinBoard::count(std::optional<std::uint32_t> tenant) const {
  std::set<std::pair<size_t, BlockId>> seen;
  Count out;
  for (const Pin& pin : pins_) {
    if (tenant && pin.lease.tenant().id != *tenant) continue;
    const std::span<const size_t> groups = cache_.groups_of(pin.lease.policy());
    for (size_t i = 0; i < groups.size(); ++i) {
      const BlockTable& table = pin.lease.table(i);
      for (std::int64_t slot = 0; slot < table.slots(); ++slot) {
        if (table.hole(slot) || !seen.emplace(groups[i], table.at(slot)).second) continue;
        out.blocks += i == 0;
        out.bytes += cache_.pool(groups[i]).weight();
      }
    }
  }
  return out;
}

void PinBoard::expire(double now) {
  for (size_t i = pins_.size(); i > 0; --i) {
    if (pins_[i - 1].expires <= now) pins_.erase(pins_.begin() + static_cast<std::ptrdiff_t>(i) - 1);
  }
}

bool PinBoard::drop_soonest(std::optional<std::uint32_t> tenant) {
  std::optional<size_t> soonest;
  for (size_t i = 0; i < pins_.size(); ++i) {
    if (tenant && pins_[i].lease.tenant().id != *tenant) continue;
    if (!soonest || pins_[i].expires < pins_[*soonest].expires) soonest = i;
  }
  if (soonest) pins_.erase(pins_.begin() + static_cast<std::ptrdiff_t>(*soonest));
  return soonest.has_value();
}

}  // namespace kvasir
