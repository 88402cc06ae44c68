// Reads tokenizer.json and tokenizer_config.json.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/tokenizer_spec.h"

namespace kvasir {

// Throws Error for JSON that is damaged, beyond the limits below, or has a part that is not understood.
TokenizerSpec parse_tokenizer_json(std::string_view json, const std::string& where);

inline constexpr std::string_view kSupported = "supported are BPE, Unigram, WordPiece and WordLevel";
inline constexpr TokenId kMaxVocab = 1 << 22;  // ids are below it
inline constexpr size_t kMaxJsonBytes = size_t{256} << 20;
inline constexpr size_t kMaxAddedTokenBytes = 1024;

struct TokenizerConfig {
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  std::optional<std::string> chat_template;  // the one named "default" where there are several

  // What only a tokenizer.model needs: a tokenizer.json has these itself.
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
  std::vector<AddedToken> added;  // added_tokens_decoder
};

TokenizerConfig parse_tokenizer_config(std::string_view json, const std::string& where);

}  // namespace kvasir
