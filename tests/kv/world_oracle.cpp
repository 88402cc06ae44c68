// What the cache should answer, worked out by looking at every named block and every lease.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kv/world.h"

namespace kvasir {

// Follows what the cache says of itself: a block that gets a name gets the text its lease has there.
void World::hear(const Held* from, const std::vector<BlockTable>& tables) {
  look();
  for (const CacheEvent& event : std::exchange(heard_, {})) {
    if (event.kind == CacheEvent::Kind::kTaken || event.kind == CacheEvent::Kind::kHit) continue;
    auto& names = names_[event.group];
    if (event.kind == CacheEvent::Kind::kEvicted) {
      if (names.erase(event.block) == 0) fail(fmt::format("block {} had no name to lose", event.block));
      continue;
    }
    if (event.kind == CacheEvent::Kind::kMoved) {
      if (auto moved = names.extract(event.block)) {
        moved.key() = event.to;
        if (!names.insert(std::move(moved)).inserted) fail("a block was moved onto a named one");
      }
      continue;
    }
    if (from == nullptr) return fail("a block got a name outside commit");
    const auto place = std::ranges::find(groups_of(*from), event.group);
    if (place == groups_of(*from).end()) return fail("a block got a name under another policy");
    const BlockTable& table = tables[static_cast<size_t>(place - groups_of(*from).begin())];
    std::int64_t block_index = 0;
    while (block_index < table.size() && table.at(block_index) != event.block) ++block_index;
    if (groups_[event.group].state()) block_index = std::ssize(from->text) / config_.block_tokens - 1;
    const auto end = static_cast<std::ptrdiff_t>((block_index + 1) * config_.block_tokens);
    if (groups_[event.group].state() && end != std::ssize(from->text)) return fail("a state got a name ahead");
    if (end > std::ssize(from->text)) return fail("a block got a name before it was full");
    Text text(from->text.begin(), from->text.begin() + end);
    const Name name = name_of(*from, block_index, std::move(text));
    if (named(event.group, name)) fail("two blocks have one name");
    if (!names.emplace(event.block, name).second) fail(fmt::format("block {} has two names", event.block));
  }
}

// As somebody does who watches: changes are put on top of what was known.
void World::look() {
  const CacheChanges changes = cache_->take_changes();
  heard_.insert(heard_.end(), changes.events.begin(), changes.events.end());
  known_.resize(cache_->groups());
  for (const BlockInfo& info : changes.blocks) known_[info.group][info.block] = info;
}

void World::check_what_watchers_know() {
  look();
  for (size_t group = 0; group < cache_->groups(); ++group) {
    for (BlockId block = 0; block < cache_->pool(group).id_limit(); ++block) {
      const BlockInfo now = cache_->info(group, block);
      const BlockInfo& known = known_[group][block];
      const bool same = known.state == now.state && known.refs == now.refs && known.owner == now.owner &&
                        known.published == now.published && known.key == now.key && known.parent == now.parent;
      if (!same) fail(fmt::format("block {} of group {} changed, and nobody was told", block, group));
    }
  }
}

World::Name World::name_of(const Held& held, std::int64_t block_index, Text text) {
  if (block_index < held.public_blocks) return {kEverybody, std::move(text), 0};
  return {held.tenant, std::move(text), held.public_blocks};
}

bool World::named(size_t group, const Name& name) const {
  return std::ranges::any_of(names_[group], [&](const auto& entry) { return entry.second == name; });
}

std::int64_t World::public_blocks(const Text& prompt, PolicyId policy) const {
  if (policy != 0) return 0;  // only the first policy's are public
  return (std::ranges::mismatch(prompt, config_.public_text).in1 - prompt.begin()) / config_.block_tokens;
}

World::Expected World::expected_reuse(const Text& prompt, std::uint32_t tenant, PolicyId policy) const {
  const std::span<const size_t> groups = cache_->groups_of(policy);
  const std::int64_t size = config_.block_tokens;
  const std::int64_t most = std::ssize(prompt) - 1;
  const std::span<const TokenId> all(prompt);
  Held asking;
  asking.tenant = tenant;
  asking.public_blocks = public_blocks(prompt, policy);
  const auto all_there = [&](std::int64_t blocks) {
    for (const size_t g : groups) {
      const bool state = groups_[g].state();  // the last is all that is needed
      for (std::int64_t block_index = state ? std::max<std::int64_t>(blocks - 1, 0) : 0; block_index < blocks;
           ++block_index) {
        if (!groups_[g].retention.needed(block_index * size, block_index * size + size - 1, blocks * size)) continue;
        const std::span<const TokenId> text = all.first(static_cast<size_t>((block_index + 1) * size));
        if (!named(g, name_of(asking, block_index, {text.begin(), text.end()}))) return false;
      }
    }
    return true;
  };
  std::int64_t blocks = most / size;
  while (!all_there(blocks)) --blocks;
  const auto states = std::ranges::count_if(groups, [this](size_t g) { return groups_[g].state(); });
  const bool exact = std::ssize(groups) == 1 + states && groups_[groups[0]].retention.full();
  std::int64_t tail = 0;
  for (const auto& [block, name] : names_[groups[0]]) {
    if (!exact || states > 0 || name != name_of(asking, blocks, name.text) ||
        std::ssize(name.text) != (blocks + 1) * size)
      continue;
    const auto reach = static_cast<size_t>(std::min(most, (blocks + 1) * size));
    const std::int64_t agreed = std::ranges::mismatch(name.text, all.first(reach)).in1 - name.text.begin();
    if (agreed > blocks * size) tail = std::max(tail, agreed - blocks * size);
  }
  return {blocks * size + tail, exact};
}

bool World::fits_alone(PolicyId policy, std::int64_t length, std::uint32_t tenant) const {
  std::vector<CacheGroupConfig> groups;
  for (const size_t g : cache_->groups_of(policy))
    groups.push_back({groups_[g].retention, groups_[g].bytes, groups_[g].keeps});
  return cache_->fits_alone(groups, length, share(tenant), guaranteed_to_others(tenant));
}

std::int64_t World::guaranteed_to_others(std::uint32_t tenant) const {
  std::int64_t bytes = 0;
  for (const auto& [id, share] : config_.shares) {
    if (id != tenant)
      bytes += static_cast<std::int64_t>(share.guaranteed * static_cast<double>(cache_->memory_bytes()));
  }
  return bytes;
}

// By group: blocks that nobody holds, of other tenants, which they are guaranteed.
std::vector<std::int64_t> World::kept_for_others(std::uint32_t tenant) const {
  std::vector<std::int64_t> kept(groups_.size(), 0);
  for (const auto& [id, share] : config_.shares) {
    if (id == tenant) continue;
    const auto guaranteed = static_cast<std::int64_t>(share.guaranteed * static_cast<double>(cache_->memory_bytes()));
    std::int64_t has = 0;
    std::int64_t held = 0;
    std::vector<std::int64_t> cached(groups_.size(), 0);
    for (size_t g = 0; g < groups_.size(); ++g) {
      const BlockPool& pool = cache_->pool(g);
      for (BlockId b = 0; b < pool.id_limit(); ++b) {
        const BlockPool::State state = pool.state(b);
        if (state == BlockPool::State::kFree || state == BlockPool::State::kAbsent || pool.owner(b) != id + 1)
          continue;
        has += groups_[g].bytes;
        held += state == BlockPool::State::kHeld ? groups_[g].bytes : 0;
        cached[g] += state != BlockPool::State::kHeld;
      }
    }
    const std::int64_t bytes = std::max<std::int64_t>(std::min(has, guaranteed) - held, 0);
    for (size_t g = 0; g < groups_.size(); ++g) {
      kept[g] += std::min(cached[g], (bytes + groups_[g].bytes - 1) / groups_[g].bytes);
    }
  }
  return kept;
}

// Room for new blocks, and for a copy of an open block that somebody else holds too. An open block that has a
// name but no other holder needs no room: at worst it loses its name. Groups take whole pages.
bool World::has_room(const Held& held, std::int64_t tokens) const {
  const std::int64_t size = config_.block_tokens;
  const auto length = static_cast<Position>(held.text.size());
  std::vector<std::int64_t> wanted;  // by group: blocks held, and to be held
  std::int64_t own_bytes = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const BlockPool& pool = cache_->pool(g);
    wanted.push_back(pool.held());
    for (BlockId b = 0; b < pool.id_limit(); ++b) {
      if (pool.state(b) == BlockPool::State::kHeld && pool.owner(b) == held.tenant + 1) own_bytes += groups_[g].bytes;
    }
  }
  std::int64_t own_need = 0;
  for (size_t i = 0; i < groups_of(held).size(); ++i) {
    const size_t g = groups_of(held)[i];
    const BlockTable& table = held.lease.table(i);
    const bool state = groups_[g].state();
    std::int64_t need = std::max<std::int64_t>(blocks_of(g, length + tokens) - table.size(), 0);
    if ((state ? table.size() > 0 : length % size != 0) && tokens > 0) {
      const BlockId open = table.at(state ? 0 : length / size);
      const auto holders = std::ranges::count_if(held_, [&](const Held& other) {
        if (other.policy != held.policy) return false;
        const BlockTable& theirs = other.lease.table(i);
        return std::find(theirs.data(), theirs.data() + theirs.size(), open) != theirs.data() + theirs.size();
      });
      need += holders > 1;
    }
    wanted[g] += need;
    const std::int64_t for_all =
        state ? 0
              : std::max<std::int64_t>(
                    std::min(held.public_blocks, (length + tokens + size - 1) / size) - table.size(), 0);
    own_need += (need - for_all) * groups_[g].bytes;
  }
  const std::vector<std::int64_t> kept = kept_for_others(held.tenant);
  std::int64_t pages = 0;
  std::int64_t kept_pages = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const std::int64_t per_page = config_.page_bytes / groups_[g].bytes;
    pages += (wanted[g] + per_page - 1) / per_page;
    kept_pages += (wanted[g] + kept[g] + per_page - 1) / per_page - (wanted[g] + per_page - 1) / per_page;
  }
  kept_pages = std::min(kept_pages, guaranteed_to_others(held.tenant) / config_.page_bytes);
  if ((pages + kept_pages) * config_.page_bytes > cache_->memory_bytes()) return false;
  const auto share = config_.shares.find(held.tenant);
  if (share == config_.shares.end() || share->second.most >= 1 || own_need == 0) return true;
  std::int64_t least = 0;
  for (const WorldConfig::Group& group : config_.groups) least += group.bytes;
  const auto most = static_cast<std::int64_t>(share->second.most * static_cast<double>(cache_->memory_bytes()));
  return own_bytes + own_need <= std::max(most, least);
}

}  // namespace kvasir
