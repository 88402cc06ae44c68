// Added tokens: strings that are found in the text before anything else is done to it, the special ones among
// them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "text/text_range.h"

namespace kvasir {

// One entry of tokenizer.json's added_tokens; the fields mean what they mean there.
struct AddedToken {
  std::string content;
  TokenId id = -1;
  bool special = false;
  bool single_word = false;  // only between characters that are not of words
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and after it
  bool normalized = false;   // is looked for in the normalized text
};

// A stretch of the text: one added token, or text between them.
struct AddedSplit {
  TextRange range;
  std::optional<TokenId> token;
};

// Finds the leftmost, then the longest of a set of added tokens. Constant after construction.
class AddedTokenFinder {
 public:
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  // The whole text as a row of splits. A special token that lies in a plain range, or partly so, is text.
  // `plain` is ascending and its ranges do not touch.
  std::vector<AddedSplit> split(std::string_view text, std::span<const TextRange> plain) const;

  bool empty() const { return tokens_.empty(); }

 private:
  struct Match {
    const AddedToken* token = nullptr;
    size_t end = 0;
  };
  enum class Overlap : std::uint8_t { kNone, kPart, kWhole };
  class PlainCursor;

  // Calls `visit` with every token that begins at `at`, shortest first.
  template <class Visit>
  void visit_at(std::string_view text, size_t at, Visit visit) const;
  std::optional<Match> next_at(std::string_view text, size_t& at, PlainCursor& plain) const;

  std::vector<AddedToken> tokens_;  // sorted by content
  std::array<std::uint32_t, 257>
      first_with_byte_;  // tokens_[first_with_byte_[b] … first_with_byte_[b + 1]) begin with b
};

}  // namespace kvasir
