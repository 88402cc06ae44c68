// How blocks are named: chains of keys under the tenant's secret, and one public chain for texts that all may share.
//
// A block wholly inside a public text, after nothing but that text, has a public name; all later ones are private.
// The first private block does not continue the public key but one derived from it under the tenant's secret, so that
// no tenant's blocks are found among the children of a public one.
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

void KvCache::name_roots(std::span<const TokenId> tokens, LeaseState& state) const {
  // Only the first policy's are computed before anybody asks: under another, a hit would tell that a tenant had
  // asked.
  for (size_t i = 0; state.policy == 0 && i < config_.public_texts.size(); ++i) {
    const auto [end, unused] = std::ranges::mismatch(tokens, config_.public_texts[i]);
    const std::int64_t slots = (end - tokens.begin()) / config_.block_tokens;
    if (slots <= state.public_slots) continue;
    state.public_text = i;
    state.public_slots = slots;
  }
  state.root = state.public_slots > 0 ? derived(kPublicSecret, "kvasir public root", policies_[state.policy].key)
                                      : derived(state.tenant.secret, "kvasir root", policies_[state.policy].key);
}

// The key that the block at `slot` continues.
Key256 KvCache::parent_of(const LeaseState& state, std::span<const Key256> keys, std::int64_t slot) {
  if (slot == 0) return state.root;
  const Key256& before = keys[static_cast<size_t>(slot) - 1];
  return slot == state.public_slots ? derived(state.tenant.secret, "kvasir private after", before) : before;
}

Key256 KvCache::name_of(const LeaseState& state, const Key256& parent, std::int64_t slot,
                        std::span<const TokenId> tokens) {
  return chain_hash(slot < state.public_slots ? kPublicSecret : state.tenant.secret, parent, tokens);
}

// What is written may differ from what was asked for at open: a block is public only if its tokens are.
void KvCache::check_public(LeaseState& state, std::int64_t slot) const {
  if (slot >= state.public_slots) return;
  const std::span<const TokenId> text = config_.public_texts[state.public_text];
  if (!std::ranges::equal(slot_tokens(state.tokens, slot), slot_tokens(text, slot))) end_public(state, slot);
}

void KvCache::end_public(LeaseState& state, std::int64_t slots) const {
  if (slots >= state.public_slots) return;
  state.public_slots = slots;
  if (slots == 0) state.root = derived(state.tenant.secret, "kvasir root", policies_[state.policy].key);
}

}  // namespace kvasir
