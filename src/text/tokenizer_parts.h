// The parts of tokenizer.json that have a "type" and nest: normalizer, pre_tokenizer, post_processor,
// decoder. A type that is not known here is an Error: skipping it would give other tokens.
#pragma once

#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/json_reader.h"
#include "text/tokenizer_spec.h"

namespace kvasir {

struct Surroundings {
  std::vector<TokenId> before;
  std::vector<TokenId> after;
};

std::vector<NormalizerStep> read_normalizer(const JsonReader& normalizer);
std::vector<Pretokenizer::Step> read_pretokenizer(const JsonReader& pretokenizer, Spelling spelling);
Surroundings read_post_processor(const JsonReader& processor);

// Whether it, or one of its parts, is of this type.
bool has_part(const JsonReader& part, std::string_view type);

// Checks that the decoder undoes the spelling, and notes how.
void read_decoder(const JsonReader& decoder, TokenizerSpec& spec);

}  // namespace kvasir
