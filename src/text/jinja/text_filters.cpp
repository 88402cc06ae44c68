#include <fmt/format.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "text/jinja/filters.h"
#include "text/jinja/format_text.h"
#include "text/jinja/operations.h"
#include "text/jinja/text_functions.h"
#include "text/utf8.h"

namespace kvasir::jinja {
namespace {

bool is_there(const Value& value) { return !value.is_undefined() && !value.is_none(); }

std::int64_t count_or(Runtime& runtime, const Value& value, std::int64_t otherwise) {
  if (!is_there(value)) return otherwise;
  const auto integer = value.as_integer();
  if (!integer) runtime.fail(fmt::format("a whole number is needed, not a {}", value.type_name()));
  return *integer;
}

Value center(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Value width = arguments.bind(runtime, {"width"})[0];
  return runtime.string(centered(runtime, to_text(runtime, input), count_or(runtime, width, 80)));
}

// Cut at the last space, unless words may be killed; a text that is hardly longer stays.
Value truncate(Runtime& runtime, const Value& input, const Arguments& arguments) {
  constexpr std::int64_t kLeeway = 5;
  const std::vector<Value> bound = arguments.bind(runtime, {"length", "killwords", "end", "leeway"});
  const MarkedString* text = input.as_string();
  if (text == nullptr) runtime.fail(fmt::format("truncate needs a string, not a {}", input.type_name()));
  const std::int64_t length = count_or(runtime, bound[0], 255);
  const MarkedString end = is_there(bound[2]) ? to_text(runtime, bound[2]) : MarkedString("...", Origin::kTemplate);
  const std::int64_t leeway = count_or(runtime, bound[3], kLeeway);
  const auto end_size = static_cast<std::int64_t>(character_count(end.text()));
  if (length < end_size || leeway < 0) runtime.fail("truncate needs a length that its end has room in");
  runtime.build(text->size() * sizeof(size_t));
  const std::vector<size_t> starts = character_starts(text->text());
  if (static_cast<std::int64_t>(starts.size()) - 1 <= length + leeway) return input;
  MarkedString out = text->slice({0, starts[static_cast<size_t>(length - end_size)]});
  const size_t space = out.text().rfind(' ');
  if (!truthy(bound[1]) && space != std::string::npos) out = out.slice({0, space});
  out.append(text->is_markup() ? escaped(end) : end);
  return runtime.string(out.as_markup(text->is_markup()));
}

Value wordcount(Runtime& runtime, const Value& input, const Arguments& arguments) {
  arguments.bind(runtime, {});
  const MarkedString text = to_text(runtime, input);
  std::int64_t words = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = utf8_at(text.text(), at);
    const bool word =
        c.kind == Utf8Char::Kind::kWhole && (c.code == '_' || u_isalnum(static_cast<UChar32>(c.code)) != 0 ||
                                             u_charType(static_cast<UChar32>(c.code)) == U_OTHER_NUMBER ||
                                             u_charType(static_cast<UChar32>(c.code)) == U_LETTER_NUMBER);
    words += word && !inside ? 1 : 0;
    inside = word;
    at += static_cast<size_t>(c.size);
  }
  return Value::integer(words);
}

Value filesizeformat(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const bool binary = truthy(arguments.bind(runtime, {"binary"})[0]);
  if (!input.is_number()) runtime.fail(fmt::format("filesizeformat needs a number, not a {}", input.type_name()));
  const double bytes = input.as_real();
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return Value::literal("1 Byte");
  if (bytes < base) return Value::literal(fmt::format("{} Bytes", static_cast<std::int64_t>(bytes)));
  constexpr std::string_view kLetters = "kMGTPEZY";
  double unit = base * base;
  size_t i = 0;
  for (; i + 1 < kLetters.size() && bytes >= unit; ++i) unit *= base;
  const std::string letter(1, binary && i == 0 ? 'K' : kLetters[i]);
  return Value::literal(fmt::format("{:.1f} {}{}B", base * bytes / unit, letter, binary ? "i" : ""));
}

std::string percent_encoded(std::string_view text, bool in_query) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain =
        byte < 0x80 && (std::isalnum(byte) != 0 || std::string_view("_.-~").find(c) != std::string::npos);
    if (plain || (c == '/' && !in_query)) {
      out += c;
    } else if (c == ' ' && in_query) {
      out += '+';
    } else {
      out += fmt::format("%{:02X}", byte);
    }
  }
  return out;
}

// A text, or the pairs of a query.
Value urlencode(Runtime& runtime, const Value& input, const Arguments& arguments) {
  arguments.bind(runtime, {});
  const auto encoded = [&](const Value& value, bool in_query) {
    const MarkedString text = to_text(runtime, value);
    runtime.build(text.size() * 3);
    return MarkedString(percent_encoded(text.text(), in_query), text.origin());
  };
  const Dict* dict = input.as_dict();
  if (dict == nullptr && input.as_list() == nullptr) return runtime.string(encoded(input, false));
  MarkedString out;
  const auto add = [&](const Value& key, const Value& value) {
    if (!out.empty()) out.append("&", Origin::kTemplate);
    out.append(encoded(key, true));
    out.append("=", Origin::kTemplate);
    out.append(encoded(value, true));
  };
  if (dict != nullptr) {
    for (const auto& [key, value] : dict->items) add(key, value);
    return runtime.string(std::move(out));
  }
  for (const Value& pair : runtime.iterate(input)) {
    const std::vector<Value> both = runtime.iterate(pair);
    if (both.size() != 2) runtime.fail("urlencode needs a string, a dict or pairs");
    add(both[0], both[1]);
  }
  return runtime.string(std::move(out));
}

enum class Again { kNo, kYes };  // whether what is markup is escaped again

template <Again again>
Value escape(Runtime& runtime, const Value& input, const Arguments& arguments) {
  arguments.bind(runtime, {});
  const MarkedString text = to_text(runtime, input);
  runtime.build(text.size() * 5);
  return runtime.string(escaped(again == Again::kYes ? text.as_markup(false) : text));
}

Value format_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  if (!arguments.plain.empty() && !arguments.named.empty())
    runtime.fail("format takes values with names, or without");
  std::vector<std::pair<Value, Value>> named;
  for (const auto& [name, value] : arguments.named) named.emplace_back(Value::literal(name), value);
  const Value values = named.empty() ? runtime.list(arguments.plain, List::Kind::kTuple) : runtime.dict(named);
  return runtime.string(percent_format(runtime, to_text(runtime, input), values));
}

constexpr std::array<Filter, 9> kFilters{{{"center", center},
                                          {"truncate", truncate},
                                          {"wordcount", wordcount},
                                          {"filesizeformat", filesizeformat},
                                          {"urlencode", urlencode},
                                          {"e", escape<Again::kNo>},
                                          {"escape", escape<Again::kNo>},
                                          {"forceescape", escape<Again::kYes>},
                                          {"format", format_filter}}};

}  // namespace

std::span<const Filter> text_filters() { return kFilters; }

}  // namespace kvasir::jinja
