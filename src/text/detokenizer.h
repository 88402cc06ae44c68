// Tokens -> text, one token at a time, for streaming.
//
// A token may end in the middle of a UTF-8 character: its last bytes, at most three, are held back until the
// character is whole. Every string given out is valid UTF-8, and all of them together are what
// to_valid_utf8() makes of the whole: each invalid sequence becomes one U+FFFD.
#pragma once

#include <span>
#include <string>

#include "base/ids.h"
#include "text/tokenizer.h"

namespace kvasir {

class Detokenizer {
 public:
  explicit Detokenizer(Tokenizer tokenizer, Tokenizer::SkipSpecials specials = Tokenizer::SkipSpecials::kSkip)
      : tokenizer_(std::move(tokenizer)), specials_(specials) {}

  // The text that is certain now that this token has come; often empty.
  std::string push(TokenId token);

  // What was held back, as U+FFFD. The detokenizer is then as new.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  Tokenizer::SkipSpecials specials_;
  std::string held_;  // the beginning of a character; never a whole one
};

// The text of all tokens at once: push() of each, then finish().
std::string detokenize(const Tokenizer& tokenizer, std::span<const TokenId> tokens, Tokenizer::SkipSpecials specials);

}  // namespace kvasir
