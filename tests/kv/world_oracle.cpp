// What the cache should answer, worked out by looking at every named block and every lease.
#include <fmt/format.h>

#include <algorithm>

#include "kv/world.h"

namespace kvasir {

// Follows what the cache says of itself: a block that gets a name gets the text its lease has there.
void World::hear(const Held* from, const std::vector<BlockTable>& tables) {
  for (const CacheEvent& event : cache_->take_events()) {
    auto& names = names_[event.group];
    if (event.kind == CacheEvent::Kind::kEvicted) {
      if (names.erase(event.block) == 0) fail(fmt::format("block {} had no name to lose", event.block));
      continue;
    }
    if (from == nullptr) return fail("a block got a name outside commit");
    const BlockTable& table = tables[event.group];
    std::int64_t slot = 0;
    while (slot < table.slots() && table.at(slot) != event.block) ++slot;
    const auto end = static_cast<std::ptrdiff_t>((slot + 1) * config_.block_tokens);
    if (end > std::ssize(from->text)) return fail("a block got a name before it was full");
    const Name name{from->tenant, {from->text.begin(), from->text.begin() + end}};
    if (named(event.group, name.tenant, name.text)) fail("two blocks have one name");
    if (!names.emplace(event.block, name).second) fail(fmt::format("block {} has two names", event.block));
  }
}

bool World::named(size_t group, std::uint32_t tenant, std::span<const TokenId> text) const {
  return std::ranges::any_of(names_[group], [&](const auto& entry) {
    return entry.second.tenant == tenant && std::ranges::equal(entry.second.text, text);
  });
}

World::Expected World::expected_reuse(const Text& prompt, std::uint32_t tenant) const {
  const std::int64_t size = config_.block_tokens;
  const std::int64_t most = std::ssize(prompt) - 1;
  const std::span<const TokenId> all(prompt);
  const auto all_there = [&](std::int64_t slots) {
    for (size_t g = 0; g < names_.size(); ++g) {
      for (std::int64_t slot = 0; slot < slots; ++slot) {
        if (!config_.groups[g].retention.needed(slot * size, slot * size + size - 1, slots * size)) continue;
        if (!named(g, tenant, all.first(static_cast<size_t>((slot + 1) * size)))) return false;
      }
    }
    return true;
  };
  std::int64_t slots = most / size;
  while (!all_there(slots)) --slots;
  const bool exact = names_.size() == 1 && config_.groups[0].retention.full();
  std::int64_t tail = 0;
  for (const auto& [block, name] : names_[0]) {
    if (!exact || name.tenant != tenant || std::ssize(name.text) != (slots + 1) * size) continue;
    const auto reach = static_cast<size_t>(std::min(most, (slots + 1) * size));
    const std::int64_t agreed = std::ranges::mismatch(name.text, all.first(reach)).in1 - name.text.begin();
    if (agreed > slots * size) tail = std::max(tail, agreed - slots * size);
  }
  return {slots * size + tail, exact};
}

// Room for new blocks, and for a copy of an open block that somebody else holds too. An open block that has a
// name but no other holder needs no room: at worst it loses its name.
bool World::has_room(const Held& held, std::int64_t tokens) const {
  const std::int64_t size = config_.block_tokens;
  const auto length = static_cast<Position>(held.text.size());
  for (size_t g = 0; g < names_.size(); ++g) {
    const BlockTable& table = held.lease.table(g);
    std::int64_t need = std::max<std::int64_t>((length + tokens + size - 1) / size - table.slots(), 0);
    if (length % size != 0 && tokens > 0) {
      const BlockId open = table.at(length / size);
      const auto holders = std::ranges::count_if(held_, [&](const Held& other) {
        const BlockTable& theirs = other.lease.table(g);
        return std::find(theirs.data(), theirs.data() + theirs.slots(), open) != theirs.data() + theirs.slots();
      });
      need += holders > 1;
    }
    if (need > cache_->pool(g).size() - cache_->pool(g).held()) return false;
  }
  return true;
}

}  // namespace kvasir
