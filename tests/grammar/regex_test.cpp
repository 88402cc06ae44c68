#include "grammar/regex.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <regex>

#include "base/error.h"
#include "grammar_test_util.h"

namespace kvasir::grammar::testing {
namespace {

std::shared_ptr<const Grammar> grammar_of(const std::string& pattern) {
  return compile_json_schema(Json{{"type", "string"}, {"pattern", pattern}}.dump());
}

bool matches(const std::string& pattern, const std::string& text) {
  return accepts(grammar_of(pattern), Json(text).dump());
}

TEST(Pattern, AgreesWithAnotherEngine) {
  const std::vector<std::string> patterns{"^a*b+c?$",
                                          "^(ab|a)(bc|c)?$",
                                          "a{2,3}",
                                          "^(a|b){2}$",
                                          "^[a-c]*$",
                                          "^[^ab]+$",
                                          "c$",
                                          "^c|b$",
                                          "(^a$|^bb$)",
                                          "^$",
                                          "",
                                          "^(?:a|(b|c){1,2})*$",
                                          "^a??b*?$",
                                          "^\\w\\d?$",
                                          "^[\\d\\-]+$",
                                          "^(a*)*$",
                                          "^((a|b)*c){2}$",
                                          "a.c",
                                          "^[a-]b$",
                                          "^\\.$",
                                          "^(?!a)[abc]*$",
                                          "^(?=.*b)(?=.*c)",
                                          "^(?!.*bb)[ab]+$",
                                          "a(?=b|c$)",
                                          "^(?:a|(?=b)b?c?)$",
                                          "^(a(?!b))?c*",
                                          "(^a|b$|^$)",
                                          "a^b|c",
                                          "a$b|^c",
                                          "^(?!^[ab]*$)[abc]+$",
                                          "^a?(?:b{0,2}|(?=[bc]{1,3}$)b?c*$)"};
  for (const std::string& pattern : patterns) {
    const auto grammar = grammar_of(pattern);
    const std::regex other(pattern);
    SchemaMaker random(1);
    for (int i = 0; i < 3000; ++i) {
      std::string text;
      for (std::size_t k = random.below(7); k > 0; --k) text += "abc1-. "[random.below(7)];
      ASSERT_EQ(accepts(grammar, Json(text).dump()), std::regex_search(text, other)) << pattern << "  " << text;
    }
  }
}

TEST(Pattern, ClassesAndEscapes) {
  EXPECT_TRUE(matches("^\\s$", "\t"));
  EXPECT_TRUE(matches("^\\s$", "\xE2\x80\xA8"));
  EXPECT_FALSE(matches("^\\S$", " "));
  EXPECT_TRUE(matches("^\\S$", "\xC3\xA9"));
  EXPECT_TRUE(matches("^\\W\\D$", "-x"));
  EXPECT_FALSE(matches("^.$", "\n"));
  EXPECT_TRUE(matches("^.$", "\xF0\x9F\x99\x82"));
  EXPECT_TRUE(matches("^\\x41\\u00e9\\ud83d\\ude42$", "A\xC3\xA9\xF0\x9F\x99\x82"));
  EXPECT_TRUE(matches("^[\\u0400-\\u04FF]+$", "\xD0\xBF\xD1\x80\xD0\xB8"));
  EXPECT_FALSE(matches("^[\\u0400-\\u04FF]+$", "abc"));
  EXPECT_TRUE(matches("^[\"\\\\\\n]{3}$", "\"\\\n"));
  EXPECT_TRUE(matches("^(?<year>\\d{4})\\/$", "2024/"));
  EXPECT_TRUE(matches("^[\\b]$", "\b"));
}

TEST(Pattern, LengthsCount) {
  const auto grammar = compile_json_schema(R"({"type":"string","pattern":"^(ab)*$","minLength":3,"maxLength":6})");
  EXPECT_FALSE(accepts(grammar, R"("ab")"));
  EXPECT_TRUE(accepts(grammar, R"("abab")"));
  EXPECT_TRUE(accepts(grammar, R"("ababab")"));
  EXPECT_FALSE(accepts(grammar, R"("abababab")"));
  const auto open = compile_json_schema(R"({"type":"string","pattern":"é","minLength":3})");
  EXPECT_FALSE(accepts(open, "\"\xC3\xA9x\""));
  EXPECT_TRUE(accepts(open, "\"\xC3\xA9\xC3\xA9\xC3\xA9\""));
  EXPECT_FALSE(accepts(open, "\"xxxx\""));
}

TEST(Pattern, LooksBehind) {
  EXPECT_TRUE(matches("^a*(?<=aa)b$", "aab"));
  EXPECT_FALSE(matches("^a*(?<=aa)b$", "ab"));
  EXPECT_TRUE(matches("(?<!a)b$", "cb"));
  EXPECT_TRUE(matches("(?<!a)b$", "b"));
  EXPECT_FALSE(matches("(?<!a)b$", "cab"));
}

TEST(Pattern, WhatIsNotUnderstoodIsRefused) {
  for (const char* pattern :
       {"((?=a)b)*", "(?!a)*", "(?=a)b(?<=b)", "(a)\\1", "\\bword", "\\p{L}",  "(",           ")",     "a)",
        "[a",        "*a",     "a**",          "a{3,1}", "a{x}",    "(^a)+",   "a{99999999}", "[b-a]", "[\\d-z]",
        "\\",        "\\u12",  "\\ud800",      "(?i)a",  "a{1",     "x{2}{3}", "(?<n",        "\\cA",  "b(?=^a)a"}) {
    EXPECT_THROW(grammar_of(pattern), Error) << pattern;
  }
}

TEST(Pattern, AnyTextIsAnAutomatonOrAnError) {
  EXPECT_TRUE(rc::check([](const std::string& text) {
    std::string pattern;
    for (const char c : text) pattern += "ab|()[]*+?{},^$.\\d-1=!<"[static_cast<unsigned char>(c) % 23];
    try {
      grammar_of(pattern);
    } catch (const Error&) {
      // As good.
    }
  }));
}

}  // namespace
}  // namespace kvasir::grammar::testing
