// What every fuzzed tokenizer must do with any text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace kvasir {

// Encodes the text; ids are tokens, no chunk of the answer splits a character, and the chunks are the whole text's.
inline void use_tokenizer(const Tokenizer& tokenizer, std::string_view text) {
  for (const auto specials : {Tokenizer::Specials::kParse, Tokenizer::Specials::kPlain}) {
    Detokenizer detokenizer(tokenizer, Tokenizer::SkipSpecials::kKeep, Detokenizer::Place::kBeginning);
    std::string streamed;
    const std::vector<TokenId> ids = tokenizer.encode(text, specials);
    for (const TokenId id : ids) {
      CHECK(id >= 0 && id < tokenizer.vocab_size());
      const std::string chunk = detokenizer.push(id);
      CHECK(valid_run(chunk, 0) == chunk.size());
      streamed += chunk;
    }
    streamed += detokenizer.finish();
    CHECK(streamed == detokenize(tokenizer, ids, Tokenizer::SkipSpecials::kKeep));
  }
}

}  // namespace kvasir
