// Tokens -> text, one token at a time, for streaming.
//
// A token may end in the middle of a UTF-8 character: its last bytes, at most three, are held back until the
// character is whole. Every string given out is valid UTF-8, and all of them together are what
// to_valid_utf8() makes of the whole: each invalid sequence becomes one U+FFFD.
//
// SentencePiece puts a space before a text, and decoding leaves it out again. An answer is no text of its own but
// goes on after its prompt, and there every space counts: hence Place.
#pragma once

#include <span>
#include <string>

#include "base/ids.h"
#include "text/tokenizer.h"

namespace kvasir {

class Detokenizer {
 public:
  // Whether the first token begins a text, or goes on with one.
  enum class Place { kBeginning, kInside };

  explicit Detokenizer(Tokenizer tokenizer, Tokenizer::SkipSpecials specials = Tokenizer::SkipSpecials::kSkip,
                       Place place = Place::kInside)
      : tokenizer_(std::move(tokenizer)),
        specials_(specials),
        leading_(place == Place::kBeginning ? tokenizer_.leading_spaces() : 0),
        to_drop_(leading_) {}

  // The text that is certain now that this token has come; often empty.
  std::string push(TokenId token);

  // What was held back, as U+FFFD. The detokenizer is then as new.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  Tokenizer::SkipSpecials specials_;
  int leading_;       // spaces to leave out at the beginning
  int to_drop_;       // of these, how many may still come
  std::string held_;  // the beginning of a character; never a whole one
};

// The text of all tokens at once: push() of each from the beginning, then finish().
std::string detokenize(const Tokenizer& tokenizer, std::span<const TokenId> tokens, Tokenizer::SkipSpecials specials);

}  // namespace kvasir
