#include "grammar/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "grammar/code_points.h"

namespace kvasir::grammar {
namespace {

// How many plain characters: few tiers, since each costs a trie. One more is as long as the longest plain token:
// strings without a length limit use it, and those with one until they near it.
constexpr std::array<std::uint32_t, 5> kTierCharacters{0, 4, 8, 16, 32};

// The number of characters when all are whole and plain.
std::optional<std::uint32_t> plain_length(std::string_view bytes) {
  std::uint32_t count = 0;
  while (!bytes.empty()) {
    const std::optional<char32_t> character = take_utf8(bytes);
    if (!character || *character < 0x20 || *character == U'"' || *character == U'\\') return std::nullopt;
    ++count;
  }
  return count;
}

// REQUIRES: `order` is sorted by bytes, none of them empty.
TokenTrie make_trie(const std::vector<std::string>& tokens, const std::vector<TokenId>& order) {
  TokenTrie trie;
  std::vector<std::uint32_t> path;  // the nodes from the root to the last one made
  std::string_view last;
  const auto close_to = [&](std::size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      trie.nodes[path.back()].past = static_cast<std::uint32_t>(trie.nodes.size());
    }
  };
  for (const TokenId id : order) {
    const std::string_view bytes = tokens[static_cast<std::size_t>(id)];
    const auto common = static_cast<std::size_t>(std::ranges::mismatch(last, bytes).in1 - last.begin());
    close_to(common);
    for (std::size_t i = common; i < bytes.size(); ++i) {
      path.push_back(static_cast<std::uint32_t>(trie.nodes.size()));
      trie.nodes.push_back({0, static_cast<std::uint32_t>(trie.tokens.size()), static_cast<std::uint16_t>(i + 1),
                            static_cast<std::uint8_t>(bytes[i])});
    }
    trie.tokens.push_back(id);
    trie.max_depth = std::max(trie.max_depth, bytes.size());
    last = bytes;
  }
  close_to(0);
  trie.nodes.push_back({0, static_cast<std::uint32_t>(trie.tokens.size()), 0, 0});
  return trie;
}

void check_tokens(const std::vector<std::string>& tokens, const std::vector<TokenId>& ends) {
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id].size() < std::numeric_limits<std::uint16_t>::max()) continue;
    fail_input(fmt::format("token {} has {} bytes", id, tokens[id].size()), "vocabulary");
  }
  for (const TokenId end : ends) {
    if (end >= 0 && static_cast<std::size_t>(end) < tokens.size()) continue;
    fail_input(fmt::format("token {} is to end texts, but the vocabulary has {} tokens", end, tokens.size()),
               "vocabulary");
  }
}

}  // namespace

bool TokenSet::empty() const {
  return std::ranges::all_of(words_, [](std::uint64_t word) { return word == 0; });
}

std::size_t TokenSet::count() const {
  std::size_t sum = 0;
  for (const std::uint64_t word : words_) sum += static_cast<std::size_t>(std::popcount(word));
  return sum;
}

Vocabulary::Vocabulary(std::vector<std::string> tokens, std::vector<TokenId> ends)
    : tokens_(std::move(tokens)), ends_(std::move(ends)) {
  check_tokens(tokens_, ends_);
  std::ranges::sort(ends_);
  std::vector<TokenId> order;
  for (std::size_t id = 0; id < tokens_.size(); ++id) {
    if (!tokens_[id].empty() && !is_end(static_cast<TokenId>(id))) order.push_back(static_cast<TokenId>(id));
  }
  std::ranges::stable_sort(order, {}, [this](TokenId id) -> const std::string& { return bytes_of(id); });
  std::vector<std::optional<std::uint32_t>> lengths(tokens_.size());
  std::uint32_t longest = 0;
  for (const TokenId id : order) {
    const auto length = lengths[static_cast<std::size_t>(id)] = plain_length(bytes_of(id));
    longest = std::max(longest, length.value_or(0));
  }
  std::vector<std::uint32_t> cuts(kTierCharacters.begin(), kTierCharacters.end());
  std::erase_if(cuts, [longest](std::uint32_t cut) { return cut >= longest && cut > 0; });
  if (longest > 0) cuts.push_back(longest);
  for (const std::uint32_t characters : cuts) {
    Tier tier{characters, TokenSet(tokens_.size()), {}};
    std::vector<TokenId> rest;
    for (const TokenId id : order) {
      const std::optional<std::uint32_t> length = lengths[static_cast<std::size_t>(id)];
      if (length && *length <= characters) {
        tier.allowed.insert(id);
      } else {
        rest.push_back(id);
      }
    }
    tier.rest = make_trie(tokens_, rest);
    tiers_.push_back(std::move(tier));
  }
}

bool Vocabulary::is_end(TokenId token) const { return std::ranges::binary_search(ends_, token); }

const Vocabulary::Tier& Vocabulary::tier_for(std::uint32_t run) const {
  const Tier* best = &tiers_.front();
  for (const Tier& tier : tiers_) {
    if (tier.characters <= run) best = &tier;
  }
  return *best;
}

}  // namespace kvasir::grammar
