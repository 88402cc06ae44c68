// Every kind of model, normalizer, pre-tokenizer, post-processor and decoder: agreement with the Hugging Face
// library.
#include <gtest/gtest.h>

#include "support/growth.h"
#include "text/detokenizer.h"
#include "text_test_util.h"

namespace kvasir {
namespace {

using Json = nlohmann::ordered_json;
using Ids = std::vector<TokenId>;
using Specials = Tokenizer::Specials;
using SkipSpecials = Tokenizer::SkipSpecials;

// A tokenizer of the fixture, as JSON.
Json json_of(const Json& fixture, const Json& group) {
  Json json = fixture["bases"][group["base"].get<std::string>()];
  for (const auto& [pointer, value] : group["changes"].items()) json[Json::json_pointer(pointer)] = value;
  return json;
}

std::string streamed(const Tokenizer& tokenizer, const Ids& ids) {
  Detokenizer detokenizer(tokenizer, SkipSpecials::kKeep, Detokenizer::Place::kBeginning);
  std::string out;
  for (const TokenId id : ids) {
    const std::string chunk = detokenizer.push(id);
    EXPECT_TRUE(is_valid_utf8(chunk));
    out += chunk;
  }
  return out + detokenizer.finish();
}

// The library gives one U+FFFD for each byte where a run of bytes is no text, and here each sequence gets one.
bool has_replacement(const std::string& text) { return text.find(kReplacement) != std::string::npos; }

// A list that an earlier group has as well is that group's number.
const Json& list_of(const Json& fixture, const Json& group, const char* field) {
  const Json& list = group[field];
  return list.is_number() ? fixture["groups"][list.get<size_t>()][field] : list;
}

void check_group(const Json& fixture, const Json& group) {
  const Tokenizer tokenizer = make(json_of(fixture, group));
  EXPECT_EQ(tokenizer.as_document({}), group["around"].get<Ids>());
  const Json& all_ids = list_of(fixture, group, "ids");
  const Json& decoded = list_of(fixture, group, "decoded");
  for (size_t i = 0; i < fixture["texts"].size(); ++i) {
    const std::string text = fixture["texts"][i];
    SCOPED_TRACE(group["name"].get<std::string>() + ": " + fixture["texts"][i].dump());
    const Ids ids = all_ids[i].get<Ids>();
    EXPECT_EQ(tokenizer.encode(text, Specials::kParse), ids);
    const std::string whole = detokenize(tokenizer, ids, SkipSpecials::kKeep);
    EXPECT_EQ(streamed(tokenizer, ids), whole);
    const Json& wanted = decoded[i];
    if (wanted.is_string() && !has_replacement(wanted)) {
      EXPECT_EQ(whole, wanted.get<std::string>());
    }
  }
}

void check_fixture(const std::string& name) {
  const Json fixture = read_json(fixtures() / name);
  for (const Json& group : fixture["groups"]) check_group(fixture, group);
  EXPECT_GT(fixture["groups"].size(), 10U);
}

TEST(Parts, EveryModelAgreesWithHuggingFace) { check_fixture("parts_models.json"); }
TEST(Parts, EveryNormalizerAgreesWithHuggingFace) { check_fixture("parts_normalizers.json"); }
TEST(Parts, EveryPretokenizerAgreesWithHuggingFace) { check_fixture("parts_pretokenizers.json"); }
TEST(Parts, EveryDecoderAgreesWithHuggingFace) { check_fixture("parts_decoders.json"); }

// The groups of parts_models.json, by name.
Tokenizer named(const std::string& name) {
  const Json fixture = read_json(fixtures() / "parts_models.json");
  for (const Json& group : fixture["groups"]) {
    if (group["name"] == name) return make(json_of(fixture, group));
  }
  throw std::runtime_error(name);
}

TEST(Parts, PlainTextNeverBecomesASpecialToken) {
  for (const char* name : {"wordpiece", "bert", "no cut"}) {
    const Tokenizer tokenizer = named(name);
    EXPECT_EQ(tokenizer.encode("[MASK]", Specials::kParse), Ids{3});
    for (const TokenId id : tokenizer.encode("[MASK] [CLS][SEP]", Specials::kPlain)) EXPECT_TRUE(id == 0 || id > 3);
  }
  const Tokenizer unigram = named("unigram");
  EXPECT_EQ(unigram.encode("<s>", Specials::kParse), Ids{1});
  for (const TokenId id : unigram.encode("<s></s>", Specials::kPlain)) EXPECT_FALSE(id == 1 || id == 2);
}

// An answer goes on after its prompt: nothing of it is treated as first.
TEST(Parts, AnAnswerGoesOnAfterItsPrompt) {
  const Tokenizer tokenizer = named("bert");
  const Ids ids = tokenizer.encode("once upon", Specials::kPlain);
  Detokenizer inside(tokenizer);
  std::string text;
  for (const TokenId id : ids) text += inside.push(id);
  EXPECT_EQ(text + inside.finish(), " once upon");
  EXPECT_EQ(streamed(tokenizer, ids), "once upon");
}

TEST(Parts, AMegabyteInOneWordTakesNoQuadraticTime) {
  const Tokenizer kinds[] = {named("wordpiece"), named("no cut"), named("unigram"), named("xlnet"), named("suffix")};
  const auto encode = [&](size_t size) {
    for (const Tokenizer& tokenizer : kinds) {
      for (const char* piece : {"a", "a ", "é", "中", "e\u0301", "\xFF", "."}) {
        std::string text;
        while (text.size() < size) text += piece;
        const Ids ids = tokenizer.encode(text, Specials::kPlain);
        EXPECT_EQ(streamed(tokenizer, ids), detokenize(tokenizer, ids, SkipSpecials::kKeep));
      }
    }
  };
  EXPECT_LT(testing::growth_of_eightfold(encode, 1 << 14), 24);
}

}  // namespace
}  // namespace kvasir
