// What the tests of text/ share: fixtures, the shipped tokenizer, and a small tokenizer.json to change.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "text/byte_level.h"
#include "text/gguf_vocab.h"
#include "text/pieces.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace kvasir {

inline std::filesystem::path fixtures() { return std::filesystem::path(KVASIR_SOURCE_DIR) / "tests/text/fixtures"; }
inline std::filesystem::path tales() { return std::filesystem::path(KVASIR_SOURCE_DIR) / "models/tales"; }

inline nlohmann::ordered_json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::ordered_json::parse(file);
}

// Byte-level BPE with all 256 bytes (ids 0…255, by byte), the merges "h e", "l l", "he ll", "Ġ hell" and "a
// a", and the special tokens <s> and <end>.
inline nlohmann::ordered_json small_tokenizer_json() {
  nlohmann::ordered_json vocab;
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string spelled;
    append_utf8(spelled, byte_to_char(static_cast<unsigned char>(byte)));
    vocab[spelled] = byte;
  }
  vocab["he"] = 256;
  vocab["ll"] = 257;
  vocab["hell"] = 258;
  vocab["Ġhell"] = 259;
  vocab["aa"] = 260;
  return {{"version", "1.0"},
          {"added_tokens",
           {{{"id", 261}, {"content", "<s>"}, {"special", true}},
            {{"id", 262}, {"content", "<end>"}, {"special", true}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"vocab", vocab},
            {"merges", {"h e", "l l", "he ll", "Ġ hell", "a a"}},
            {"unk_token", nullptr}}}};
}

inline Tokenizer make(const nlohmann::ordered_json& json) { return Tokenizer::from_json(json.dump(), "test.json"); }

// SentencePiece, as a GGUF file has it: <unk>, <s>, </s>, the 256 bytes, and a few pieces, the best scores first.
inline GgufVocab small_spm_vocab() {
  GgufVocab vocab;
  vocab.where = "small.gguf";
  vocab.model = "llama";
  const auto add = [&](std::string text, float score, GgufVocab::Type type) {
    vocab.tokens.push_back(std::move(text));
    vocab.scores.push_back(score);
    vocab.token_type.push_back(type);
  };
  add("<unk>", 0, GgufVocab::kUnknown);
  add("<s>", 0, GgufVocab::kControl);
  add("</s>", 0, GgufVocab::kControl);
  for (unsigned byte = 0; byte < 256; ++byte) add(byte_piece(static_cast<unsigned char>(byte)), 0, GgufVocab::kByte);
  float score = 0;
  for (const char* piece : {"▁▁", "he", "ll", "hell", "▁hell", "aa", "lo", "s>", "▁", "h",   "e",   "l", "o",
                            "a",  "<",  "s",  ">",    "中",    "\"", "{",  "}",  ":", "▁\"", "\":", ","}) {
    add(piece, score, GgufVocab::kNormal);
    score -= 1;
  }
  add("<user>", 0, GgufVocab::kUserDefined);
  return vocab;
}

// The tokens of small_tokenizer_json() as a GGUF file has them, some digits, and <user>.
inline GgufVocab small_bpe_vocab() {
  GgufVocab vocab;
  vocab.where = "small.gguf";
  vocab.model = "gpt2";
  for (unsigned byte = 0; byte < 256; ++byte) {
    vocab.tokens.emplace_back();
    append_utf8(vocab.tokens.back(), byte_to_char(static_cast<unsigned char>(byte)));
  }
  vocab.tokens.insert(vocab.tokens.end(), {"he", "ll", "hell", "Ġhell", "aa", "11", "111", "<s>", "<user>"});
  vocab.token_type.assign(vocab.tokens.size(), GgufVocab::kNormal);
  vocab.token_type.end()[-2] = GgufVocab::kControl;
  vocab.token_type.end()[-1] = GgufVocab::kUserDefined;
  vocab.merges = {"h e", "l l", "he ll", "Ġ hell", "a a", "1 1"};
  vocab.bos_token_id = static_cast<std::int64_t>(vocab.tokens.size()) - 2;
  return vocab;
}

inline bool is_valid_utf8(std::string_view text) { return valid_run(text, 0) == text.size(); }

}  // namespace kvasir
