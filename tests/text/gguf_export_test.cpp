// A tokenizer.json as a GGUF vocabulary: read back, it gives the tokens that Hugging Face gives.
#include "text/gguf_export.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "pieces_fixture.h"
#include "text/base64.h"
#include "text_test_util.h"

namespace kvasir {
namespace {

class GgufExport : public ::testing::Test {
 protected:
  GgufExport() { std::filesystem::create_directories(folder_); }
  ~GgufExport() override { std::filesystem::remove_all(folder_); }

  GgufVocab vocab_of(const nlohmann::ordered_json& tokenizer, int size) {
    std::ofstream(folder_ / "tokenizer.json") << tokenizer.dump();
    return gguf_vocab_of(folder_, size);
  }
  std::string refusal(const nlohmann::ordered_json& tokenizer, int size) {
    try {
      vocab_of(tokenizer, size);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("kvasir_export_" + std::to_string(::getpid()));
};

TEST_F(GgufExport, GivesTheTokensOfHuggingFace) {
  const std::pair<const char*, const char*> named[] = {
      {"hf_gpt2", "gpt-2"}, {"hf_llama3", "dbrx"}, {"hf_smollm", "starcoder"}};
  for (const auto& [fixture, pre] : named) {
    const auto golden = read_json(fixtures() / (std::string(fixture) + ".json"));
    const GgufVocab vocab = vocab_of(golden["tokenizer"], 1000);
    EXPECT_EQ(vocab.pre, pre);
    EXPECT_EQ(vocab.tokens.size(), 1000U);
    EXPECT_EQ(vocab.tokens[999], "[PAD999]");
    EXPECT_EQ(vocab.token_type[999], GgufVocab::kUnused);
    const Tokenizer tokenizer = make_tokenizer(vocab);
    for (const auto& one : golden["cases"]) {
      const std::string text = one["text"];
      EXPECT_EQ(tokenizer.encode_document(text, Tokenizer::Specials::kParse), one["ids"].get<std::vector<TokenId>>())
          << fixture << ": " << text;
    }
  }
}

TEST_F(GgufExport, SentencePieceMergesBecomeScores) {
  const auto fixture = read_json(fixtures() / "pieces_hf.json");
  std::vector<std::string> exported;
  for (const auto& form : fixture["groups"]) {
    const nlohmann::ordered_json json = pieces_json(fixture, form);
    if (!refusal(json, 1000).empty()) continue;
    const GgufVocab vocab = vocab_of(json, 1000);
    exported.push_back(form["name"]);
    EXPECT_EQ(vocab.model, "llama");
    EXPECT_EQ(vocab.unknown_token_id, 0);
    EXPECT_EQ(vocab.token_type[0], GgufVocab::kUnknown);
    const Tokenizer tokenizer = make_tokenizer(vocab);
    for (const auto& one : form["cases"]) {
      const std::string text = one["text"];
      if (form["name"] == "first Llamas" && text.find('<') != std::string::npos) continue;  // added and `normalized`
      EXPECT_EQ(tokenizer.encode_document(text, Tokenizer::Specials::kParse), one["ids"].get<std::vector<TokenId>>())
          << form["name"] << ": " << text;
    }
  }
  EXPECT_NE(std::ranges::find(exported, "Llama 2"), exported.end());
  EXPECT_LT(exported.size(), fixture["groups"].size());  // some do with spaces what GGUF cannot say
}

TEST_F(GgufExport, MergesThatScoresCannotSayAreRefused) {
  const auto fixture = read_json(fixtures() / "pieces_hf.json");
  nlohmann::ordered_json json = pieces_json(fixture, fixture["groups"][0]);
  ASSERT_EQ(refusal(json, 1000), "");
  auto& merges = json["model"]["merges"];
  const nlohmann::ordered_json first = merges[0];
  merges.erase(0);
  EXPECT_NE(refusal(json, 1000).find("two tokens spell"), std::string::npos) << refusal(json, 1000);
  merges.push_back(first);
  merges.insert(merges.begin(), first);
  EXPECT_NE(refusal(json, 1000).find("not in the order of scores"), std::string::npos) << refusal(json, 1000);
}

TEST_F(GgufExport, TakesWhatLiesBesideIt) {
  const GgufVocab vocab = gguf_vocab_of(tales(), 8192);
  const Tokenizer ours = Tokenizer::load(tales());
  EXPECT_EQ(vocab.bos_token_id, 0);
  EXPECT_EQ(vocab.eos_token_id, 0);
  EXPECT_EQ(vocab.add_bos_token, true);
  EXPECT_EQ(vocab.add_eos_token, false);
  EXPECT_EQ(vocab.chat_template, ours.chat_template());
  EXPECT_EQ(vocab.token_type[1], GgufVocab::kControl);  // <|user|>
  const Tokenizer back = make_tokenizer(vocab);
  for (const std::string text : {"Once upon a time, 12345 foxes'd jump.\n\n  Ünïcode ✓", "<|user|>hi<|end|>"}) {
    for (const auto specials : {Tokenizer::Specials::kParse, Tokenizer::Specials::kPlain}) {
      EXPECT_EQ(back.encode_document(text, specials), ours.encode_document(text, specials)) << text;
    }
  }
}

TEST_F(GgufExport, RefusesWhatGgufHasNoPlaceFor) {
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  auto golden = read_json(fixtures() / "hf_qwen2.json")["tokenizer"];
  EXPECT_TRUE(has(refusal(golden, 1000), "no place for the normalizer"));
  golden = read_json(fixtures() / "hf_gpt2_prefix_space.json")["tokenizer"];
  EXPECT_TRUE(has(refusal(golden, 1000), "no name for this pre-tokenizer"));
  golden = read_json(fixtures() / "hf_llama3.json")["tokenizer"];
  EXPECT_TRUE(has(refusal(golden, 100), "and the model has 100"));
  // The same words with merges passed over is another pre-tokenizer.
  golden["model"]["ignore_merges"] = true;
  EXPECT_EQ(vocab_of(golden, 1000).pre, "llama3");
}

// The converter's forms of BERT and T5: read back, the tokens are the same.
TEST_F(GgufExport, WordPieceAndUnigram) {
  const auto fixture = read_json(fixtures() / "parts_models.json");
  for (const auto& group : fixture["groups"]) {
    nlohmann::ordered_json json = fixture["bases"][group["base"].get<std::string>()];
    for (const auto& [pointer, value] : group["changes"].items())
      json[nlohmann::ordered_json::json_pointer(pointer)] = value;
    if (group["name"] == "unigram") {
      EXPECT_NE(refusal(json, 1000).find("spaces"), std::string::npos);
    }
    if (group["name"] == "short words") {
      EXPECT_NE(refusal(json, 1000).find("normalizer"), std::string::npos);
    }
    if (group["name"] == "suffix") {
      EXPECT_NE(refusal(json, 1000).find("GGUF has no place"), std::string::npos);
    }
    if (group["name"] != "bert") continue;
    const GgufVocab vocab = vocab_of(json, 1000);
    EXPECT_EQ(vocab.model, "bert");
    const Tokenizer tokenizer = make_tokenizer(vocab);
    const std::vector<std::string> texts{"Once upon a time!", "CAFÉ 中文 unbelievable", "xyzzy 12, 3", "[MASK] a"};
    const Tokenizer original = Tokenizer::load(folder_);
    for (const std::string& text : texts) {
      EXPECT_EQ(tokenizer.encode_document(text, Tokenizer::Specials::kParse),
                original.encode_document(text, Tokenizer::Specials::kParse));
    }
  }
}

TEST_F(GgufExport, SentencePieceModels) {
  const auto fixture = read_json(fixtures() / "sentencepiece.json");
  std::vector<std::string> exported;
  for (const auto& group : fixture["groups"]) {
    std::ofstream(folder_ / "tokenizer.model", std::ios::binary) << *decode_base64(group["model"].get<std::string>());
    GgufVocab vocab;
    try {
      vocab = gguf_vocab_of(folder_, 1000);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("GGUF has no place"), std::string::npos);
      continue;
    }
    exported.push_back(group["name"]);
    const Tokenizer tokenizer = make_tokenizer(vocab);
    for (size_t i = 0; i < fixture["texts"].size(); ++i) {
      const std::string text = fixture["texts"][i];
      const bool own = text.find("▁") != std::string::npos || text.find("<user>") != std::string::npos;
      if (own) continue;  // llama.cpp's custom: see gguf_vocab.h
      EXPECT_EQ(tokenizer.encode(text, Tokenizer::Specials::kPlain), group["ids"][i].get<std::vector<TokenId>>())
          << group["name"] << ": " << text;
    }
  }
  EXPECT_EQ(exported, (std::vector<std::string>{"t5", "unigram, user", "llama"}));
}

}  // namespace
}  // namespace kvasir
