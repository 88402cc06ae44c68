// Tokens -> text, one token at a time, for streaming.
//
// A token may end in the middle of a UTF-8 character: its last bytes, at most three, are held back until the
// character is whole. Every string given out is valid UTF-8, and all of them together are what
// to_valid_utf8() makes of the whole: each invalid sequence becomes one U+FFFD.
//
// SentencePiece puts a space before a text, and decoding leaves it out again; other decoders treat the first token in
// ways of their own. An answer is no text of its own but goes on after its prompt, and there every space counts:
// hence Place. Some decoders treat the end of a text in their own way too: what that could change is held back as
// well.
#pragma once

#include <span>
#include <string>

#include "base/ids.h"
#include "text/decode_stream.h"
#include "text/tokenizer.h"

namespace kvasir {

class Detokenizer {
 public:
  // Whether the first token begins a text, or goes on with one.
  enum class Place { kBeginning, kInside };

  explicit Detokenizer(Tokenizer tokenizer, Tokenizer::SkipSpecials specials = Tokenizer::SkipSpecials::kSkip,
                       Place place = Place::kInside)
      : stream_(std::move(tokenizer), specials,
                place == Place::kBeginning ? TextStream::Begins::kHere : TextStream::Begins::kEarlier) {}

  // The text that is certain now that this token has come; often empty.
  std::string push(TokenId token);

  // What was held back, what is no whole character as U+FFFD. The detokenizer is then as new.
  std::string finish();

 private:
  // Gives out what of held_ is certain.
  std::string certain();

  DecodeStream stream_;
  std::string held_;  // between calls: the beginning of a character; never a whole one
};

// The text of all tokens at once: push() of each from the beginning, then finish().
std::string detokenize(const Tokenizer& tokenizer, std::span<const TokenId> tokens, Tokenizer::SkipSpecials specials);

}  // namespace kvasir
