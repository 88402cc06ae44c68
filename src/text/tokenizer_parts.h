// The parts of tokenizer.json that have a "type" and nest: normalizer, pre_tokenizer, post_processor,
// decoder. A type that is not known here is an Error: skipping it would give other tokens.
#pragma once

#include <vector>

#include "base/ids.h"
#include "text/json_reader.h"
#include "text/tokenizer_spec.h"

namespace kvasir {

struct Surroundings {
  std::vector<TokenId> before;
  std::vector<TokenId> after;
};

std::vector<NormalizerStep> read_normalizer(const JsonRef& normalizer);
std::vector<Pretokenizer::Step> read_pretokenizer(const JsonRef& pretokenizer, Spelling spelling);
Surroundings read_post_processor(const JsonRef& processor);

// Checks that the decoder undoes the spelling, and gives how many spaces it takes from the beginning of a text.
int read_decoder(const JsonRef& decoder, Spelling spelling);

}  // namespace kvasir
