#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <queue>

#include "base/check.h"
#include "text/utf8.h"

namespace kvasir {
namespace {

// Below this many symbols a scan over all pairs is faster than a queue.
constexpr size_t kShortWord = 48;

constexpr std::uint64_t pair_of(TokenId left, TokenId right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

// splitmix64's finaliser: pairs of small numbers spread over the whole table.
constexpr std::uint64_t spread(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

struct Candidate {
  std::int32_t rank;
  std::int32_t at;      // of the left symbol
  TokenId left, right;  // as they were when this was queued: it is stale when they changed

  // For a queue that gives the lowest rank first, then the leftmost.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  }
};

}  // namespace

MergeTable::MergeTable(size_t merges) : slots_(std::bit_ceil(merges * 2 + 1)) {}

size_t MergeTable::slot_of(std::uint64_t pair) const {
  const size_t mask = slots_.size() - 1;
  size_t at = spread(pair) & mask;
  while (slots_[at].merge.rank >= 0 && slots_[at].pair != pair) at = (at + 1) & mask;
  return at;
}

void MergeTable::insert(TokenId left, TokenId right, Merge merge) {
  CHECK(merge.rank >= 0);
  const std::uint64_t pair = pair_of(left, right);
  slots_[slot_of(pair)] = {pair, merge};
}

MergeTable::Merge MergeTable::find(TokenId left, TokenId right) const {
  return slots_[slot_of(pair_of(left, right))].merge;
}

// The symbols of a word as they are found. As in the Hugging Face library, an unknown token waits for the next known
// character or the end: bytes of characters in between come before it.
class Bpe::Symbols {
 public:
  Symbols(const Alphabet& alphabet, size_t most) : alphabet_(alphabet) { symbols_.reserve(most); }

  void add(TokenId token) {
    flush();
    symbols_.push_back(token);
  }

  void add_byte(unsigned char byte) {
    if (alphabet_.bytes[byte] >= 0) {
      add(alphabet_.bytes[byte]);
    } else {
      add_unknown();
    }
  }

  // All of the bytes, or one unknown token for all of them.
  void add_bytes(std::string_view bytes) {
    const auto token_of = [&](char c) { return alphabet_.bytes[static_cast<unsigned char>(c)]; };
    if (std::ranges::all_of(bytes, [&](char c) { return token_of(c) >= 0; })) {
      for (const char c : bytes) symbols_.push_back(token_of(c));
    } else {
      add_unknown();
    }
  }

  std::vector<TokenId> take() {
    flush();
    return std::move(symbols_);
  }

 private:
  void add_unknown() {
    if (!alphabet_.fuse_unknown) flush();
    waiting_ = alphabet_.unknown.has_value();
  }

  void flush() {
    if (waiting_) symbols_.push_back(*alphabet_.unknown);
    waiting_ = false;
  }

  const Alphabet& alphabet_;
  std::vector<TokenId> symbols_;
  bool waiting_ = false;  // an unknown token
};

std::vector<TokenId> Bpe::symbols_of(std::string_view word) const {
  Symbols symbols(alphabet_, word.size());
  if (!alphabet_.characters) {
    for (const char c : word) symbols.add_byte(static_cast<unsigned char>(c));
    return symbols.take();
  }
  for (size_t at = 0; at < word.size();) {
    const Utf8Char c = utf8_at(word, at);
    const auto size = static_cast<size_t>(c.size);
    const int place = (at > 0 ? kContinues : 0) | (at + size == word.size() ? kEnds : 0);
    const auto& known = (*alphabet_.characters)[static_cast<size_t>(place)];
    const auto found = known.find(c.code);
    if (c.kind == Utf8Char::Kind::kWhole && found != known.end()) {
      symbols.add(found->second);
    } else if (alphabet_.affixes.prefix.empty() && alphabet_.affixes.suffix.empty()) {
      symbols.add_bytes(word.substr(at, size));
    } else {
      const Affixes& affixes = alphabet_.affixes;
      symbols.add_bytes(
          std::string(affixes.before(place)).append(word.substr(at, size)).append(affixes.after(place)));
    }
    at += size;
  }
  return symbols.take();
}

void Bpe::merge_short(std::vector<TokenId>& symbols) const {
  // merges[i] is that of symbols i and i + 1.
  std::vector<MergeTable::Merge> merges(symbols.size());
  for (size_t i = 0; i + 1 < symbols.size(); ++i) merges[i] = merges_.find(symbols[i], symbols[i + 1]);
  while (symbols.size() > 1) {
    size_t best = symbols.size();
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      if (merges[i].rank >= 0 && (best == symbols.size() || merges[i].rank < merges[best].rank)) best = i;
    }
    if (best == symbols.size()) return;
    symbols[best] = merges[best].result;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    merges.erase(merges.begin() + static_cast<std::ptrdiff_t>(best));
    if (best > 0) merges[best - 1] = merges_.find(symbols[best - 1], symbols[best]);
    if (best + 1 < symbols.size()) merges[best] = merges_.find(symbols[best], symbols[best + 1]);
  }
}

void Bpe::merge_long(std::vector<TokenId>& symbols) const {
  constexpr TokenId kGone = -1;
  const auto size = static_cast<std::int32_t>(symbols.size());
  std::vector<std::int32_t> previous(symbols.size());
  std::vector<std::int32_t> next(symbols.size());  // size: none
  for (std::int32_t i = 0; i < size; ++i) {
    previous[i] = i - 1;
    next[i] = i + 1;
  }
  std::priority_queue<Candidate> queue;
  const auto consider = [&](std::int32_t left) {
    if (left < 0 || next[left] >= size) return;
    const std::int32_t right = next[left];
    const MergeTable::Merge merge = merges_.find(symbols[left], symbols[right]);
    if (merge.rank >= 0) queue.push({merge.rank, left, symbols[left], symbols[right]});
  };
  for (std::int32_t i = 0; i + 1 < size; ++i) consider(i);

  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    const std::int32_t right = next[top.at];
    if (symbols[top.at] != top.left || right >= size || symbols[right] != top.right) continue;
    symbols[top.at] = merges_.find(top.left, top.right).result;
    symbols[right] = kGone;
    next[top.at] = next[right];
    if (next[right] < size) previous[next[right]] = top.at;
    consider(previous[top.at]);
    consider(top.at);
  }
  std::erase(symbols, kGone);
}

void Bpe::encode_word(std::string_view word, std::vector<TokenId>& out) const {
  std::vector<TokenId> symbols = symbols_of(word);
  if (symbols.size() < kShortWord) {
    merge_short(symbols);
  } else {
    merge_long(symbols);
  }
  out.insert(out.end(), symbols.begin(), symbols.end());
}

}  // namespace kvasir
