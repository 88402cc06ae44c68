#include "text/word_models.h"

#include "base/check.h"
#include "text/utf8.h"

namespace kvasir {
namespace {

struct Longest {
  TokenId id = -1;
  size_t size = 0;
};

// The longest string below `from` that the text begins with.
Longest longest_prefix(const ByteTrie& trie, ByteTrie::Node from, std::string_view text) {
  Longest best;
  for (size_t size = 0; size < text.size();) {
    from = trie.step(from, text[size++]);
    if (from == ByteTrie::kNone) break;
    if (trie.value(from) >= 0) best = {trie.value(from), size};
  }
  return best;
}

bool has_more_characters(std::string_view text, size_t most) {
  if (text.size() <= most) return false;
  size_t count = 0;
  for (size_t at = 0; at < text.size(); at += static_cast<size_t>(utf8_at(text, at).size)) {
    if (++count > most) return true;
  }
  return false;
}

}  // namespace

WordPiece::WordPiece(TokenTexts pieces, Rules rules)
    : trie_(std::move(pieces)),
      rules_(std::move(rules)),
      inside_(trie_.walk(ByteTrie::kRoot, rules_.continuing_prefix)) {
  CHECK(rules_.unknown >= 0);
}

void WordPiece::encode_word(std::string_view word, std::vector<TokenId>& out) const {
  const size_t before = out.size();
  const auto unknown = [&] {
    out.resize(before);
    out.push_back(rules_.unknown);
  };
  if (has_more_characters(word, rules_.most_characters)) return unknown();
  for (size_t at = 0; at < word.size();) {
    const ByteTrie::Node from = at == 0 ? ByteTrie::kRoot : inside_;
    const Longest piece = from == ByteTrie::kNone ? Longest{} : longest_prefix(trie_, from, word.substr(at));
    if (piece.id < 0) return unknown();
    out.push_back(piece.id);
    at += piece.size;
  }
}

void WordLevel::encode_word(std::string_view word, std::vector<TokenId>& out) const {
  const ByteTrie::Node node = trie_.walk(ByteTrie::kRoot, word);
  const TokenId id = node == ByteTrie::kNone ? -1 : trie_.value(node);
  out.push_back(id >= 0 ? id : unknown_);
}

void Greedy::encode_word(std::string_view word, std::vector<TokenId>& out) const {
  for (size_t at = 0; at < word.size();) {
    const Longest token = longest_prefix(trie_, ByteTrie::kRoot, word.substr(at));
    const TokenId id = token.id >= 0 ? token.id : unknown_;
    if (id >= 0) out.push_back(id);
    at += token.id >= 0 ? token.size : 1;
  }
}

}  // namespace kvasir
