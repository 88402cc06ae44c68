#include "base/json_reader.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"

namespace kvasir {
namespace {

constexpr JsonFileKind kKind{1000, "mend the file"};

// The message of the Error that `read` throws of this document; empty when it throws none.
std::string error_of(std::string_view json, const std::function<void(const JsonReader&)>& read) {
  try {
    const JsonDocument document(json, "a.json", kKind);
    read(document.root());
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kBadInput);
    return error.what();
  }
  return "";
}

TEST(JsonReader, GivesWhatTheDocumentHolds) {
  const JsonDocument document(R"({"s":"x","i":7,"d":0.5,"t":true,"n":null,"a":[1,2],"o":{"k":3,"l":4}})", "a.json",
                              kKind);
  const JsonReader root = document.root();
  EXPECT_EQ(root.get("s").text(), "x");
  EXPECT_EQ(root.get("i").integer(), 7);
  EXPECT_EQ(root.get("i").integer({0, 7}), 7);
  EXPECT_EQ(root.get("d").positive(), 0.5);
  EXPECT_TRUE(root.get("t").flag());
  EXPECT_FALSE(root.find("n"));
  EXPECT_FALSE(root.find("absent"));
  EXPECT_TRUE(root.has_null("n"));
  EXPECT_FALSE(root.has_null("absent"));
  EXPECT_EQ(root.text_or("s", "y"), "x");
  EXPECT_EQ(root.text_or("n", "y"), "y");
  EXPECT_TRUE(root.flag_or("t", false));
  EXPECT_TRUE(root.flag_or("absent", true));
  std::vector<std::int64_t> items;
  for (const JsonReader item : root.get("a").items()) items.push_back(item.integer());
  EXPECT_EQ(items, (std::vector<std::int64_t>{1, 2}));
  std::string members;
  for (const auto [key, value] : root.get("o").members())
    members += std::string(key) + std::to_string(value.integer());
  EXPECT_EQ(members, "k3l4");
  EXPECT_EQ(root.where(), "a.json");
}

TEST(JsonReader, WordsOfPythonAreTexts) {
  const JsonDocument document(R"({"a":[Infinity,-1,NaN],"Infinity":"NaN \"Infinity\""})", "a.json", kKind);
  std::string texts;
  for (const JsonReader item : document.root().get("a").items()) {
    if (item.is_text()) texts += std::string(item.text()) + " ";
  }
  EXPECT_EQ(texts, "Infinity NaN ");
  EXPECT_EQ(document.root().get("Infinity").text(), "NaN \"Infinity\"");
  EXPECT_NE(error_of("{\"a\":[Infinity}", [](const JsonReader&) {}).find("not valid JSON"), std::string::npos);
}

TEST(JsonReader, ErrorsNameTheFileThePathAndTheWayOut) {
  const std::string json = R"({"a":{"b":[0,{"c":"x"},-5]},"odd key":1.5,"n":null})";
  struct Case {
    std::function<void(const JsonReader&)> read;
    const char* message;
  };
  for (const Case& one : std::vector<Case>{
           {[](const JsonReader& r) { r.get("z"); }, "a.json: z is missing; mend the file"},
           {[](const JsonReader& r) { r.get("n"); }, "a.json: n is missing; mend the file"},
           {[](const JsonReader& r) { r.get("a").get("z"); }, "a.json, a: z is missing; mend the file"},
           {[](const JsonReader& r) { r.get("a").text(); }, "a.json: a is not a string; mend the file"},
           {[](const JsonReader& r) { r.get("a").items(); }, "a.json: a is not a list; mend the file"},
           {[](const JsonReader& r) { r.get("odd key").integer(); },
            "a.json: [\"odd key\"] is not an integer; mend the file"},
           {[](const JsonReader& r) {
              for (const JsonReader item : r.get("a").get("b").items()) item.find("c");
            },
            "a.json: a.b[0] is not an object; mend the file"},
           {[](const JsonReader& r) {
              for (const JsonReader item : r.get("a").get("b").items()) {
                if (item.is_object()) item.get("c").flag();
              }
            },
            "a.json: a.b[1].c is not true or false; mend the file"},
           {[](const JsonReader& r) {
              for (const JsonReader item : r.get("a").get("b").items()) {
                if (!item.is_object()) item.integer({-4, 4});
              }
            },
            "a.json: a.b[2] is -5, outside -4..4; mend the file"},
           {[](const JsonReader& r) { r.get("a").get("b").positive(); },
            "a.json: a.b is not a number; mend the file"},
           {[](const JsonReader& r) { r.get("a").fail("is odd", "go home"); }, "a.json: a is odd; go home"},
           {[](const JsonReader& r) { r.fail("is odd"); }, "a.json: the document is odd; mend the file"},
           {[](const JsonReader& r) { r.get("a").fail_inside("b has no end"); },
            "a.json, a: b has no end; mend the file"}}) {
    EXPECT_EQ(error_of(json, one.read), one.message);
  }
}

TEST(JsonReader, KeysOfStrangersAreShownShortAndWhole) {
  const auto shown = [](const std::string& key) {
    return error_of("{\"" + key + "\":1}", [](const JsonReader& root) {
      for (const auto [name, value] : root.members()) value.text();
    });
  };
  EXPECT_EQ(shown("x.y"), "a.json: [\"x.y\"] is not a string; mend the file");
  EXPECT_EQ(shown("\\n"), "a.json: [\"\\x0a\"] is not a string; mend the file");
  EXPECT_EQ(shown(""), "a.json: [\"\"] is not a string; mend the file");
  EXPECT_EQ(shown("a" + std::string(40, '\xC3')).substr(0, 22), "a.json: not valid JSON");
  std::string wide = "a";
  for (int i = 0; i < 40; ++i) wide += "é";
  EXPECT_EQ(shown(wide).size(), std::string("a.json: [\"\"] is not a string; mend the file…").size() + 63);
}

TEST(JsonDocument, RefusesWhatIsTooLongOrNoJson) {
  const auto nothing = [](const JsonReader&) {};
  EXPECT_EQ(error_of(std::string(1001, ' '), nothing),
            "a.json: it has 1001 bytes, more than the 1000 that are read; mend the file");
  EXPECT_EQ(error_of("{", nothing).substr(0, 23), "a.json: not valid JSON:");
  EXPECT_EQ(error_of("[]", [](const JsonReader& root) { root.find("x"); }),
            "a.json: the document is not an object; mend the file");
}

}  // namespace
}  // namespace kvasir
