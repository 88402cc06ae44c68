// The tests after "is".
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "text/jinja/function.h"
#include "text/jinja/operations.h"
#include "text/jinja/text_functions.h"

namespace kvasir::jinja {
namespace {

using Test = bool (*)(Runtime& runtime, const Value& value, const Value& other);

struct Named {
  std::string_view name;
  int arguments;
  Test test;
};

std::int64_t integer_of(Runtime& runtime, const Value& value) {
  const auto integer = value.as_integer();
  if (!integer) runtime.fail(fmt::format("a whole number is needed, not a {}", value.type_name()));
  return *integer;
}

bool divisible(Runtime& runtime, const Value& value, const Value& other) {
  const std::int64_t divisor = integer_of(runtime, other);
  if (divisor == 0) runtime.fail("division by zero");
  return divisor == -1 || integer_of(runtime, value) % divisor == 0;
}

bool is_sequence(const Value& v) {
  return v.as_string() != nullptr || v.as_dict() != nullptr || v.is_undefined() ||
         (v.as_list() != nullptr && v.as_list()->kind != List::Kind::kGenerator);
}

bool is_casing(Runtime& runtime, const Value& value, Casing casing) {
  const MarkedString text = to_text(runtime, value);
  const auto same = [&](Casing wanted) { return with_casing(text, wanted).text() == text.text(); };
  return same(casing) && !same(casing == Casing::kUpper ? Casing::kLower : Casing::kUpper);
}

bool is_the_same(Runtime& runtime, const Value& value, const Value& other) {
  return value.type_name() == other.type_name() && runtime.equal(value, other);
}

std::string name_of(Runtime& runtime, const Value& value) {
  if (value.as_string() == nullptr) runtime.fail("the name of a filter or a test must be a string");
  return value.as_string()->text();
}

// A test as a function of `v`; `runtime` and `other` are there for those that need them.
#define KVASIR_TEST(expression)                                      \
  [](Runtime& runtime, const Value& v, const Value& other) -> bool { \
    static_cast<void>(v), static_cast<void>(runtime);                \
    static_cast<void>(other);                                        \
    return expression;                                               \
  }

constexpr Test kEqual = KVASIR_TEST(runtime.equal(v, other));
constexpr Test kUnequal = KVASIR_TEST(!runtime.equal(v, other));
constexpr Test kGreater = KVASIR_TEST(runtime.compare(v, other) > 0);
constexpr Test kLess = KVASIR_TEST(runtime.compare(v, other) < 0);

constexpr std::array<Named, 39> kTests{
    {{"defined", 0, KVASIR_TEST(!v.is_undefined())},
     {"undefined", 0, KVASIR_TEST(v.is_undefined())},
     {"none", 0, KVASIR_TEST(v.is_none())},
     {"boolean", 0, KVASIR_TEST(v.is_boolean())},
     {"true", 0, KVASIR_TEST(v.is_boolean() && v.as_boolean())},
     {"false", 0, KVASIR_TEST(v.is_boolean() && !v.as_boolean())},
     {"integer", 0, KVASIR_TEST(v.is_integer())},
     {"float", 0, KVASIR_TEST(v.is_real())},
     {"number", 0, KVASIR_TEST(v.is_number())},
     {"string", 0, KVASIR_TEST(v.as_string() != nullptr)},
     {"mapping", 0, KVASIR_TEST(v.as_dict() != nullptr)},
     {"sequence", 0, KVASIR_TEST(is_sequence(v))},
     {"iterable", 0, KVASIR_TEST(is_sequence(v) || v.as_list() != nullptr)},
     {"callable", 0, KVASIR_TEST(v.as_function() != nullptr)},
     {"odd", 0, KVASIR_TEST(integer_of(runtime, v) % 2 != 0)},
     {"even", 0, KVASIR_TEST(integer_of(runtime, v) % 2 == 0)},
     {"divisibleby", 1, divisible},
     {"lower", 0, KVASIR_TEST(is_casing(runtime, v, Casing::kLower))},
     {"upper", 0, KVASIR_TEST(is_casing(runtime, v, Casing::kUpper))},
     {"in", 1, KVASIR_TEST(runtime.contains(other, v))},
     {"sameas", 1, is_the_same},
     {"eq", 1, kEqual},
     {"equalto", 1, kEqual},
     {"==", 1, kEqual},
     {"ne", 1, kUnequal},
     {"!=", 1, kUnequal},
     {"gt", 1, kGreater},
     {"greaterthan", 1, kGreater},
     {">", 1, kGreater},
     {"lt", 1, kLess},
     {"lessthan", 1, kLess},
     {"<", 1, kLess},
     {"ge", 1, KVASIR_TEST(runtime.compare(v, other) >= 0)},
     {">=", 1, KVASIR_TEST(runtime.compare(v, other) >= 0)},
     {"le", 1, KVASIR_TEST(runtime.compare(v, other) <= 0)},
     {"<=", 1, KVASIR_TEST(runtime.compare(v, other) <= 0)},
     {"escaped", 0, KVASIR_TEST(v.as_string() != nullptr && v.as_string()->is_markup())},
     {"filter", 0, KVASIR_TEST(has_filter(name_of(runtime, v)))},
     {"test", 0, KVASIR_TEST(has_test(name_of(runtime, v)))}}};

#undef KVASIR_TEST

}  // namespace

bool has_test(std::string_view name) { return std::ranges::find(kTests, name, &Named::name) != kTests.end(); }

bool apply_test(Runtime& runtime, std::string_view name, const Value& input, const Arguments& arguments) {
  const auto* found = std::ranges::find(kTests, name, &Named::name);
  if (found == kTests.end()) runtime.fail(fmt::format("the test '{}' is not supported", name));
  if (!arguments.named.empty() || arguments.plain.size() != static_cast<size_t>(found->arguments)) {
    runtime.fail(fmt::format("the test '{}' takes {} arguments", name, found->arguments));
  }
  runtime.step();
  return found->test(runtime, input, found->arguments == 1 ? arguments.plain[0] : Value());
}

}  // namespace kvasir::jinja
