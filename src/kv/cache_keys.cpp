// How blocks are named: chains of keys under the tenant's secret, and one public chain for texts that all may share.
//
// A block wholly inside a public text, after nothing but that text, has a public name; all later ones are private.
// The first private block does not continue the public key but one derived from it under the tenant's secret, so that
// no tenant's blocks are found among the children of a public one.
//
// What stands before a text (OpenContext::after) is part of its root, and no such text is public.
#include <algorithm>
#include <array>
#include <string_view>

#include "kv/cache.h"

namespace kvasir {
namespace {

constexpr Key256 kPublicSecret{};

std::string_view as_text(const Key256& key) {
  return {reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size()};
}

Key256 derived(const Key256& secret, std::string_view purpose, const Key256& from) {
  const std::array<std::string_view, 2> parts{purpose, as_text(from)};
  return keyed_hash(secret, parts);
}

}  // namespace

Key256 KvCache::private_root(const LeaseState& state) const {
  const Key256 root = derived(state.tenant.secret, "kvasir root", policies_[state.policy].key);
  if (!state.after) return root;
  const std::array<std::string_view, 3> parts{"kvasir root after", as_text(root), as_text(*state.after)};
  return keyed_hash(state.tenant.secret, parts);
}

void KvCache::set_root_key(std::span<const TokenId> tokens, LeaseState& state) const {
  // Only the first policy's are computed before anybody asks: under another, a hit would tell that a tenant had
  // asked.
  const bool may_be_public = state.policy == 0 && !state.after;
  for (size_t i = 0; may_be_public && i < config_.public_texts.size(); ++i) {
    const auto [end, unused] = std::ranges::mismatch(tokens, config_.public_texts[i]);
    const std::int64_t blocks = (end - tokens.begin()) / config_.block_tokens;
    if (blocks <= state.public_blocks) continue;
    state.public_text = i;
    state.public_blocks = blocks;
  }
  state.root = state.public_blocks > 0 ? derived(kPublicSecret, "kvasir public root", policies_[state.policy].key)
                                       : private_root(state);
}

// The key that the block at `block_index` continues.
Key256 KvCache::parent_of(const LeaseState& state, std::span<const Key256> keys, std::int64_t block_index) {
  if (block_index == 0) return state.root;
  const Key256& before = keys[static_cast<size_t>(block_index) - 1];
  return block_index == state.public_blocks ? derived(state.tenant.secret, "kvasir private after", before) : before;
}

Key256 KvCache::key_of(const LeaseState& state, const Key256& parent, std::int64_t block_index,
                       std::span<const TokenId> tokens) {
  return chain_hash(block_index < state.public_blocks ? kPublicSecret : state.tenant.secret, parent, tokens);
}

// What is written may differ from what was asked for at open: a block is public only if its tokens are.
void KvCache::check_public(LeaseState& state, std::int64_t block_index) const {
  if (block_index >= state.public_blocks) return;
  const std::span<const TokenId> text = config_.public_texts[state.public_text];
  if (!std::ranges::equal(tokens_of_block(state.tokens, block_index), tokens_of_block(text, block_index)))
    end_public(state, block_index);
}

void KvCache::end_public(LeaseState& state, std::int64_t blocks) const {
  if (blocks >= state.public_blocks) return;
  state.public_blocks = blocks;
  if (blocks == 0) state.root = private_root(state);
}

}  // namespace kvasir
