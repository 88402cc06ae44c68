// Tokenizers in GGUF files: the tokenizer.* metadata, read and made.
#pragma once

#include <filesystem>
#include <vector>

#include "model/config.h"
#include "model/gguf/gguf_model.h"
#include "model/gguf/gguf_writer.h"
#include "text/gguf_vocab.h"
#include "text/tokenizer.h"

namespace kvasir {

// The tokenizer of a model: a GGUF file's own (see find_gguf), or the tokenizer.json of a folder. Throws Error.
Tokenizer load_tokenizer(const std::filesystem::path& model);

GgufVocab read_gguf_vocab(const GgufModel& model);

// The keys for a model that is converted: of a folder's tokenizer.json, or of a GGUF file, as they are there; without
// either, the word that there is none. All end tokens of the config are written, as far as GGUF has places for them.
std::vector<GgufOutKey> gguf_tokenizer_keys(const std::filesystem::path& model, const ModelSpec& config);

}  // namespace kvasir
