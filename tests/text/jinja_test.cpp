// The template language against Jinja2 itself: jinja_oracle.py wrote down what that makes of each case.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

#include "base/error.h"
#include "jinja_render.h"
#include "text/chat_template.h"
#include "text/jinja/marked_string.h"
#include "text_test_util.h"

namespace kvasir {
namespace {

using Json = nlohmann::ordered_json;

class JinjaOracle : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
};

TEST_F(JinjaOracle, AgreesWithJinja2) {
  const Json fixture = read_json(fixtures() / "jinja_cases.json");
  int checked = 0;
  for (const Json& one : fixture["cases"]) {
    const Json& source = fixture["templates"][one["template"].get<size_t>()];
    const Json& context = fixture["contexts"][one["context"].get<size_t>()];
    SCOPED_TRACE(one["name"].get<std::string>() + ": " + source.get<std::string>().substr(0, 200));
    ++checked;
    if (one.contains("error")) {
      EXPECT_THROW(rendered(source, context, fixture["now"]), Error) << one["error"];
      continue;
    }
    try {
      EXPECT_EQ(rendered(source, context, fixture["now"]), one["expected"].get<std::string>());
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  EXPECT_GE(checked, 80);
}

TEST_F(JinjaOracle, ErrorsNameTheLineAndTheName) {
  try {
    rendered("a\n\n{{ nothing.here }}");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "template line 3: 'nothing' is undefined");
  }
}

TEST_F(JinjaOracle, UnsupportedTagsAreErrors) {
  for (const char* source :
       {"{% include 'x' %}", "{% extends 'x' %}", "{% block x %}{% endblock %}", "{% import 'x' as y %}",
        "{{ f(*args) }}", "{{ [1].append(2) }}", "{{ 'x'|urlize }}", "{{ [1, 2]|random }}", "{{ lipsum() }}",
        "{{ ''.__class__.__mro__ }}", "{{ {}.pop('x') }}"}) {
    EXPECT_THROW(rendered(source), Error) << source;
  }
}

// Templates that would run or grow without end stop with an Error, soon.
TEST_F(JinjaOracle, LimitsHold) {
  const RenderLimits limits{.steps = 1'000'000, .bytes = 64 << 20, .output_bytes = 8 << 20};
  const std::string deep_value =
      "{% set ns = namespace(x=[]) %}{% for i in range(500) %}{% set ns.x = [ns.x] %}{% endfor %}";
  const std::string wide_value =
      "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}";
  for (const std::string& source :
       {std::string("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}"),
        std::string("{{ range(10000000000) }}"), std::string("{{ 'x' * 10000000000 }}"),
        std::string("{{ [1] * 10000000000 }}"), std::string("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
        std::string("{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% "
                    "endfor %}"),
        std::string("{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}"), deep_value,
        wide_value + "{{ ns.x }}", wide_value + "{{ ns.x|tojson }}", wide_value + "{% set y = ns.x %}{{ ns.x == y }}",
        std::string("{{ 9223372036854775807 + 1 }}"), std::string("{{ 2 ** 100 }}"),
        std::string("{{ 99999999999999999999 }}"),
        "{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}",
        "{{ " + std::string(5000, '-') + "1 }}", "{{ 1" + std::string(5000, '+') + "1 }}",
        "{{ x" + std::string(5000, '[') + " }}"}) {
    EXPECT_THROW(rendered(source, Json::object(), 0, limits), Error) << source.substr(0, 80);
  }
  std::string nested;
  for (int i = 0; i < 5000; ++i) nested += "{% if 1 %}";
  EXPECT_THROW(rendered(nested), Error);
  std::string sum = "{{ 1";
  for (int i = 0; i < 5000; ++i) sum += " + 1";
  EXPECT_THROW(rendered(sum + " }}"), Error);
  Json deep = "x";
  for (int i = 0; i < 500; ++i) deep = Json::array({deep});
  EXPECT_THROW(rendered("{{ deep }}", {{"deep", deep}}), Error);
}

TEST_F(JinjaOracle, NamespacesMayHoldThemselves) {
  EXPECT_EQ(rendered("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns.me.me == ns }}"), "True");
}

TEST_F(JinjaOracle, MacrosMayOutliveTheirScope) {
  EXPECT_EQ(rendered("{% set ns = namespace() %}{% for i in [1] %}{% macro f() %}[{{ i }}]{% endmacro %}{{ f() }}"
                     "{% set ns.f = f %}{% endfor %}{{ ns.f() }}"),
            "[1][]");
}

TEST(MarkedString, KeepsOriginThroughSlicesAndJoins) {
  using jinja::MarkedString;
  MarkedString text("<a>", Origin::kTemplate);
  text.append("user", Origin::kUser);
  text.append("</a>", Origin::kTemplate);
  EXPECT_EQ(text.user(), (std::vector<TextRange>{{3, 7}}));
  const MarkedString part = text.slice({5, 9});
  EXPECT_EQ(part.text(), "er</");
  EXPECT_EQ(part.user(), (std::vector<TextRange>{{0, 2}}));
  MarkedString twice = part;
  twice.append(part.slice({0, 1}));
  twice.append("r", Origin::kUser);
  EXPECT_EQ(twice.user(), (std::vector<TextRange>{{0, 2}, {4, 6}}));
}

}  // namespace
}  // namespace kvasir
