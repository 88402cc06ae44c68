// The tokens of an answer beside its text, with what the model thought of them.
//
// A token is given out with the first text that has a part of it. So a token that is a piece of a character comes
// with the whole character, and one that a stop string cut off altogether never comes.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "sample/logprobs.h"
#include "text/tokenizer.h"

namespace kvasir {

struct TokenChance {
  std::string bytes;  // may be a piece of a character
  float logprob = 0;
};

struct AnswerToken {
  TokenChance chosen;
  std::vector<TokenChance> top;  // likeliest first
  std::int64_t offset = 0;       // characters of the answer before its own
};

// Some more of an answer.
struct AnswerPiece {
  std::string text;
  std::vector<AnswerToken> tokens{};  // only where probabilities were asked for

  bool empty() const { return text.empty() && tokens.empty(); }
  size_t held_bytes() const;  // about what a writer that keeps it takes
  AnswerPiece& operator+=(AnswerPiece more);
};

AnswerToken describe_token(const Tokenizer& tokenizer, TokenId token, const TokenLogprobs& logprobs);

class PendingTokens {
 public:
  // A token came, and made `text` certain: valid UTF-8, perhaps empty.
  void push(AnswerToken token, std::string_view text);

  std::vector<AnswerToken> take(std::string_view given);  // those that this text, given out next, has a part of
  std::vector<AnswerToken> take_all();

 private:
  struct Pending {
    size_t begin;  // in the bytes of the answer's text
    AnswerToken token;
  };

  std::deque<Pending> pending_;
  size_t made_ = 0;   // bytes of text that the tokens made
  size_t given_ = 0;  // of which so many were given out
  std::int64_t characters_ = 0;
};

}  // namespace kvasir
