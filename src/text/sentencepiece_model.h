// tokenizer.model: what SentencePiece writes, a message of protocol buffers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/tokenizer_json.h"
#include "text/tokenizer_spec.h"

namespace kvasir {

struct SentencePieceTokenizer {
  TokenizerSpec spec;
  std::optional<std::string> bos_token;  // of the model; tokenizer_config.json may name others
  std::optional<std::string> eos_token;
};

// Gives the tokens that SentencePiece gives, but for these: control tokens are found in text where special tokens are
// parsed, a token that the user defined is always one, and scores are added in double precision. `config` says which
// tokens are added, and whether bos and eos go around a text: without it bos goes before those of BPE, and eos after
// those of unigram models, as llama.cpp has it. Throws Error for bytes that are damaged or beyond kMaxJsonBytes, and
// for models of words or characters.
SentencePieceTokenizer parse_sentencepiece_model(std::string_view bytes, const TokenizerConfig& config,
                                                 const std::string& where);

}  // namespace kvasir
