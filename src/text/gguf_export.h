// The vocabulary of a tokenizer.json as GGUF files carry it.
#pragma once

#include <filesystem>

#include "text/gguf_vocab.h"

namespace kvasir {

// Reads tokenizer.json and what lies beside it, as Tokenizer::load does, and gives a vocabulary of `size` tokens
// whose make_tokenizer() gives the same tokens: ids without a token become unused ones. Throws Error where GGUF has
// no name for the pre-tokenizer, or no place for what the tokenizer does. One thing it has no place for is let go: an
// added token is found wherever its text is, whatever its `normalized`, `lstrip`, `rstrip` and `single_word` say.
GgufVocab gguf_vocab_of(const std::filesystem::path& folder, int size);

}  // namespace kvasir
