// Tokens -> bytes, one token at a time: all that a decoder does.
#pragma once

#include <string>

#include "base/ids.h"
#include "text/decoder.h"
#include "text/tokenizer.h"

namespace kvasir {

class DecodeStream {
 public:
  using Begins = TextStream::Begins;

  DecodeStream(Tokenizer tokenizer, Tokenizer::SkipSpecials specials, Begins begins);

  // Appends the bytes that are certain now that this token has come.
  void push(TokenId token, std::string& out);

  // Appends what was held back. The stream is then as new.
  void finish(std::string& out);

 private:
  void give(std::string_view text, std::string& out);
  std::string text_of(TokenId token, Decoder::Place place) const;

  Tokenizer tokenizer_;
  Tokenizer::SkipSpecials specials_;
  Begins begins_;
  TextStream text_;
  bool begun_;         // whether a token has come, or came before this stream
  TokenId held_ = -1;  // where the last token is unlike others: it could be this one
  TokenId newest_ = -1;
};

}  // namespace kvasir
