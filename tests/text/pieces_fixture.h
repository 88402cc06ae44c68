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

// pieces.json as a tokenizer.json of one of the forms in pieces_hf.json.
inline nlohmann::ordered_json pieces_json(const nlohmann::ordered_json& fixture, const nlohmann::ordered_json& form) {
  const GgufVocab vocab = pieces_vocab();
  nlohmann::ordered_json json = form["changes"];
  json["post_processor"] = fixture["post_processor"];
  json["model"] = {{"type", "BPE"},
                   {"unk_token", "<unk>"},
                   {"fuse_unk", true},
                   {"byte_fallback", true},
                   {"ignore_merges", form["ignore_merges"]}};
  for (size_t id = 0; id < vocab.tokens.size(); ++id) json["model"]["vocab"][vocab.tokens[id]] = id;
  json["model"]["merges"] = fixture["merges"];
  return json;
}

}  // namespace kvasir
