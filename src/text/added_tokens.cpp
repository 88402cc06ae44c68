#include "text/added_tokens.h"

#include <algorithm>

#include "text/char_class.h"
#include "text/utf8.h"

namespace kvasir {
namespace {

// The tests are those of Rust's regex library, which decides here in the Hugging Face library.
bool whole_and(bool (*test)(char32_t), Utf8Char c) { return c.kind == Utf8Char::Kind::kWhole && test(c.code); }

bool stands_alone(std::string_view text, TextRange range) {
  const bool word_before = range.begin > 0 && whole_and(is_word_char, utf8_before(text, range.begin));
  const bool word_after = range.end < text.size() && whole_and(is_word_char, utf8_at(text, range.end));
  return !word_before && !word_after;
}

size_t spaces_begin(std::string_view text, size_t end, size_t floor) {
  while (end > floor) {
    const Utf8Char c = utf8_before(text, end);
    if (!whole_and(is_white_space, c)) break;
    end -= static_cast<size_t>(c.size);
  }
  return std::max(end, floor);
}

size_t spaces_end(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const Utf8Char c = utf8_at(text, begin);
    if (!whole_and(is_white_space, c)) break;
    begin += static_cast<size_t>(c.size);
  }
  return begin;
}

}  // namespace

// Says how a range lies to the plain ranges; asked from left to right.
class AddedTokenFinder::PlainCursor {
 public:
  explicit PlainCursor(std::span<const TextRange> plain) : plain_(plain) {}

  Overlap overlap(TextRange range) {
    while (!plain_.empty() && plain_.front().end <= range.begin) plain_ = plain_.subspan(1);
    if (plain_.empty() || plain_.front().begin >= range.end) return Overlap::kNone;
    const bool whole = plain_.front().begin <= range.begin && plain_.front().end >= range.end;
    return whole ? Overlap::kWhole : Overlap::kPart;
  }

 private:
  std::span<const TextRange> plain_;  // what is left of it
};

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)), first_with_byte_{} {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.content.empty(); });
  std::ranges::sort(tokens_, {}, &AddedToken::content);
  size_t at = 0;
  for (unsigned byte = 0; byte <= 256; ++byte) {
    while (at < tokens_.size() && static_cast<unsigned char>(tokens_[at].content[0]) < byte) ++at;
    first_with_byte_[byte] = static_cast<std::uint32_t>(at);
  }
}

template <class Visit>
void AddedTokenFinder::visit_at(std::string_view text, size_t at, Visit visit) const {
  const auto first = static_cast<unsigned char>(text[at]);
  auto low = tokens_.begin() + first_with_byte_[first];
  auto high = tokens_.begin() + first_with_byte_[first + 1U];
  // [low, high) are the tokens that agree with the text on its first `depth` bytes; one of that very length
  // is first.
  for (size_t depth = 1; low != high; ++depth) {
    if (low->content.size() == depth) {
      visit(Match{&*low, at + depth});
      ++low;
    }
    if (at + depth >= text.size()) return;
    const auto wanted = static_cast<unsigned char>(text[at + depth]);
    const auto byte_of = [depth](const AddedToken& token) {
      return static_cast<unsigned char>(token.content[depth]);
    };
    low = std::partition_point(low, high, [&](const AddedToken& token) { return byte_of(token) < wanted; });
    high = std::partition_point(low, high, [&](const AddedToken& token) { return byte_of(token) == wanted; });
  }
}

// The longest token that begins at `at` and may be one. Where there is none, moves `at` to where to look
// next.
std::optional<AddedTokenFinder::Match> AddedTokenFinder::next_at(std::string_view text, size_t& at,
                                                                 PlainCursor& plain) const {
  std::optional<Match> allowed;
  std::optional<Match> refused;  // a special token that is all plain text
  visit_at(text, at, [&](const Match& match) {
    const Overlap overlap = match.token->special ? plain.overlap({at, match.end}) : Overlap::kNone;
    if (overlap == Overlap::kNone) allowed = match;
    if (overlap == Overlap::kWhole) refused = match;
  });
  // As in the Hugging Face library, a special token read as text also hides the shorter ones inside it.
  if (refused && (!allowed || allowed->end < refused->end)) {
    at = refused->end;
    return std::nullopt;
  }
  if (!allowed) ++at;
  return allowed;
}

std::vector<AddedSplit> AddedTokenFinder::split(std::string_view text, std::span<const TextRange> plain) const {
  std::vector<AddedSplit> splits;
  PlainCursor cursor(plain);
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (first_with_byte_[byte] == first_with_byte_[byte + 1U]) {
      ++at;
      continue;
    }
    const std::optional<Match> match = next_at(text, at, cursor);
    if (!match) continue;
    const AddedToken& token = *match->token;
    TextRange range{at, match->end};
    at = match->end;
    if (token.single_word && !stands_alone(text, range)) continue;
    if (token.lstrip) range.begin = spaces_begin(text, range.begin, done);
    if (token.rstrip) range.end = spaces_end(text, range.end);
    if (done < range.begin) splits.push_back({{done, range.begin}, std::nullopt});
    splits.push_back({range, token.id});
    done = std::max(done, range.end);
    at = std::max(at, done);
  }
  if (done < text.size()) splits.push_back({{done, text.size()}, std::nullopt});
  return splits;
}

}  // namespace kvasir
