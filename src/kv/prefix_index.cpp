#include "kv/prefix_index.h"

#include <algorithm>

#include "base/check.h"

namespace kvasir {

void PrefixIndex::grow(std::int64_t blocks) {
  CHECK(blocks >= static_cast<std::int64_t>(nodes_.size()));
  nodes_.resize(static_cast<size_t>(blocks));
  tokens_.resize(static_cast<size_t>(blocks * block_tokens_));
}

std::span<const TokenId> PrefixIndex::tokens(BlockId block) const {
  const auto size = static_cast<size_t>(block_tokens_);
  return std::span(tokens_).subspan(static_cast<size_t>(block) * size, size);
}

std::optional<BlockId> PrefixIndex::block_of(const Key256& key) const {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return std::nullopt;
  return found->second;
}

std::optional<BlockId> PrefixIndex::find(const Key256& key, std::span<const TokenId> wanted) const {
  const std::optional<BlockId> block = block_of(key);
  if (!block || !std::ranges::equal(tokens(*block), wanted)) return std::nullopt;
  return block;
}

bool PrefixIndex::insert(BlockId block, const Entry& entry, std::span<const TokenId> tokens) {
  CHECK(!published(block) && tokens.size() == static_cast<size_t>(block_tokens_));
  if (!by_key_.emplace(entry.key, block).second) return false;
  node(block).entry = entry;
  node(block).used = true;
  std::ranges::copy(tokens, tokens_.begin() + static_cast<std::ptrdiff_t>(block) * block_tokens_);
  link(block);
  ghosts_.erase(entry.key);
  return true;
}

void PrefixIndex::remove(BlockId block, const Eviction& why) {
  CHECK(published(block));
  const Key256 key = node(block).entry.key;
  by_key_.erase(key);
  unlink(block);
  node(block) = Node{};
  remember(key, why);
}

void PrefixIndex::move(BlockId from, BlockId to) {
  CHECK(published(from) && !published(to));
  by_key_[node(from).entry.key] = to;
  const Node moved = node(from);
  if (moved.next != kNoBlock) node(moved.next).previous = to;
  if (moved.previous != kNoBlock) {
    node(moved.previous).next = to;
  } else {
    children_[moved.entry.parent] = to;
  }
  node(to) = moved;
  node(from) = Node{};
  const auto size = static_cast<std::ptrdiff_t>(block_tokens_);
  std::copy_n(tokens_.begin() + from * size, size, tokens_.begin() + to * size);
}

BlockId PrefixIndex::first_child(const Key256& key) const {
  const auto first = children_.find(key);
  return first == children_.end() ? kNoBlock : first->second;
}

void PrefixIndex::link(BlockId block) {
  const auto [first, is_first] = children_.emplace(node(block).entry.parent, block);
  if (is_first) return;
  node(block).next = first->second;
  node(first->second).previous = block;
  first->second = block;
}

void PrefixIndex::unlink(BlockId block) {
  const Node& gone = node(block);
  if (gone.next != kNoBlock) node(gone.next).previous = gone.previous;
  if (gone.previous != kNoBlock) {
    node(gone.previous).next = gone.next;
  } else if (gone.next != kNoBlock) {
    children_[gone.entry.parent] = gone.next;
  } else {
    children_.erase(gone.entry.parent);
  }
}

void PrefixIndex::remember(const Key256& key, const Eviction& why) {
  ghosts_.insert_or_assign(key, why);
  ghost_order_.emplace_back(key, why.tick);
  while (ghost_order_.size() > nodes_.size()) {
    const auto ghost = ghosts_.find(ghost_order_.front().first);
    // One that came back and went again is remembered from then on.
    if (ghost != ghosts_.end() && ghost->second.tick == ghost_order_.front().second) ghosts_.erase(ghost);
    ghost_order_.pop_front();
  }
}

PrefixIndex::Agreement PrefixIndex::longest_agreement(const Key256& parent, std::span<const TokenId> wanted) const {
  Agreement best{first_child(parent), 0};
  for (BlockId child = best.block; child != kNoBlock; child = node(child).next) {
    const auto [end, unused] = std::ranges::mismatch(wanted, tokens(child));
    const std::int64_t agreed = end - wanted.begin();
    if (agreed > best.tokens) best = {child, agreed};
  }
  return best;
}

std::optional<PrefixIndex::Eviction> PrefixIndex::eviction_of(const Key256& key) const {
  const auto ghost = ghosts_.find(key);
  if (ghost == ghosts_.end()) return std::nullopt;
  return ghost->second;
}

bool PrefixIndex::well_formed() const {
  std::int64_t used = 0;
  std::int64_t linked = 0;
  for (BlockId block = 0; block < static_cast<BlockId>(nodes_.size()); ++block) {
    if (!published(block)) continue;
    ++used;
    if (block_of(entry(block).key) != block) return false;
  }
  for (const auto& [parent, first] : children_) {
    BlockId previous = kNoBlock;
    for (BlockId child = first; child != kNoBlock; previous = child, child = node(child).next) {
      if (!published(child) || entry(child).parent != parent || node(child).previous != previous) return false;
      if (++linked > used) return false;
    }
  }
  return used == size() && linked == used;
}

}  // namespace kvasir
