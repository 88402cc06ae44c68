// The pre-tokenizers that GGUF files name in tokenizer.ggml.pre.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/pretokenizer.h"

namespace kvasir {

// What goes with such a name.
struct GgufPretokenizer {
  std::vector<Pretokenizer::Step> steps;
  bool ignore_merges = false;  // a word that is a token is that token
  bool add_bos = false;        // unless the file says otherwise
};

std::vector<std::string_view> known_gguf_pretokenizers();

// Throws Error for a name that is not known, naming those that are, as many as fit. The name "" is "default". `where`
// names the file.
GgufPretokenizer gguf_pretokenizer(std::string_view name, const std::string& where);

// The name of one that does the same, whatever it says of bos; "" where there is none.
std::string_view gguf_pretokenizer_name(const std::vector<Pretokenizer::Step>& steps, bool ignore_merges);

}  // namespace kvasir
