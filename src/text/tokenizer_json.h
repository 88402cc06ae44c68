// Reads tokenizer.json and tokenizer_config.json.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/tokenizer_spec.h"

namespace kvasir {

// Throws Error for JSON that is damaged, beyond the limits below, or describes a tokenizer that is neither byte-level
// BPE nor BPE of SentencePiece's spelling.
TokenizerSpec parse_tokenizer_json(std::string_view json, const std::string& where);

inline constexpr std::string_view kSupported = "supported are byte-level BPE, and BPE of SentencePiece's pieces";
inline constexpr TokenId kMaxVocab = 1 << 22;  // ids are below it
inline constexpr size_t kMaxJsonBytes = size_t{256} << 20;
inline constexpr size_t kMaxAddedTokenBytes = 1024;

struct TokenizerConfig {
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  std::optional<std::string> chat_template;  // the one named "default" where there are several
};

TokenizerConfig parse_tokenizer_config(std::string_view json, const std::string& where);

}  // namespace kvasir
