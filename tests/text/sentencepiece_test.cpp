// tokenizer.model, and GGUF vocabularies of the same pieces.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "base/error.h"
#include "support/growth.h"
#include "text/base64.h"
#include "text/detokenizer.h"
#include "text/sentencepiece_model.h"
#include "text/tokenizer_data.h"
#include "text_test_util.h"

namespace kvasir {
namespace {

using Json = nlohmann::ordered_json;
using Ids = std::vector<TokenId>;
using Specials = Tokenizer::Specials;
using SkipSpecials = Tokenizer::SkipSpecials;

class SentencePiece : public ::testing::Test {
 protected:
  SentencePiece() { std::filesystem::create_directories(folder_); }
  ~SentencePiece() override { std::filesystem::remove_all(folder_); }

  void write(const char* name, const std::string& bytes) { std::ofstream(folder_ / name, std::ios::binary) << bytes; }
  Tokenizer load(const std::string& model) {
    write("tokenizer.model", model);
    return Tokenizer::load(folder_);
  }
  std::string refusal(const std::string& model) {
    try {
      load(model);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  const Json& group(std::string_view name) {
    for (const Json& one : fixture_["groups"]) {
      if (one["name"] == name) return one;
    }
    ADD_FAILURE() << name;
    return fixture_;
  }
  std::string model(std::string_view name) { return *decode_base64(group(name)["model"].get<std::string>()); }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("kvasir_spm_" + std::to_string(::getpid()));
  Json fixture_ = read_json(fixtures() / "sentencepiece.json");
};

TEST_F(SentencePiece, GivesTheTokensOfTheLibrary) {
  for (const Json& one : fixture_["groups"]) {
    const Tokenizer tokenizer = load(*decode_base64(one["model"].get<std::string>()));
    const bool decodes = tokenizer.id_of("<0x41>").has_value();
    for (size_t i = 0; i < fixture_["texts"].size(); ++i) {
      const std::string text = fixture_["texts"][i];
      SCOPED_TRACE(one["name"].get<std::string>() + ": " + fixture_["texts"][i].dump());
      const Ids ids = tokenizer.encode(text, Specials::kPlain);
      EXPECT_EQ(ids, one["ids"][i].get<Ids>());
      // Without bytes there are unknown tokens, which the library decodes as " ⁇ ".
      if (decodes) {
        EXPECT_EQ(detokenize(tokenizer, ids, SkipSpecials::kKeep), one["decoded"][i].get<std::string>());
      }
    }
  }
}

// As T5's folders call it; its unigrams end with the token that ends a text.
TEST_F(SentencePiece, IsReadAsT5Names) {
  const std::string bytes = model("t5");
  const Ids ids = load(bytes).encode_document("a text", Specials::kPlain);
  std::filesystem::remove(folder_ / "tokenizer.model");
  write("spiece.model", bytes);
  EXPECT_EQ(Tokenizer::load(folder_).encode_document("a text", Specials::kPlain), ids);
}

TEST_F(SentencePiece, GgufVocabulariesGiveTheTokensOfLlamaCpp) {
  const Json kinds = read_json(fixtures() / "gguf_kinds.json");
  for (const Json& kind : kinds["groups"]) {
    GgufVocab vocab;
    vocab.where = "kinds.gguf";
    vocab.model = kind["model"];
    const Json& source = kind.contains("of") ? group(kind["of"].get<std::string>()) : kind;
    vocab.tokens = source["tokens"].get<std::vector<std::string>>();
    vocab.token_type = source["token_type"].get<std::vector<std::int32_t>>();
    if (vocab.model == "t5") {
      vocab.scores = source["scores"].get<std::vector<float>>();
      vocab.precompiled_charsmap = *decode_base64(source["charsmap"].get<std::string>());
      vocab.add_space_prefix = kind["add_space_prefix"];
      vocab.remove_extra_whitespaces = kind["remove_extra_whitespaces"];
      vocab.unknown_token_id = 0;
      vocab.eos_token_id = 2;
    }
    if (vocab.model == "bert") {
      vocab.unknown_token_id = 0;
      vocab.bos_token_id = 1;
      vocab.seperator_token_id = 2;
    }
    const Tokenizer tokenizer = make_tokenizer(vocab);
    if (vocab.model == "t5") {
      EXPECT_EQ(tokenizer.as_document({}), Ids{2});
    }
    if (vocab.model == "bert") {
      EXPECT_EQ(tokenizer.as_document({}), (Ids{1, 2}));
    }
    if (vocab.model == "rwkv") {
      EXPECT_EQ(tokenizer.as_document({}), Ids{});
    }
    for (size_t i = 0; i < fixture_["texts"].size(); ++i) {
      const std::string text = fixture_["texts"][i];
      SCOPED_TRACE(vocab.model + " " + kind.value("of", "") + ": " + fixture_["texts"][i].dump());
      const Ids ids = tokenizer.encode(text, Specials::kPlain);
      if (text.find("<s>") != std::string::npos) continue;  // RWKV's is found even where a user typed it
      EXPECT_EQ(ids, kind["ids"][i].get<Ids>());
      if (vocab.model == "rwkv") {
        EXPECT_EQ(tokenizer.decode(ids, SkipSpecials::kKeep), text);
      }
    }
  }
}

TEST_F(SentencePiece, ReadsWhatTheConfigAdds) {
  const std::string bytes = model("llama");
  EXPECT_EQ(load(bytes).as_document({}), Ids{1});
  EXPECT_EQ(load(model("t5")).as_document({}), Ids{2});
  EXPECT_EQ(load(bytes).bos_token(), "<s>");
  const int size = load(bytes).vocab_size();
  const auto configure = [&](const std::string& content, int id) {
    const Json token{{"content", content}, {"special", true}};
    write("tokenizer_config.json", Json{{"add_bos_token", false},
                                        {"add_eos_token", true},
                                        {"bos_token", "<mask>"},
                                        {"added_tokens_decoder", {{std::to_string(id), token}}}}
                                       .dump());
  };
  configure("<mask>", size);
  const Tokenizer tokenizer = load(bytes);
  EXPECT_EQ(tokenizer.bos_token(), "<mask>");
  EXPECT_EQ(tokenizer.as_document({}), Ids{2});
  EXPECT_EQ(tokenizer.encode("<mask>", Specials::kParse), Ids{size});
  EXPECT_GT(tokenizer.encode("<mask>", Specials::kPlain).size(), 1U);
  EXPECT_TRUE(tokenizer.is_special(size));
  configure("<mask>", 5);
  EXPECT_NE(refusal(bytes).find("tokenizer_config.json"), std::string::npos);
}

TEST_F(SentencePiece, ATokenizerJsonWins) {
  load(model("llama"));
  write("tokenizer.json", small_tokenizer_json().dump());
  EXPECT_EQ(Tokenizer::load(folder_).vocab_size(), 263);
}

// A message of pieces: {text, score, type}, and a trainer's model type.
std::string message(const std::vector<std::tuple<std::string, float, int>>& pieces, int model_type) {
  std::string out;
  for (const auto& [text, score, type] : pieces) {
    std::string piece = "\x0A" + std::string(1, static_cast<char>(text.size())) + text + "\x15";
    piece.append(reinterpret_cast<const char*>(&score), 4);
    piece += std::string("\x18") + static_cast<char>(type);
    out += "\x0A" + std::string(1, static_cast<char>(piece.size())) + piece;
  }
  return out + "\x12\x02\x18" + static_cast<char>(model_type);
}

TEST_F(SentencePiece, RefusesWhatItCannotRead) {
  const auto refused = [&](const std::string& bytes, std::string_view says) {
    const std::string got = refusal(bytes);
    EXPECT_NE(got.find(says), std::string::npos) << got;
  };
  EXPECT_EQ(refusal(message({{"<unk>", 0, 2}, {"a", -1, 1}}, 1)), "");
  EXPECT_EQ(refusal(message({{"<unk>", 0, 2}, {"a", -1, 1}}, 2)), "");
  refused("", "empty");
  refused("\x12\x02\x18\x01", "no pieces");
  refused("{}", "damaged");
  refused(message({{"<unk>", 0, 2}, {"a", -1, 1}}, 3), "type 3");
  refused(message({{"a", -1, 1}}, 1), "unknown token");
  refused(message({{"<unk>", 0, 2}, {"<x>", 0, 2}}, 1), "two unknown");
  refused(message({{"<unk>", 0, 2}, {"a", -1, 9}}, 1), "unknown type");
  refused(message({{"<unk>", 0, 2}, {"a", -1, 6}}, 1), "no byte");
  refused(message({{"<unk>", 0, 2}, {"a", -1, 5}}, 2), "unused");
  refused(message({{"<unk>", 0, 2}, {"a", -1, 1}, {"a", -2, 1}}, 1), "twice");
  refused(message({{"<unk>", 0, 2}, {"a", NAN, 1}}, 1), "not a number");
  const std::string whole = message({{"<unk>", 0, 2}, {"a", -1, 1}}, 1);
  for (size_t size = 1; size < whole.size(); ++size) refusal(whole.substr(0, size));  // an Error, or fewer pieces
  refused(model("t5") + "\x1A\x03\x12\x01x", "wrong size");
  refused(model("t5") + "\x12\x03\xC0\x01\x01", "white space");
}

TEST_F(SentencePiece, PlainTextNeverBecomesASpecialToken) {
  for (const Json& one : fixture_["groups"]) {
    const Tokenizer tokenizer = load(*decode_base64(one["model"].get<std::string>()));
    for (const std::string text : {"<s>", "</s>", "a<s>b", "<unk>", "<|end|>"}) {
      for (const TokenId id : tokenizer.encode(text, Specials::kPlain))
        EXPECT_TRUE(!tokenizer.is_special(id) || id == 0) << text;  // what has no piece is unknown
    }
    EXPECT_EQ(tokenizer.encode("<s>", Specials::kParse), Ids{1});
  }
}

TEST_F(SentencePiece, AMegabyteTakesNoQuadraticTime) {
  const Tokenizer unigram = load(model("unigram, bytes"));
  const Tokenizer bpe = load(model("bpe, user"));
  const auto encode = [&](size_t size) {
    for (const char* piece : {"a", "a ", "\n", "中", "the", "<", "\xFF", "<user>"}) {
      std::string text;
      while (text.size() < size) text += piece;
      EXPECT_FALSE(unigram.encode(text, Specials::kPlain).empty());
      bpe.encode(text, Specials::kPlain);
    }
  };
  EXPECT_LT(testing::growth_of_eightfold(encode, 1 << 15), 24);
}

}  // namespace
}  // namespace kvasir
