#include "text/jinja/string_methods.h"

#include <fmt/format.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <vector>

#include "text/jinja/format_text.h"
#include "text/jinja/operations.h"
#include "text/jinja/text_functions.h"
#include "text/utf8.h"

namespace kvasir::jinja {
namespace {

UChar32 code_of(char32_t code) { return static_cast<UChar32>(code); }

bool is_upper_letter(char32_t c) { return u_isUUppercase(code_of(c)) != 0; }
bool is_lower_letter(char32_t c) { return u_isULowercase(code_of(c)) != 0; }
bool is_alpha(char32_t c) { return (U_GET_GC_MASK(code_of(c)) & U_GC_L_MASK) != 0; }
bool is_decimal(char32_t c) { return u_charType(code_of(c)) == U_DECIMAL_DIGIT_NUMBER; }
bool is_digit_like(char32_t c) {
  const int type = u_getIntPropertyValue(code_of(c), UCHAR_NUMERIC_TYPE);
  return type == U_NT_DECIMAL || type == U_NT_DIGIT;
}
bool is_numeric(char32_t c) { return u_getIntPropertyValue(code_of(c), UCHAR_NUMERIC_TYPE) != U_NT_NONE; }
bool is_alnum(char32_t c) { return is_alpha(c) || is_numeric(c); }
bool is_ascii(char32_t c) { return c < 0x80; }
bool is_printable_character(char32_t c) {
  return c == ' ' || (U_GET_GC_MASK(code_of(c)) & (U_GC_C_MASK | U_GC_Z_MASK)) == 0;
}

std::vector<char32_t> codes_of(Runtime& runtime, const Value& self) {
  const std::string& text = self.as_string()->text();
  runtime.build(text.size() * sizeof(char32_t));
  std::vector<char32_t> codes;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = utf8_at(text, at);
    codes.push_back(c.kind == Utf8Char::Kind::kWhole ? c.code : 0xFFFD);
    at += static_cast<size_t>(c.size);
  }
  return codes;
}

enum class Empty { kNo, kYes };  // what is said of a text without characters

template <auto fits, Empty empty>
Value all_are(Runtime& runtime, const Value& self, const Arguments& arguments) {
  arguments.bind(runtime, {});
  const std::vector<char32_t> codes = codes_of(runtime, self);
  return Value::boolean(codes.empty() ? empty == Empty::kYes : std::ranges::all_of(codes, fits));
}

// At least one letter of the case, and none of the other.
template <auto wanted, auto other>
Value has_casing(Runtime& runtime, const Value& self, const Arguments& arguments) {
  arguments.bind(runtime, {});
  const std::vector<char32_t> codes = codes_of(runtime, self);
  const auto title = [](char32_t c) { return u_istitle(code_of(c)) != 0; };
  return Value::boolean(std::ranges::any_of(codes, wanted) && std::ranges::none_of(codes, other) &&
                        std::ranges::none_of(codes, title));
}

Value is_title(Runtime& runtime, const Value& self, const Arguments& arguments) {
  arguments.bind(runtime, {});
  bool any = false;
  bool inside = false;
  for (const char32_t c : codes_of(runtime, self)) {
    const bool upper = is_upper_letter(c) || u_istitle(code_of(c)) != 0;
    const bool lower = is_lower_letter(c);
    if ((upper && inside) || (lower && !inside)) return Value::boolean(false);
    inside = upper || lower;
    any |= inside;
  }
  return Value::boolean(any);
}

Value is_identifier(Runtime& runtime, const Value& self, const Arguments& arguments) {
  arguments.bind(runtime, {});
  const std::vector<char32_t> codes = codes_of(runtime, self);
  const auto inside = [](char32_t c) { return u_hasBinaryProperty(code_of(c), UCHAR_XID_CONTINUE) != 0; };
  const bool begins =
      !codes.empty() && (codes[0] == '_' || u_hasBinaryProperty(code_of(codes[0]), UCHAR_XID_START) != 0);
  return Value::boolean(begins && std::ranges::all_of(codes, inside));
}

const MarkedString& needed_text(Runtime& runtime, const Value& value) {
  const MarkedString* text = value.as_string();
  if (text == nullptr) runtime.fail(fmt::format("a string is needed, not a {}", value.type_name()));
  return *text;
}

std::int64_t needed_number(Runtime& runtime, const Value& value) {
  const auto integer = value.as_integer();
  if (!integer) runtime.fail(fmt::format("a whole number is needed, not a {}", value.type_name()));
  return *integer;
}

enum class Push { kLeft, kRight };

template <Push push>
Value justified(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"width", "fillchar"});
  FormatSpec spec;
  spec.width = std::clamp<std::int64_t>(needed_number(runtime, bound[0]), 0, 1 << 20);
  spec.align = push == Push::kLeft ? '<' : '>';
  if (!bound[1].is_undefined()) spec.fill = needed_text(runtime, bound[1]).text();
  if (character_count(spec.fill) != 1) runtime.fail("a fill is one character");
  return runtime.string(formatted(runtime, self, spec));
}

Value center_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"width", "fillchar"});
  const std::string fill = bound[1].is_undefined() ? " " : needed_text(runtime, bound[1]).text();
  if (character_count(fill) != 1) runtime.fail("a fill is one character");
  return runtime.string(centered(runtime, *self.as_string(), needed_number(runtime, bound[0]), fill));
}

Value zfill(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const std::int64_t width = needed_number(runtime, arguments.bind(runtime, {"width"})[0]);
  const MarkedString& text = *self.as_string();
  const auto wide = static_cast<std::int64_t>(character_count(text.text()));
  if (width <= wide) return self;
  runtime.build(static_cast<size_t>(width));
  const size_t sign = text.text().starts_with('-') || text.text().starts_with('+') ? 1 : 0;
  MarkedString out = text.slice({0, sign});
  out.append(std::string(static_cast<size_t>(width - wide), '0'), Origin::kTemplate);
  out.append_range(text, {sign, text.size()});
  return runtime.string(std::move(out));
}

enum class From { kLeft, kRight };

template <From from>
Value partition(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const MarkedString& text = *self.as_string();
  const MarkedString& separator = needed_text(runtime, arguments.bind(runtime, {"sep"})[0]);
  if (separator.empty()) runtime.fail("a separator is not empty");
  const size_t at = from == From::kLeft ? text.text().find(separator.text()) : text.text().rfind(separator.text());
  const auto part = [&](size_t begin, size_t end) { return runtime.string(text.slice({begin, end})); };
  const Value none = Value::literal("");
  if (at == std::string::npos && from == From::kLeft) return runtime.list({self, none, none}, List::Kind::kTuple);
  if (at == std::string::npos) return runtime.list({none, none, self}, List::Kind::kTuple);
  return runtime.list({part(0, at), part(at, at + separator.size()), part(at + separator.size(), text.size())},
                      List::Kind::kTuple);
}

Value removeprefix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const MarkedString& text = *self.as_string();
  const MarkedString& prefix = needed_text(runtime, arguments.bind(runtime, {"prefix"})[0]);
  if (!text.text().starts_with(prefix.text())) return self;
  return runtime.string(text.slice({prefix.size(), text.size()}));
}

Value removesuffix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const MarkedString& text = *self.as_string();
  const MarkedString& suffix = needed_text(runtime, arguments.bind(runtime, {"suffix"})[0]);
  if (!text.text().ends_with(suffix.text())) return self;
  return runtime.string(text.slice({0, text.size() - suffix.size()}));
}

Value expandtabs(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Value given = arguments.bind(runtime, {"tabsize"})[0];
  const std::int64_t size = given.is_undefined() ? 8 : std::min<std::int64_t>(needed_number(runtime, given), 1 << 16);
  const MarkedString& text = *self.as_string();
  MarkedString out;
  std::int64_t column = 0;
  for (size_t at = 0; at < text.size();) {
    const auto end = at + static_cast<size_t>(utf8_at(text.text(), at).size);
    const char c = text.text()[at];
    if (c == '\t') {
      const std::int64_t spaces = size <= 0 ? 0 : size - column % size;
      runtime.build(static_cast<size_t>(spaces));
      out.append(std::string(static_cast<size_t>(spaces), ' '), Origin::kTemplate);
      column += spaces;
    } else {
      out.append_range(text, {at, end});
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
    at = end;
  }
  return runtime.string(std::move(out));
}

template <Casing casing>
Value recased(Runtime& runtime, const Value& self, const Arguments& arguments) {
  arguments.bind(runtime, {});
  runtime.build(self.as_string()->size() * 4);
  return runtime.string(with_casing(*self.as_string(), casing));
}

Value format_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return runtime.string(brace_format(runtime, *self.as_string(), arguments));
}

Value format_map(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Value map = arguments.bind(runtime, {"mapping"})[0];
  if (map.as_dict() == nullptr) runtime.fail(fmt::format("format_map needs a dict, not a {}", map.type_name()));
  Arguments named;
  for (const auto& [key, value] : map.as_dict()->items) named.named.emplace_back(to_text(runtime, key).text(), value);
  return runtime.string(brace_format(runtime, *self.as_string(), named));
}

constexpr std::array<NamedMethod, 12> kChecks{{{"isalpha", all_are<is_alpha, Empty::kNo>},
                                               {"isalnum", all_are<is_alnum, Empty::kNo>},
                                               {"isascii", all_are<is_ascii, Empty::kYes>},
                                               {"isdecimal", all_are<is_decimal, Empty::kNo>},
                                               {"isdigit", all_are<is_digit_like, Empty::kNo>},
                                               {"isnumeric", all_are<is_numeric, Empty::kNo>},
                                               {"isspace", all_are<is_python_space, Empty::kNo>},
                                               {"isprintable", all_are<is_printable_character, Empty::kYes>},
                                               {"isupper", has_casing<is_upper_letter, is_lower_letter>},
                                               {"islower", has_casing<is_lower_letter, is_upper_letter>},
                                               {"istitle", is_title},
                                               {"isidentifier", is_identifier}}};
constexpr std::array<NamedMethod, 13> kLayouts{{{"center", center_method},
                                                {"ljust", justified<Push::kLeft>},
                                                {"rjust", justified<Push::kRight>},
                                                {"zfill", zfill},
                                                {"partition", partition<From::kLeft>},
                                                {"rpartition", partition<From::kRight>},
                                                {"removeprefix", removeprefix},
                                                {"removesuffix", removesuffix},
                                                {"expandtabs", expandtabs},
                                                {"swapcase", recased<Casing::kSwap>},
                                                {"casefold", recased<Casing::kFold>},
                                                {"format", format_method},
                                                {"format_map", format_map}}};

}  // namespace

std::span<const NamedMethod> string_checks() { return kChecks; }
std::span<const NamedMethod> string_layouts() { return kLayouts; }

}  // namespace kvasir::jinja
