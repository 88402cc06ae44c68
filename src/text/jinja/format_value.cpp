// One value by a format's rules: digits, signs, groups and padding.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "text/jinja/format_text.h"
#include "text/jinja/operations.h"
#include "text/utf8.h"

namespace kvasir::jinja {
namespace {

constexpr std::int64_t kLongestPrecision = 512;

void check_spec(Runtime& runtime, const FormatSpec& spec) {
  if (spec.precision.value_or(0) > kLongestPrecision) runtime.fail("a format's precision is too large");
  runtime.build(static_cast<size_t>(spec.width) * 4);
}

std::string in_groups(const std::string& digits, char separator, size_t size) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % size == 0) out += separator;
    out += digits[i];
  }
  return out;
}

MarkedString padded(const MarkedString& text, const FormatSpec& spec, char standard) {
  const auto wide = static_cast<std::int64_t>(character_count(text.text()));
  if (wide >= spec.width) return text;
  const std::int64_t room = spec.width - wide;
  const char align = spec.align == 0 ? standard : spec.align;
  const std::int64_t left = align == '<' ? 0 : align == '^' ? room / 2 : room;
  MarkedString out;
  const auto fill = [&](std::int64_t count) {
    for (; count > 0; --count) out.append(spec.fill, Origin::kTemplate);
  };
  fill(left);
  out.append(text);
  fill(room - left);
  return out;
}

// `digits` without a sign; '=' pads between both.
MarkedString number_in_format(const FormatSpec& spec, bool negative, const std::string& prefix, std::string digits) {
  std::string front = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  front += prefix;
  if (spec.align == '=' || (spec.align == 0 && spec.zeros)) {
    const auto wide = static_cast<std::int64_t>(front.size() + digits.size());
    for (std::int64_t i = wide; i < spec.width; ++i) front += spec.fill;
  }
  return padded(MarkedString(front + digits, Origin::kTemplate), spec, '>');
}

std::string grouped(const std::string& digits, const FormatSpec& spec, size_t size) {
  if (spec.grouping == 0) return digits;
  const size_t end = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  return in_groups(digits.substr(0, end), spec.grouping, size) + digits.substr(end);
}

MarkedString integer_in_format(Runtime& runtime, std::int64_t value, const FormatSpec& spec) {
  const bool negative = value < 0;
  const std::uint64_t size = negative ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  if (spec.precision) runtime.fail("a whole number has no precision");
  switch (spec.type) {
    case 'c': {
      std::string text;
      if (value < 0 || value > 0x10FFFF) runtime.fail("there is no such character");
      append_utf8(text, static_cast<char32_t>(value));
      return padded(MarkedString(text, Origin::kTemplate), spec, '>');
    }
    case 'b':
      return number_in_format(spec, negative, spec.other_form ? "0b" : "",
                              grouped(fmt::format("{:b}", size), spec, 4));
    case 'o':
      return number_in_format(spec, negative, spec.other_form ? "0o" : "",
                              grouped(fmt::format("{:o}", size), spec, 4));
    case 'x':
      return number_in_format(spec, negative, spec.other_form ? "0x" : "",
                              grouped(fmt::format("{:x}", size), spec, 4));
    case 'X':
      return number_in_format(spec, negative, spec.other_form ? "0X" : "",
                              grouped(fmt::format("{:X}", size), spec, 4));
    default:
      return number_in_format(spec, negative, "", grouped(fmt::format("{}", size), spec, 3));
  }
}

// Without a type: like %g, with a digit behind the point, and an exponent where there would be no room for one.
std::string shortest_digits(double size, int precision) {
  std::string digits = fmt::format("{:.{}e}", size, precision - 1);
  const size_t mark = digits.find('e');
  const int exponent = std::stoi(digits.substr(mark + 1));
  if (exponent >= -4 && exponent + 1 <= precision - 1) {
    std::string plain = fmt::format("{:.{}g}", size, precision);
    return plain.find('.') == std::string::npos ? plain + ".0" : plain;
  }
  std::string front = digits.substr(0, mark);
  if (front.find('.') != std::string::npos) front.erase(front.find_last_not_of('0') + 1);
  if (front.ends_with('.')) front.pop_back();
  return front + digits.substr(mark);
}

std::string real_digits(Runtime& runtime, double size, const FormatSpec& spec) {
  if (std::isnan(size) || std::isinf(size)) {
    const bool upper = spec.type == 'E' || spec.type == 'F' || spec.type == 'G';
    return std::isnan(size) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf");
  }
  if (spec.type == 0 && !spec.precision) return real_text(size);
  const int precision = static_cast<int>(spec.precision.value_or(6));
  if (spec.type == 0) return shortest_digits(size, std::max(precision, 1));
  const char type = spec.type == '%' ? 'f' : spec.type == 'n' ? 'g' : spec.type;
  const std::string rule = std::string("%") + (spec.other_form ? "#" : "") + ".*" + type;
  std::array<char, 1024> buffer{};
  const int length = std::snprintf(buffer.data(), buffer.size(), rule.c_str(), precision, size);
  if (length < 0 || static_cast<size_t>(length) >= buffer.size()) runtime.fail("a number is too long");
  return {buffer.data(), static_cast<size_t>(length)};
}

MarkedString real_in_format(Runtime& runtime, double value, const FormatSpec& spec) {
  const double shown = spec.type == '%' ? value * 100 : value;
  std::string digits = grouped(real_digits(runtime, std::fabs(shown), spec), spec, 3);
  if (spec.type == '%') digits += '%';
  return number_in_format(spec, std::signbit(shown) && !std::isnan(shown), "", std::move(digits));
}

MarkedString text_in_format(Runtime& runtime, const MarkedString& value, const FormatSpec& spec) {
  if (spec.type != 0 && spec.type != 's') runtime.fail(fmt::format("a str has no format '{}'", spec.type));
  if (spec.align == '=' || spec.sign != '-' || spec.grouping != 0 || spec.other_form)
    runtime.fail("a str has no signs or groups");
  if (!spec.precision) return padded(value, spec, '<');
  const std::vector<size_t> starts = character_starts(value.text());
  const size_t kept = std::min(static_cast<size_t>(*spec.precision), starts.size() - 1);
  return padded(value.slice({0, starts[kept]}), spec, '<');
}

}  // namespace

MarkedString formatted(Runtime& runtime, const Value& value, const FormatSpec& spec) {
  constexpr std::string_view kReal = "eEfFgG%";
  constexpr std::string_view kWhole = "bcdoxXn";
  check_spec(runtime, spec);
  if (const MarkedString* string = value.as_string()) return text_in_format(runtime, *string, spec);
  const bool plain = spec.type == 0 && spec.width == 0 && !spec.precision && spec.grouping == 0 && spec.sign == '-';
  if (plain || !value.is_number()) {
    if (!plain) runtime.fail(fmt::format("a {} has no such format", value.type_name()));
    return to_text(runtime, value);
  }
  if (spec.type == 's') runtime.fail("a number has no format 's'");
  const bool as_real = value.is_real() || (spec.type != 0 && kReal.find(spec.type) != std::string_view::npos);
  if (as_real) {
    if (spec.type != 0 && spec.type != 'n' && kReal.find(spec.type) == std::string_view::npos)
      runtime.fail(fmt::format("a float has no format '{}'", spec.type));
    return real_in_format(runtime, value.as_real(), spec);
  }
  if (spec.type != 0 && kWhole.find(spec.type) == std::string_view::npos)
    runtime.fail(fmt::format("there is no format '{}'", spec.type));
  return integer_in_format(runtime, *value.as_integer(), spec);
}

}  // namespace kvasir::jinja
