// The SentencePiece vocabulary of fixtures/pieces.json, for tests of all folders.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/gguf_vocab.h"

namespace kvasir {

inline GgufVocab pieces_vocab() {
  std::ifstream file(std::filesystem::path(KVASIR_SOURCE_DIR) / "tests/text/fixtures/pieces.json");
  const auto fixture = nlohmann::json::parse(file);
  GgufVocab vocab;
  vocab.where = "pieces.json";
  vocab.model = "llama";
  vocab.tokens = fixture["tokens"].get<std::vector<std::string>>();
  vocab.scores = fixture["scores"].get<std::vector<float>>();
  vocab.token_type = fixture["token_type"].get<std::vector<std::int32_t>>();
  return vocab;
}

}  // namespace kvasir
