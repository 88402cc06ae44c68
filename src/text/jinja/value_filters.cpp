#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "text/jinja/filters.h"
#include "text/jinja/operations.h"
#include "text/jinja/text_functions.h"

namespace kvasir::jinja {
namespace {

bool given(const Value& value) { return !value.is_undefined() && !value.is_none(); }

std::int64_t integer_or(Runtime& runtime, const Value& value, std::int64_t otherwise) {
  if (!given(value)) return otherwise;
  const auto integer = value.as_integer();
  if (!integer) runtime.fail(fmt::format("a whole number is needed, not a {}", value.type_name()));
  return *integer;
}

Value trim(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Value chars = arguments.bind(runtime, {"chars"})[0];
  const MarkedString text = to_text(runtime, input);
  const TextRange rest = given(chars) ? stripped(text.text(), Side::kBoth, to_text(runtime, chars).text())
                                      : stripped(text.text(), Side::kBoth);
  return runtime.string(text.slice(rest));
}

template <Casing casing>
Value casing_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  arguments.bind(runtime, {});
  const MarkedString text = to_text(runtime, input);
  runtime.build(text.size() * 4);
  return runtime.string(with_casing(text, casing));
}

Value replace(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"old", "new", "count"});
  const MarkedString from = to_text(runtime, bound[0]);
  const MarkedString to = to_text(runtime, bound[1]);
  return runtime.string(replaced(runtime, to_text(runtime, input), from, to, integer_or(runtime, bound[2], -1)));
}

Value string(Runtime& runtime, const Value& input, const Arguments& arguments) {
  arguments.bind(runtime, {});
  return runtime.string(to_text(runtime, input));
}

Value same(Runtime& runtime, const Value& input, const Arguments& arguments) {
  arguments.bind(runtime, {});
  return input;
}

Value indent(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"width", "first", "blank"});
  MarkedString width;
  if (bound[0].as_string() != nullptr) {
    width = *bound[0].as_string();
  } else {
    const std::int64_t spaces = std::clamp<std::int64_t>(integer_or(runtime, bound[0], 4), 0, 1 << 16);
    width.append(std::string(static_cast<size_t>(spaces), ' '), Origin::kTemplate);
  }
  MarkedString text = to_text(runtime, input);
  text.append("\n", Origin::kTemplate);  // so that a last empty line counts as a line
  MarkedString out;
  bool first = true;
  for (const MarkedString& line : lines_of(text)) {
    if (!first) out.append("\n", Origin::kTemplate);
    const bool indented = first ? truthy(bound[1]) : truthy(bound[2]) || !line.empty();
    runtime.build(line.size() + width.size());
    if (indented) out.append(width);
    out.append(line);
    first = false;
  }
  return runtime.string(std::move(out));
}

Value tojson(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"ensure_ascii", "indent", "separators", "sort_keys"});
  if (truthy(bound[0])) runtime.fail("tojson with ensure_ascii is not supported");
  JsonStyle style;
  style.sort_keys = truthy(bound[3]);
  if (given(bound[1])) {
    style.indent = static_cast<int>(std::clamp<std::int64_t>(integer_or(runtime, bound[1], 0), 0, 64));
    style.item_separator = ",";
  }
  if (const List* separators = bound[2].as_list(); separators != nullptr && separators->items.size() == 2) {
    style.item_separator = to_text(runtime, separators->items[0]).text();
    style.key_separator = to_text(runtime, separators->items[1]).text();
  }
  MarkedString out;
  append_json(runtime, input, style, out);
  return runtime.string(std::move(out));
}

Value length(Runtime& runtime, const Value& input, const Arguments& arguments) {
  arguments.bind(runtime, {});
  return Value::integer(length_of(runtime, input));
}

Value standard(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"default_value", "boolean"});
  const bool use = input.is_undefined() || (truthy(bound[1]) && !truthy(input));
  if (!use) return input;
  return arguments.plain.empty() && arguments.named.empty() ? Value::literal("") : bound[0];
}

// float("…") of Python, less its underscores; nullopt where it would raise.
std::optional<double> parse_real(std::string_view text) {
  const TextRange inside = stripped(text, Side::kBoth);
  text = text.substr(inside.begin, inside.size());
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || status != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> parse_integer(std::string_view text, int base) {
  const TextRange inside = stripped(text, Side::kBoth);
  text = text.substr(inside.begin, inside.size());
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || status != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Value to_integer(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"default", "base"});
  const std::int64_t base = integer_or(runtime, bound[1], 10);
  if (base < 2 || base > 36) runtime.fail("a base is between 2 and 36");
  std::optional<double> real;
  if (const auto integer = input.as_integer()) return Value::integer(*integer);
  if (input.is_real()) real = input.as_real();
  if (const MarkedString* text = input.as_string()) {
    if (const auto integer = parse_integer(text->text(), static_cast<int>(base))) return Value::integer(*integer);
    real = parse_real(text->text());
  }
  if (real && std::fabs(*real) < 9.2e18) return Value::integer(static_cast<std::int64_t>(*real));
  return given(bound[0]) ? bound[0] : Value::integer(0);
}

Value to_real(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Value otherwise = arguments.bind(runtime, {"default"})[0];
  if (input.is_number()) return Value::real(input.as_real());
  if (const MarkedString* text = input.as_string()) {
    if (const auto real = parse_real(text->text())) return Value::real(*real);
  }
  return given(otherwise) ? otherwise : Value::real(0);
}

Value absolute(Runtime& runtime, const Value& input, const Arguments& arguments) {
  arguments.bind(runtime, {});
  if (!input.is_number()) runtime.fail(fmt::format("abs is not defined for a {}", input.type_name()));
  if (input.is_real()) return Value::real(std::fabs(input.as_real()));
  return *input.as_integer() < 0 ? unary_operation(runtime, "-", input) : input;
}

Value round(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"precision", "method"});
  const std::int64_t precision = integer_or(runtime, bound[0], 0);
  if (!input.is_number() || precision < 0 || precision > 20)
    runtime.fail("round needs a number and a precision from 0 to 20");
  const std::string method = given(bound[1]) ? to_text(runtime, bound[1]).text() : "common";
  if (method == "common") {
    if (input.as_integer()) return Value::integer(*input.as_integer());
    // Printing rounds the exact value, half to even: the rule of Python's round().
    return Value::real(std::strtod(fmt::format("{:.{}f}", input.as_real(), precision).c_str(), nullptr));
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return Value::real(std::ceil(input.as_real() * scale) / scale);
  if (method == "floor") return Value::real(std::floor(input.as_real() * scale) / scale);
  runtime.fail("the method of round is common, ceil or floor");
}

constexpr std::array<Filter, 18> kFilters{{{"trim", trim},
                                           {"upper", casing_filter<Casing::kUpper>},
                                           {"lower", casing_filter<Casing::kLower>},
                                           {"title", casing_filter<Casing::kTitleFilter>},
                                           {"capitalize", casing_filter<Casing::kCapitalize>},
                                           {"replace", replace},
                                           {"string", string},
                                           {"safe", same},
                                           {"indent", indent},
                                           {"tojson", tojson},
                                           {"length", length},
                                           {"count", length},
                                           {"default", standard},
                                           {"d", standard},
                                           {"int", to_integer},
                                           {"float", to_real},
                                           {"abs", absolute},
                                           {"round", round}}};

}  // namespace

std::span<const Filter> value_filters() { return kFilters; }

Value apply_filter(Runtime& runtime, std::string_view name, const Value& input, const Arguments& arguments) {
  runtime.step();
  for (const std::span<const Filter> table : {value_filters(), list_filters()}) {
    const auto found = std::ranges::find(table, name, &Filter::name);
    if (found != table.end()) return found->apply(runtime, input, arguments);
  }
  runtime.fail(fmt::format("the filter '{}' is not supported", name));
}

}  // namespace kvasir::jinja
