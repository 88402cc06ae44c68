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
  std::vector<PairPart> pair;  // empty: nothing but ByteLevel said anything
};

// normalizer_parts.cpp
std::vector<NormalizerStep> read_normalizer(const JsonReader& normalizer);

// pretokenizer_parts.cpp. With Spelling::kByteLevel, ByteLevel leaves the bytes as they are: the model spells them.
std::vector<Pretokenizer::Step> read_pretokenizer(const JsonReader& pretokenizer, Spelling spelling);
// Whether ByteLevel is the last part, and nothing else before it is.
bool ends_in_byte_level(const JsonReader& pretokenizer);

// decoder_parts.cpp
std::vector<DecodeStep> read_decoder(const JsonReader& decoder);

// tokenizer_parts.cpp
Surroundings read_post_processor(const JsonReader& processor);

// begin A separator B separator, as BERT has it, or with two separators between and one type, as RoBERTa has it.
enum class Separated : std::uint8_t { kOnceTyped, kTwice };
std::vector<PairPart> separated_pair(TokenId begin, TokenId separator, Separated how);

}  // namespace kvasir
