// What Tokenizer::load reads, before a tokenizer is made of it.
#pragma once

#include <filesystem>
#include <string>

#include "text/tokenizer_json.h"
#include "text/tokenizer_spec.h"

namespace kvasir {

struct TokenizerSource {
  std::string where;  // the file
  TokenizerSpec spec;
  TokenizerConfig config;
  std::string chat_template_where;
};

// As Tokenizer::load says.
TokenizerSource read_tokenizer(const std::filesystem::path& model_dir_or_file);

}  // namespace kvasir
