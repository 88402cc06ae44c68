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
  const bool markup = text.is_markup() && casing != Casing::kTitleFilter;
  return runtime.string(with_casing(text, casing).as_markup(markup));
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

Value safe(Runtime& runtime, const Value& input, const Arguments& arguments) {
  arguments.bind(runtime, {});
  return runtime.string(to_text(runtime, input).as_markup(true));
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
  if (input.as_string() == nullptr) runtime.fail(fmt::format("indent needs a string, not a {}", input.type_name()));
  MarkedString text = *input.as_string();
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
  return runtime.string(out.as_markup(text.is_markup()));
}

Value tojson(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii_only = truthy(bound[0]);
  style.sort_keys = truthy(bound[3]);
  if (given(bound[1])) {
    const MarkedString* text = bound[1].as_string();
    const std::int64_t spaces =
        text != nullptr ? 0 : std::clamp<std::int64_t>(integer_or(runtime, bound[1], 0), 0, 64);
    style.indent = text != nullptr ? text->text() : std::string(static_cast<size_t>(spaces), ' ');
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

// A number's text without white space around it and underscores between its digits; nullopt: these stand elsewhere.
std::optional<std::string> number_text(std::string_view text) {
  const TextRange inside = stripped(text, Side::kBoth);
  std::string out(text.substr(inside.begin, inside.size()));
  const auto digit = [&](size_t at) {
    return at < out.size() && std::isalnum(static_cast<unsigned char>(out[at])) != 0;
  };
  for (size_t at = out.find('_'); at != std::string::npos; at = out.find('_', at + 1)) {
    if (at == 0 || !digit(at - 1) || !digit(at + 1)) return std::nullopt;
  }
  std::erase(out, '_');
  if (out.starts_with('+') && !out.starts_with("+-")) out.erase(0, 1);
  return out;
}

// float("…") of Python; nullopt where it would raise.
std::optional<double> parse_real(std::string_view written) {
  const std::optional<std::string> text = number_text(written);
  if (!text) return std::nullopt;
  double value = 0;
  const auto [end, status] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (text->empty() || end != text->data() + text->size()) return std::nullopt;
  if (status == std::errc::result_out_of_range) return std::strtod(text->c_str(), nullptr);  // 0 or infinite
  return status == std::errc{} ? std::optional(value) : std::nullopt;
}

std::optional<std::int64_t> parse_integer(std::string_view written, int base) {
  std::optional<std::string> read = number_text(written);
  if (!read) return std::nullopt;
  std::string text = *read;
  const size_t sign = text.starts_with('-') ? 1 : 0;
  const std::string prefix = text.substr(sign, 2);
  const int named = prefix == "0x" || prefix == "0X"   ? 16
                    : prefix == "0o" || prefix == "0O" ? 8
                    : prefix == "0b" || prefix == "0B" ? 2
                                                       : 0;
  if (named == base) text.erase(sign, 2);
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || status != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Value to_integer(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"default", "base"});
  const std::int64_t base = integer_or(runtime, bound[1], 10);
  if (base < 2 || base > 36) runtime.fail("a base is between 2 and 36");
  if (input.is_undefined()) runtime.fail("int needs a value, and this is undefined");
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
  if (input.is_undefined()) runtime.fail("float needs a value, and this is undefined");
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

// Rounded to a multiple of 10^digits, half to even.
std::int64_t to_tens(std::int64_t value, std::int64_t digits) {
  std::int64_t unit = 1;
  for (; digits > 0; --digits) unit *= 10;
  const std::int64_t rest = (value % unit + unit) % unit;
  const std::int64_t low = value - rest;
  const bool up = rest > unit / 2 || (unit > 1 && rest == unit / 2 && (low / unit) % 2 != 0);
  return up ? low + unit : low;
}

Value round(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"precision", "method"});
  const std::int64_t precision = integer_or(runtime, bound[0], 0);
  if (!input.is_number() || precision < -18 || precision > 20)
    runtime.fail("round needs a number and a precision from -18 to 20");
  const std::string method = given(bound[1]) ? to_text(runtime, bound[1]).text() : "common";
  if (method == "common") {
    if (input.as_integer()) return Value::integer(to_tens(*input.as_integer(), -precision));
    if (precision < 0) {
      const double tens = std::pow(10.0, static_cast<double>(-precision));
      return Value::real(std::nearbyint(input.as_real() / tens) * tens);
    }
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
                                           {"safe", safe},
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

bool has_filter(std::string_view name) {
  return std::ranges::any_of(std::array{value_filters(), list_filters(), text_filters()}, [&](const auto& table) {
    return std::ranges::find(table, name, &Filter::name) != table.end();
  });
}

Value apply_filter(Runtime& runtime, std::string_view name, const Value& input, const Arguments& arguments) {
  runtime.step();
  for (const std::span<const Filter> table : {value_filters(), list_filters(), text_filters()}) {
    const auto found = std::ranges::find(table, name, &Filter::name);
    if (found != table.end()) return found->apply(runtime, input, arguments);
  }
  runtime.fail(fmt::format("the filter '{}' is not supported", name));
}

}  // namespace kvasir::jinja
