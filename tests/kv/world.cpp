#include "kv/world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <random>
#include <set>

namespace kvasir {
namespace {

constexpr std::uint64_t kScribble = 0xdeadbeef;

}  // namespace

Tenant tenant_of(std::uint32_t id) {
  Tenant tenant{id, {}};
  if (id > 0) tenant.secret.bytes.fill(static_cast<std::uint8_t>(id));
  return tenant;
}

World::World(const WorldConfig& config) : config_(config) {
  CacheConfig cache;
  cache.block_tokens = config.block_tokens;
  cache.eviction = config.eviction;
  cache.recompute = {1, 1};
  const auto policy_of = [this](const std::vector<WorldConfig::Group>& groups) {
    CachePolicy policy;
    policy.key.bytes.fill(static_cast<std::uint8_t>(groups_.size()));
    for (const WorldConfig::Group& group : groups)
      policy.groups.push_back({group.retention, group.bytes, group.keeps});
    groups_.insert(groups_.end(), groups.begin(), groups.end());
    return policy;
  };
  std::int64_t bytes = 0;
  for (const WorldConfig::Group& group : config.groups) bytes += group.blocks * group.bytes;
  cache.pages = {in_order(std::max<std::int64_t>(bytes / config.page_bytes, 1)), config.page_bytes};
  std::mt19937_64 random(config.shuffle);
  if (config.shuffle != 0) std::ranges::shuffle(cache.pages.order, random);
  cache.policy = policy_of(config.groups);
  const size_t pages = cache.pages.order.size();
  if (!config.public_text.empty()) cache.public_texts.push_back(config.public_text);
  cache_.emplace(std::move(cache));
  for (const auto& groups : config.more_policies) cache_->add_policy(policy_of(groups));
  names_.resize(groups_.size());
  memory_.assign(pages * static_cast<size_t>(rows_of_page()), kScribble);
  for (const auto& [tenant, share] : config.shares) cache_->set_share(tenant, share);
  cache_->watch();
}

// --- the verbs
// ------------------------------------------------------------------------------------------------------

ReuseReport World::open(const Text& prompt, std::uint32_t tenant, PolicyId policy) {
  const Expected expected = expected_reuse(prompt, tenant, policy);
  KvCache::Opened opened = cache_->open(prompt, {tenant_of(tenant), 0, policy});
  const ReuseReport report = opened.report;
  Held held{std::move(opened.lease), tenant, policy, {}, {}, 0, public_blocks(prompt, policy)};
  for (std::int64_t i = 0; i < report.reused_tokens; ++i) {
    held.text.push_back(prompt[static_cast<size_t>(i)]);
    held.rows.push_back(next_row(held, held.text.back()));
  }
  const std::int64_t reused = report.reused_tokens;
  if (reused < expected.tokens || (expected.exact && reused != expected.tokens)) {
    fail(fmt::format("{} tokens reused where {} are cached", reused, expected.tokens));
  }
  if (reused >= std::ssize(prompt)) fail("no token is left to compute");
  if (report.prompt_tokens != std::ssize(prompt)) fail("the report is of another prompt");
  if ((report.stop == ReuseStop::kWholePrompt) != (reused == std::ssize(prompt) - 1)) fail("kWholePrompt is wrong");
  if (report.stopped_at != reused) fail("stopped_at is not where reuse stopped");
  held_.push_back(std::move(held));
  check();
  return report;
}

bool World::reserve(size_t lease, std::int64_t tokens) {
  Held& held = held_[lease];
  const bool room = has_room(held, tokens);
  const std::string before = observable();
  std::map<std::uint32_t, std::int64_t> had;
  for (const auto& [tenant, share] : config_.shares) had[tenant] = cache_->tenant_stats(tenant).bytes;
  const bool done = cache_->reserve(held.lease, tokens);
  // Where a page is a block, nothing is lost to page boundaries: a guarantee is exact.
  for (const auto& [tenant, share] : config_.shares) {
    const std::int64_t bytes = groups_[0].bytes;
    const std::int64_t kept = std::min(had[tenant], cache_->guaranteed_bytes(share) / bytes * bytes);
    const bool exact = groups_.size() == 1 && bytes == config_.page_bytes && tenant != held.tenant;
    if (exact && cache_->tenant_stats(tenant).bytes < kept) fail("somebody took what is guaranteed to another");
  }
  if (done != room) fail(fmt::format("reserve is {} where room is {}", done, room));
  if (!done && observable() != before) fail("a refused reserve changed something");
  const std::vector<BlockCopy> copies = cache_->take_copies();
  if (!done && !copies.empty()) fail("a refused reserve asked for copies");
  pending_.insert(pending_.end(), copies.begin(), copies.end());
  if (done) held.reserved = std::max(held.reserved, tokens);
  hear(nullptr, {});
  check();
  return done;
}

void World::commit(size_t lease, const Text& tokens) {
  Held& held = held_[lease];
  move_bytes();
  for (const TokenId token : tokens) {
    const auto position = static_cast<Position>(held.text.size());
    held.rows.push_back(next_row(held, token));
    held.text.push_back(token);
    for (size_t i = 0; i < groups_of(held).size(); ++i) {
      const size_t g = groups_of(held)[i];
      if (!groups_[g].state()) {
        *row(g, held.lease.table(i).at(position / config_.block_tokens), position) = held.rows.back();
        continue;
      }
      // A state is made of the one before.
      Row* at = row(g, held.lease.table(i).at(0), 0);
      if (position > 0 && *at != held.rows[static_cast<size_t>(position) - 1]) fail("a state is another text's");
      *at = held.rows.back();
    }
  }
  // What was written may leave the public text: from the block it does so in, all is private.
  const std::int64_t agreed = public_blocks(held.text, held.policy);
  const std::int64_t full = std::ssize(held.text) / config_.block_tokens;
  if (full > agreed) held.public_blocks = std::min(held.public_blocks, agreed);
  std::vector<BlockTable> tables;
  for (size_t i = 0; i < groups_of(held).size(); ++i) tables.push_back(held.lease.table(i));
  cache_->commit(held.lease, tokens);
  held.reserved -= std::ssize(tokens);
  hear(&held, tables);
  check();
}

bool World::write(size_t lease, const Text& tokens) {
  if (!reserve(lease, std::ssize(tokens))) return false;
  commit(lease, tokens);
  return true;
}

// What is written next is written elsewhere, if the state has a name now.
void World::keep_state(size_t lease, KvCache::Stay stay) {
  Held& held = held_[lease];
  const bool inside_public = std::ssize(held.text) / config_.block_tokens <= held.public_blocks;
  cache_->keep_state(held.lease, stay);
  if (has_states(held.policy)) held.reserved = 0;
  std::vector<BlockTable> tables;
  for (size_t i = 0; i < groups_of(held).size(); ++i) tables.push_back(held.lease.table(i));
  hear(&held, tables);
  const bool at_end = !held.text.empty() && std::ssize(held.text) % config_.block_tokens == 0;
  for (size_t i = 0; i < groups_of(held).size() && at_end && !(inside_public && held.tenant != 0); ++i) {
    const size_t g = groups_of(held)[i];
    if (groups_[g].state() && !named(g, name_of(held, std::ssize(held.text) / config_.block_tokens - 1, held.text)))
      fail("a state was not kept");
  }
  check();
}

void World::expect(size_t lease, const std::vector<Position>& places) {
  cache_->expect(held_[lease].lease, places);
  check();
}

bool World::has_states(PolicyId policy) const {
  return std::ranges::any_of(cache_->groups_of(policy), [this](size_t group) { return groups_[group].state(); });
}

std::int64_t World::blocks_of(size_t group, std::int64_t rows) const {
  if (groups_[group].state()) return static_cast<std::int64_t>(rows > 0);
  return (rows + config_.block_tokens - 1) / config_.block_tokens;
}

// A window that has slid past a block cannot come back to where it is needed, and a state not at all.
bool World::may_truncate(size_t i, Position length) const {
  if (has_states(held_[i].policy) && length > 0 && length < std::ssize(held_[i].text)) return false;
  const std::int64_t size = config_.block_tokens;
  for (size_t g = 0; g < groups_of(held_[i]).size(); ++g) {
    if (groups_[groups_of(held_[i])[g]].state()) continue;  // has one block, whatever the length
    const BlockTable& table = held_[i].lease.table(g);
    const Retention& retention = groups_[groups_of(held_[i])[g]].retention;
    for (std::int64_t block_index = 0; block_index * size < length; ++block_index) {
      if (!table.hole(block_index)) continue;
      if (retention.needed(block_index * size, block_index * size + size - 1, length)) return false;
    }
  }
  return true;
}

void World::truncate(size_t lease, Position length) {
  Held& held = held_[lease];
  cache_->truncate(held.lease, length);
  held.text.resize(static_cast<size_t>(length));
  held.rows.resize(static_cast<size_t>(length));
  held.reserved = 0;
  held.public_blocks = std::min(held.public_blocks, length / config_.block_tokens);
  check();
}

void World::fork(size_t lease) {
  Held& from = held_[lease];
  if (has_states(from.policy)) from.reserved = 0;
  Held twin{cache_->fork(from.lease), from.tenant, from.policy, from.text, from.rows, 0, from.public_blocks};
  held_.push_back(std::move(twin));
  check();
}

void World::release(size_t lease) {
  held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(lease));
  check();
}

void World::release_all() {
  while (!held_.empty()) release(held_.size() - 1);
  for (size_t g = 0; g < names_.size(); ++g) {
    const BlockPool& pool = cache_->pool(g);
    if (pool.held() != 0) fail(fmt::format("group {} leaks {} blocks", g, pool.held()));
    if (pool.free_blocks() + published(g) != pool.size()) fail(fmt::format("group {} lost blocks", g));
  }
}

// Where there is a public text, blocks may pass between tenants: then names alone tell who may read what.
World::Row World::next_row(const Held& held, TokenId token) const {
  const std::uint64_t tenant = config_.public_text.empty() ? held.tenant + 1U : 0U;
  return mix(held.rows.empty() ? 0 : held.rows.back(), tenant, static_cast<std::uint64_t>(token) + 1U);
}

// --- bytes
// ----------------------------------------------------------------------------------------------------------

std::int64_t World::rows_of_page() const {
  std::int64_t most = 0;
  for (const WorldConfig::Group& group : groups_) most = std::max(most, config_.page_bytes / group.bytes);
  return most * config_.block_tokens;
}

World::Row* World::row(size_t group, BlockId block, Position position) {
  const std::int64_t size = config_.block_tokens;
  const std::int64_t per_page = config_.page_bytes / groups_[group].bytes;
  const std::int64_t place = block / per_page * rows_of_page() + block % per_page * size + position % size;
  return &memory_[static_cast<size_t>(place)];
}

// Runs the copies, then spoils every row that somebody has the right to write.
void World::move_bytes() {
  const auto size = static_cast<std::ptrdiff_t>(config_.block_tokens);
  for (const BlockCopy& copy : std::exchange(pending_, {})) {
    std::copy_n(row(copy.group, copy.from, 0), size, row(copy.group, copy.to, 0));
    ++copies_made_;
  }
  for (const Held& held : held_) scribble(held);
}

void World::scribble(const Held& held) {
  const auto length = static_cast<Position>(held.text.size());
  for (size_t i = 0; i < groups_of(held).size(); ++i) {
    if (groups_[groups_of(held)[i]].state()) continue;
    for (Position p = length; p < length + held.reserved; ++p) {
      *row(groups_of(held)[i], held.lease.table(i).at(p / config_.block_tokens), p) = kScribble;
    }
  }
}

// --- what must hold after every verb
// --------------------------------------------------------------------------------

void World::check() {
  if (const auto problem = cache_->problem()) fail(*problem);
  check_what_watchers_know();
  if (config_.copies == WorldConfig::Copies::kEager) move_bytes();
  for (const Held& held : held_) check_lease(held);
  check_pools();
}

void World::check_lease(const Held& held) {
  const std::int64_t size = config_.block_tokens;
  const auto length = static_cast<Position>(held.text.size());
  if (!std::ranges::equal(held.lease.tokens(), held.text)) return fail("a lease has another's tokens");
  for (size_t i = 0; i < groups_of(held).size(); ++i) {
    const size_t g = groups_of(held)[i];
    const BlockTable& table = held.lease.table(i);
    const Retention& retention = groups_[g].retention;
    if (groups_[g].state()) {
      const bool there = table.size() == 1 || (length == 0 && table.size() == 0);
      if (!there) return fail("a lease has not one state");
      if (length > 0 && pending_.empty() && *row(g, table.at(0), 0) != held.rows.back())
        return fail(fmt::format("group {}: the state at {} is another text's", g, length));
      continue;
    }
    for (std::int64_t block_index = 0; block_index < table.size(); ++block_index) {
      const bool needed = retention.needed(block_index * size, block_index * size + size - 1, length);
      if (table.hole(block_index) == needed)
        return fail(needed ? "a needed block is a hole" : "an unneeded block is kept");
    }
    if (!pending_.empty()) continue;  // the bytes are still on their way
    for (Position p = 0; p < length; ++p) {
      if (!retention.needed(p, p, length)) continue;
      if (*row(g, table.at(p / size), p) != held.rows[static_cast<size_t>(p)]) {
        return fail(fmt::format("group {}: position {} of {} reads another text's bytes", g, p, length));
      }
    }
  }
}

void World::check_pools() {
  for (size_t g = 0; g < groups_.size(); ++g) {
    std::set<BlockId> held;
    for (const Held& one : held_) {
      for (size_t i = 0; i < groups_of(one).size(); ++i) {
        const BlockTable& table = one.lease.table(i);
        if (groups_of(one)[i] == g) held.insert(table.data(), table.data() + table.size());
      }
    }
    held.erase(kNoBlock);
    const BlockPool& pool = cache_->pool(g);
    if (pool.held() != std::ssize(held))
      fail(fmt::format("{} blocks are held, and {} counted", held.size(), pool.held()));
    for (const auto& [block, name] : names_[g]) {
      if (pool.refs(block) == 0 && pool.state(block) < BlockPool::State::kHeld)
        fail(fmt::format("block {} is named and free", block));
    }
  }
}

// Everything a caller can see, as text.
std::string World::observable() const {
  std::string out = fmt::format("{} {} {}|", cache_->stats().copied_blocks, cache_->stats().evicted_blocks,
                                cache_->problem().value_or("well"));
  for (size_t g = 0; g < groups_.size(); ++g) {
    const BlockPool& pool = cache_->pool(g);
    out += fmt::format("{} {}:", pool.held(), pool.free_blocks());
    for (BlockId b = 0; b < pool.id_limit(); ++b)
      out += fmt::format("{},{} ", pool.refs(b), static_cast<int>(pool.state(b)));
  }
  for (const Held& held : held_) {
    for (size_t i = 0; i < groups_of(held).size(); ++i) {
      const BlockTable& table = held.lease.table(i);
      out += fmt::format("[{}]", fmt::join(std::span(table.data(), static_cast<size_t>(table.size())), " "));
    }
    out += fmt::format("({})", held.lease.length());
  }
  return out;
}

void World::fail(const std::string& what) {
  if (wrong_.empty()) wrong_ = what;
}

}  // namespace kvasir
