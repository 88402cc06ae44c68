// What a tokenizer.json may hold, and what is refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "text/regex.h"
#include "text_test_util.h"

namespace kvasir {
namespace {

using Json = nlohmann::ordered_json;
using Ids = std::vector<TokenId>;

constexpr auto kParse = Tokenizer::Specials::kParse;

// The message of the Error that loading throws; empty when it does not.
std::string refusal(const std::string& json) {
  try {
    Tokenizer::from_json(json, "test.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kBadInput);
    return error.what();
  }
  return "";
}

std::string refusal(const Json& json) { return refusal(json.dump()); }

// The small tokenizer with one value replaced.
Json with(const std::string& pointer, const Json& value) {
  Json json = small_tokenizer_json();
  json[Json::json_pointer(pointer)] = value;
  return json;
}

std::vector<std::string> words(const Json& pretokenizer, const std::string& text) {
  Json json = with("/pre_tokenizer",
                   {{"type", "Sequence"},
                    {"pretokenizers",
                     {pretokenizer, {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}});
  // Every pair of small letters and signs merges into nothing, so words are seen through a vocabulary of
  // whole words.
  json["model"]["merges"] = Json::array();
  json["model"]["ignore_merges"] = true;
  TokenId next = 300;
  for (size_t begin = 0; begin < text.size(); ++begin) {
    for (size_t size = 2; begin + size <= text.size(); ++size) {
      const std::string spelled = spell_bytes(text.substr(begin, size));
      if (!json["model"]["vocab"].contains(spelled)) json["model"]["vocab"][spelled] = next++;
    }
  }
  const Tokenizer tokenizer = make(json);
  std::vector<std::string> out;
  for (const TokenId id : tokenizer.encode(text, kParse)) out.emplace_back(tokenizer.bytes_of(id));
  return out;
}

Json split(const std::string& behavior, bool invert = false) {
  return {{"type", "Split"}, {"pattern", {{"Regex", "-"}}}, {"behavior", behavior}, {"invert", invert}};
}

using Texts = std::vector<std::string>;

TEST(TokenizerJson, SplitsInEveryWay) {
  EXPECT_EQ(words(split("Isolated"), "ab--cd-"), (Texts{"ab", "-", "-", "cd", "-"}));
  EXPECT_EQ(words(split("Removed"), "ab--cd-"), (Texts{"ab", "cd"}));
  EXPECT_EQ(words(split("MergedWithPrevious"), "ab--cd-"), (Texts{"ab-", "-", "cd-"}));
  EXPECT_EQ(words(split("MergedWithNext"), "ab--cd-"), (Texts{"ab", "-", "-cd", "-"}));
  EXPECT_EQ(words(split("Contiguous"), "ab--cd-"), (Texts{"ab", "--", "cd", "-"}));
  EXPECT_EQ(words(split("Removed", true), "ab--cd-"), (Texts{"-", "-", "-"}));
  EXPECT_EQ(words({{"type", "Split"}, {"pattern", {{"String", "a.b"}}}, {"behavior", "Isolated"}}, "xa.bxacb"),
            (Texts{"x", "a.b", "xacb"}));
  EXPECT_EQ(words({{"type", "Digits"}, {"individual_digits", true}}, "a12b"), (Texts{"a", "1", "2", "b"}));
  EXPECT_EQ(words({{"type", "Digits"}, {"individual_digits", false}}, "a12b"), (Texts{"a", "12", "b"}));
}

TEST(TokenizerJson, SpacesAreThoseOfUnicode) {
  const auto runs = [](const std::string& text) {
    return words({{"type", "Split"}, {"pattern", {{"Regex", "\\s+"}}}, {"behavior", "Isolated"}}, text);
  };
  for (const std::string space :
       {" ", "\t", "\x0B", "\xC2\x85", "\xC2\xA0", "\xE1\x9A\x80", "\xE2\x80\xA8", "\xE3\x80\x80"}) {
    EXPECT_EQ(runs("a" + space + "b"), (Texts{"a", space, "b"})) << spell_bytes(space);
  }
  // U+180E is a space to PCRE2, but not to Unicode since 6.3; U+200B never was; neither is U+001C.
  for (const std::string none : {"\xE1\xA0\x8E", "\xE2\x80\x8B", "\x1C"}) {
    EXPECT_EQ(runs("a" + none + "b"), (Texts{"a" + none + "b"})) << spell_bytes(none);
  }
}

TEST(TokenizerJson, ReadsMergesInBothForms) {
  const Json pairs = Json::array({Json::array({"h", "e"}), Json::array({"l", "l"})});
  EXPECT_EQ(make(with("/model/merges", pairs)).encode("hell", kParse), (Ids{256, 257}));
  EXPECT_EQ(make(with("/model/merges", {"h e", "l l"})).encode("hell", kParse), (Ids{256, 257}));
}

TEST(TokenizerJson, IgnoreMergesTakesWholeWords) {
  Json json = with("/model/ignore_merges", true);
  json["model"]["merges"] = Json::array();
  EXPECT_EQ(make(json).encode("hell hello", kParse), (Ids{258, ' ', 'h', 'e', 'l', 'l', 'o'}));
}

TEST(TokenizerJson, PostProcessorsSurroundDocuments) {
  const Json inner{
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}, {{"SpecialToken", {{"id", "E"}}}}}},
      {"special_tokens", {{"<s>", {{"ids", {261}}}}, {"E", {{"ids", {262}}}}}}};
  const Json sequence{{"type", "Sequence"}, {"processors", {{{"type", "ByteLevel"}}, inner}}};
  for (const Json& processor : {inner, sequence}) {
    const Tokenizer tokenizer = make(with("/post_processor", processor));
    EXPECT_EQ(tokenizer.encode_document("hell", kParse), (Ids{261, 258, 262}));
    EXPECT_EQ(tokenizer.encode("hell", kParse), Ids{258});
    EXPECT_EQ(tokenizer.as_document({}), (Ids{261, 262}));
  }
}

TEST(TokenizerJson, BytesWithoutATokenAreDroppedOrUnknown) {
  Json json = small_tokenizer_json();
  json["model"]["vocab"].erase("z");
  EXPECT_EQ(make(json).encode("azzb", kParse), (Ids{'a', 'b'}));
  json["model"]["unk_token"] = "he";
  EXPECT_EQ(make(json).encode("azzb", kParse), (Ids{'a', 256, 256, 'b'}));
  json["model"]["fuse_unk"] = true;
  EXPECT_EQ(make(json).encode("azzb", kParse), (Ids{'a', 256, 'b'}));
}

// The part of a tokenizer.json with one thing that is not understood, and what the error says of it.
TEST(TokenizerJson, RefusesWhatIsNotSupported) {
  const auto refused = [](const std::string& pointer, const Json& value, std::string_view says) {
    const std::string message = refusal(with(pointer, value));
    EXPECT_NE(message.find(says), std::string::npos) << pointer << ": " << message;
  };
  const auto pattern = [](const char* regex) { return Json{{"Regex", regex}}; };
  refused("/model/type", "Nope", "'Nope'");
  refused("/model/dropout", 0.1, "random");
  refused("/model/continuing_subword_prefix", "##", "lacks the prefix");
  for (const char* part : {"/normalizer", "/pre_tokenizer", "/post_processor", "/decoder"})
    refused(part, {{"type", "Nope"}}, "'Nope', which is not supported");
  refused("/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "_"}}, "must be '▁'");
  refused("/pre_tokenizer", {{"type", "Punctuation"}, {"behavior", "Nope"}}, "'Nope'");
  refused("/pre_tokenizer", {{"type", "FixedLength"}, {"length", 0}}, "outside");
  refused("/pre_tokenizer", {{"type", "CharDelimiterSplit"}, {"delimiter", ""}}, "empty");
  refused("/normalizer", {{"type", "Replace"}, {"pattern", pattern("a*")}, {"content", ""}}, "can match nothing");
  refused("/normalizer", {{"type", "Replace"}, {"pattern", pattern("a")}, {"content", std::string(20, 'x')}},
          "too long");
  refused("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "?"}}, "base64");
  refused("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}}, "wrong size");
  refused("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "BAAAAAAAAABhYg=="}}, "last result");
  refused("/post_processor", {{"type", "BertProcessing"}, {"sep", {"x"}}, {"cls", {"x", 1}}}, "token and its id");
  refused("/decoder", {{"type", "Strip"}, {"content", "ab"}, {"start", 1}, {"stop", 0}}, "one character");
  refused("/decoder", {{"type", "Strip"}, {"content", " "}, {"start", 99}, {"stop", 0}}, "outside");
  refused("/decoder", {{"type", "Replace"}, {"pattern", pattern("a?")}, {"content", ""}}, "can match nothing");
}

TEST(TokenizerJson, RefusesDecodersThatNeedTheWholeText) {
  const auto message = [](const Json& decoders) {
    return refusal(with("/decoder", {{"type", "Sequence"}, {"decoders", decoders}}));
  };
  const Json fuse{{"type", "Fuse"}};
  const Json bytes{{"type", "ByteFallback"}};
  const Json replace{{"type", "Replace"}, {"pattern", {{"Regex", "a"}}}, {"content", "b"}};
  for (const char* type : {"WordPiece", "Metaspace", "BPEDecoder", "ByteLevel", "ByteFallback", "CTC"})
    EXPECT_NE(message({fuse, {{"type", type}}}).find("out of order"), std::string::npos) << type;
  EXPECT_NE(message({bytes, {{"type", "Metaspace"}}}).find("out of order"), std::string::npos);
  EXPECT_NE(message({fuse, replace}).find("Regex"), std::string::npos);
  EXPECT_EQ(message({replace, bytes, fuse}), "");
}

TEST(TokenizerJson, RefusesModelsThatCannotWork) {
  const Json words{{"type", "WordLevel"}, {"vocab", {{"a", 0}}}, {"unk_token", "x"}};
  EXPECT_NE(refusal(with("/model", words)).find("unknown token"), std::string::npos);
  const Json pieces{{"type", "WordPiece"}, {"vocab", {{"a", 0}}}, {"unk_token", "x"}};
  EXPECT_NE(refusal(with("/model", pieces)).find("unknown token"), std::string::npos);
  Json unigram{{"type", "Unigram"}, {"vocab", Json::array({Json::array({"<unk>", 0}), Json::array({"a", -1.5})})}};
  EXPECT_NE(refusal(with("/model", unigram)).find("unk_id"), std::string::npos);
  unigram["unk_id"] = 2;
  EXPECT_NE(refusal(with("/model", unigram)).find("unk_id"), std::string::npos);
  unigram["unk_id"] = 0;
  EXPECT_EQ(refusal(with("/model", unigram)), "");
  unigram["vocab"] = Json::array({Json::array({"<unk>", 0}), Json::array({"a", "b"})});
  EXPECT_NE(refusal(with("/model", unigram)).find("not a number"), std::string::npos);
  unigram["vocab"] = Json::array({Json::array({"<unk>", 0}), Json::array({"a", 1, 2})});
  EXPECT_NE(refusal(with("/model", unigram)).find("piece and its score"), std::string::npos);
  unigram["vocab"] = Json::array({Json::array({"<unk>", 0}), Json::array({std::string(2000, 'a'), -1})});
  EXPECT_NE(refusal(with("/model", unigram)).find("2000 bytes"), std::string::npos);
  unigram["vocab"] = Json::array();
  EXPECT_NE(refusal(with("/model", unigram)).find("empty"), std::string::npos);
}

// A tokenizer.json with byte fallback: "▁", a few letters and all bytes, Llama 2's normalizer and decoder.
Json fallback_json() {
  Json json{{"normalizer",
             {{"type", "Sequence"},
              {"normalizers",
               {{{"type", "Prepend"}, {"prepend", "▁"}},
                {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}}},
            {"pre_tokenizer", nullptr},
            {"decoder",
             {{"type", "Sequence"},
              {"decoders",
               {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                {{"type", "ByteFallback"}},
                {{"type", "Fuse"}},
                {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
            {"model", {{"type", "BPE"}, {"byte_fallback", true}, {"merges", {"▁ a", "a a"}}}}};
  json["model"]["vocab"] = {{"▁", 256}, {"a", 257}, {"aa", 258}, {"▁a", 259}};
  for (unsigned byte = 0; byte < 256; ++byte)
    json["model"]["vocab"][byte_piece(static_cast<unsigned char>(byte))] = byte;
  return json;
}

TEST(TokenizerJson, ReadsByteFallback) {
  const Tokenizer tokenizer = make(fallback_json());
  EXPECT_EQ(tokenizer.encode("aaa b", kParse), (Ids{259, 258, 256, 'b'}));
  EXPECT_EQ(tokenizer.decode(Ids{259, 258, 256, 'b'}, Tokenizer::SkipSpecials::kKeep), "aaa b");
  EXPECT_EQ(tokenizer.bytes_of(259), " a");
  // Bytes that are missing make a character unknown as a whole.
  Json json = fallback_json();
  json["model"]["vocab"].erase("<0xA9>");
  EXPECT_EQ(make(json).encode("éaé", kParse), Ids{259});
  json["model"]["unk_token"] = "aa";
  EXPECT_EQ(make(json).encode("ééaé", kParse), (Ids{256, 258, 258, 257, 258}));
  json["model"]["fuse_unk"] = true;
  EXPECT_EQ(make(json).encode("ééaé", kParse), (Ids{256, 258, 257, 258}));
}

// As the Hugging Face library has it: a character without a token is unknown, whatever bytes are tokens.
TEST(TokenizerJson, WithoutByteFallbackACharacterWithoutATokenIsUnknown) {
  Json json = fallback_json();
  json["model"]["byte_fallback"] = false;
  EXPECT_EQ(make(json).encode("aaa b", kParse), (Ids{259, 258, 256}));
  json["model"]["unk_token"] = "aa";
  EXPECT_EQ(make(json).encode("bbabb", kParse), (Ids{256, 258, 258, 257, 258, 258}));
  EXPECT_EQ(make(json).encode("a\xFFz", kParse), (Ids{259, 258, 258}));
  json["model"]["fuse_unk"] = true;
  EXPECT_EQ(make(json).encode("bbabb", kParse), (Ids{256, 258, 257, 258}));
  EXPECT_EQ(make(json).decode(Ids{259, 'b', 258}, Tokenizer::SkipSpecials::kKeep), "abaa");
  json["model"].erase("byte_fallback");  // false where a file does not say
  EXPECT_EQ(make(json).encode("bbabb", kParse), (Ids{256, 258, 257, 258}));

  // A decoder without ByteFallback leaves the names of bytes as they are.
  json["decoder"]["decoders"].erase(1);
  EXPECT_EQ(make(json).decode(Ids{259, 'b', 258}, Tokenizer::SkipSpecials::kKeep), "a<0x62>aa");
}

TEST(TokenizerJson, RefusesByteFallbackThatWouldBeReadDifferently) {
  const auto with_changed = [](const std::string& pointer, const Json& value) {
    Json json = fallback_json();
    json[Json::json_pointer(pointer)] = value;
    return refusal(json);
  };
  const auto has = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_EQ(refusal(fallback_json()), "");
  EXPECT_TRUE(has(with_changed("/decoder/decoders/3/start", -1), "outside"));
  EXPECT_TRUE(has(with_changed("/decoder/decoders/3/stop", 17), "outside"));
  EXPECT_TRUE(has(with_changed("/decoder/decoders/0/pattern", {{"String", ""}}), "empty"));
  EXPECT_TRUE(has(with_changed("/decoder/decoders/0/content", std::string(60, 'x')), "too long"));
  EXPECT_TRUE(has(with_changed("/normalizer/normalizers/1/pattern", {{"String", ""}}), "empty"));
  EXPECT_TRUE(has(with_changed("/normalizer/normalizers/1/content", std::string(20, 'x')), "too long"));
  EXPECT_TRUE(has(with_changed("/normalizer/normalizers/0/prepend", std::string(2000, 'x')), "too long"));
  const Json metaspace{{"type", "Metaspace"}, {"replacement", "▁"}};
  EXPECT_EQ(with_changed("/pre_tokenizer", metaspace), "");
  const Json wrong{{"replacement", "_"}, {"prepend_scheme", "last"}, {"split", 1}};
  for (const auto& [key, value] : wrong.items()) {
    Json changed = metaspace;
    changed[key] = value;
    EXPECT_TRUE(has(with_changed("/pre_tokenizer", changed), key)) << key;
  }
  EXPECT_TRUE(has(
      with_changed(
          "/pre_tokenizer",
          {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"add_prefix_space", false}}),
      "contradicts"));
}

TEST(TokenizerJson, PlainTextNeverMergesIntoASpecialToken) {
  Json json = small_tokenizer_json();
  json["added_tokens"].push_back({{"id", 258}, {"content", "hell"}, {"special", true}});
  EXPECT_EQ(make(json).encode("hell", kParse), Ids{258});
  EXPECT_EQ(make(json).encode("hell", Tokenizer::Specials::kPlain), (Ids{256, 257}));
  json["model"]["ignore_merges"] = true;
  EXPECT_EQ(make(json).encode("hell", Tokenizer::Specials::kPlain), (Ids{256, 257}));
}

TEST(TokenizerJson, RefusesContradictions) {
  EXPECT_NE(refusal(with("/model/vocab/he", 257)).find("257"), std::string::npos);
  EXPECT_NE(refusal(with("/model/vocab/he", -1)), "");
  EXPECT_NE(refusal(with("/model/vocab/he", 1LL << 40)), "");
  EXPECT_NE(refusal(with("/model/vocab/he", 4'000'000)).find("far beyond"), std::string::npos);
  EXPECT_NE(refusal(with("/model/vocab/he", 1.5)), "");
  EXPECT_NE(refusal(with("/model/vocab/he", "x")), "");
  EXPECT_NE(refusal(with("/model/merges", {"q x"})).find("qx"), std::string::npos);
  EXPECT_NE(refusal(with("/model/merges", {"h e l"})), "");
  EXPECT_NE(refusal(with("/model/merges", {"he"})), "");
  EXPECT_NE(refusal(with("/model/merges", {Json::array({"h"})})), "");
  EXPECT_NE(refusal(with("/model/merges", {1, 2})), "");
  EXPECT_NE(refusal(with("/added_tokens/0/id", 256)).find("taken"), std::string::npos);
  EXPECT_NE(refusal(with("/added_tokens/0/id", 262)), "");
  EXPECT_NE(refusal(with("/added_tokens/1/content", "<s>")), "");
  EXPECT_NE(refusal(with("/added_tokens/0/content", std::string(5000, 'x'))), "");
  const std::string twice = small_tokenizer_json().dump();
  std::string same_key = twice;
  same_key.insert(same_key.find("\"he\":"), "\"he\":299,");
  EXPECT_NE(refusal(same_key).find("twice"), std::string::npos);
}

TEST(TokenizerJson, RefusesDamagedFiles) {
  const std::string whole = small_tokenizer_json().dump();
  for (size_t size = 0; size < whole.size(); size += 1 + size / 8)
    EXPECT_NE(refusal(whole.substr(0, size)), "") << size;
  EXPECT_NE(refusal(std::string(100'000, '[')), "");
  EXPECT_NE(refusal(std::string("[]")), "");
  EXPECT_NE(refusal(std::string("null")), "");
  EXPECT_NE(refusal(std::string("{\"model\": \"\xff\"}")), "");
  Json nested{{"type", "ByteLevel"}};
  for (int i = 0; i < 100; ++i) nested = {{"type", "Sequence"}, {"pretokenizers", {nested}}};
  EXPECT_NE(refusal(with("/pre_tokenizer", nested)), "");
}

TEST(TokenizerJson, RefusesPatternsThatTheEnginesReadDifferently) {
  for (const std::string pattern :
       {"[a[bc]]", "[a&&b]", "\\w+", "\\h", "\\bx", "(?R)", "(*LIMIT_MATCH=1)a", "a{1,3}+", "(?m:a)", "\\p{Nope}",
        "(", "[", "\\", "\\Kx", "[]a]", "\\C", "\\x{110000}", "(?C1)a"}) {
    EXPECT_THROW(Regex(pattern, "test"), Error) << pattern;
  }
  for (const std::string pattern :
       {"\\p{Han}+", "\\p{Letter}", "\\p{^Lu}", "[^\\s\\p{L}]+", "\\u4e00", "a|b*?", "(?<=a)b", "[\\]\\-]"}) {
    EXPECT_NO_THROW(Regex(pattern, "test")) << pattern;
  }
}

TEST(TokenizerJson, HostilePatternsEndInAnError) {
  EXPECT_THROW(Regex("(a+)+[bc]", "test").matches(std::string(5000, 'a')), Error);
  EXPECT_THROW(Regex("(a|aa)+[bc]", "test").matches(std::string(5000, 'a')), Error);
  EXPECT_EQ(Regex("a*?", "test").matches("aaa").size(), 0U);  // empty matches are none
  EXPECT_EQ(Regex("(?=a)", "test").matches("aaa").size(), 0U);
}

TEST(TokenizerJson, ReadsTheConfigBesideIt) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "kvasir_tokenizer_config";
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const std::string& text) { std::ofstream(folder / name) << text; };
  write("tokenizer.json", small_tokenizer_json().dump());
  EXPECT_EQ(Tokenizer::load(folder).bos_token(), std::nullopt);
  write(
      "tokenizer_config.json",
      R"({"bos_token": {"content": "<s>"}, "eos_token": null, "chat_template": [{"name": "tool_use", "template": "t"},
            {"name": "default", "template": "d"}]})");
  EXPECT_EQ(Tokenizer::load(folder).bos_token(), "<s>");
  EXPECT_EQ(Tokenizer::load(folder).eos_token(), std::nullopt);
  EXPECT_EQ(Tokenizer::load(folder / "tokenizer.json").chat_template(), "d");
  write("chat_template.jinja", "j");
  EXPECT_EQ(Tokenizer::load(folder).chat_template(), "j");
  write("tokenizer_config.json", "{");
  EXPECT_THROW(Tokenizer::load(folder), Error);
  EXPECT_THROW(Tokenizer::load(folder / "missing"), Error);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kvasir
