// How values look as text: str(), repr() and JSON.
#include <fmt/format.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "text/jinja/function.h"
#include "text/jinja/operations.h"
#include "text/utf8.h"

namespace kvasir::jinja {
namespace {

constexpr Origin kOurs = Origin::kTemplate;

bool is_printable(char32_t code) {
  constexpr std::uint32_t kNot = U_GC_C_MASK | U_GC_Z_MASK;
  return code == ' ' || (U_GET_GC_MASK(static_cast<UChar32>(code)) & kNot) == 0;
}

std::string escaped_for_repr(const Utf8Char& c, std::string_view bytes, char quote) {
  if (c.kind != Utf8Char::Kind::kWhole) return std::string(bytes);
  if (c.code == '\n') return "\\n";
  if (c.code == '\r') return "\\r";
  if (c.code == '\t') return "\\t";
  if (c.code == '\\' || c.code == static_cast<unsigned char>(quote))
    return std::string("\\") + static_cast<char>(c.code);
  if (is_printable(c.code)) return std::string(bytes);
  const auto code = static_cast<std::uint32_t>(c.code);
  return code < 0x100     ? fmt::format("\\x{:02x}", code)
         : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                          : fmt::format("\\U{:08x}", code);
}

void append_string_repr(Runtime& runtime, const MarkedString& text, MarkedString& out) {
  const bool single = text.text().find('\'') != std::string::npos;
  const char quote = single && text.text().find('"') == std::string::npos ? '"' : '\'';
  std::string inside;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = utf8_at(text.text(), at);
    const auto size = static_cast<size_t>(c.size);
    inside += escaped_for_repr(c, std::string_view(text.text()).substr(at, size), quote);
    at += size;
  }
  runtime.build(inside.size());
  out.append(std::string(1, quote), kOurs);
  out.append(inside, text.origin());
  out.append(std::string(1, quote), kOurs);
}

void append_list_repr(Runtime& runtime, const List& list, MarkedString& out) {
  const bool tuple = list.kind == List::Kind::kTuple;
  out.append(tuple ? "(" : "[", kOurs);
  bool first = true;
  for (const Value& item : list.items) {
    if (!std::exchange(first, false)) out.append(", ", kOurs);
    append_repr(runtime, item, out);
  }
  out.append(tuple ? (list.items.size() == 1 ? ",)" : ")") : "]", kOurs);
}

void append_dict_repr(Runtime& runtime, const Dict& dict, MarkedString& out) {
  out.append("{", kOurs);
  bool first = true;
  for (const auto& [key, value] : dict.items) {
    if (!std::exchange(first, false)) out.append(", ", kOurs);
    append_repr(runtime, key, out);
    out.append(": ", kOurs);
    append_repr(runtime, value, out);
  }
  out.append("}", kOurs);
}

std::string json_escape(char32_t code) {
  const auto unit = static_cast<std::uint32_t>(code);
  if (unit < 0x10000) return fmt::format("\\u{:04x}", unit);
  return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((unit - 0x10000) >> 10), 0xDC00 + ((unit - 0x10000) & 0x3FF));
}

std::string in_ascii(std::string_view json) {
  std::string out;
  for (size_t at = 0; at < json.size();) {
    const Utf8Char c = utf8_at(json, at);
    const auto size = static_cast<size_t>(c.size);
    if (c.kind == Utf8Char::Kind::kWhole && c.code >= 0x7F) {
      out += json_escape(c.code);
    } else {
      out += json.substr(at, size);
    }
    at += size;
  }
  return out;
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    static constexpr std::string_view kEscaped = "\"\\\n\r\t\b\f";
    static constexpr std::string_view kLetters = "\"\\nrtbf";
    if (const size_t at = kEscaped.find(c); at != std::string_view::npos) {
      out += '\\';
      out += kLetters[at];
    } else if (byte < 0x20) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style, MarkedString& out)
      : runtime_(runtime), style_(style), out_(out) {}

  void write(const Value& value) {
    runtime_.step();
    if (value.is_none()) {
      out_.append("null", kOurs);
    } else if (value.is_boolean()) {
      out_.append(value.as_boolean() ? "true" : "false", kOurs);
    } else if (value.is_integer()) {
      out_.append(fmt::format("{}", *value.as_integer()), kOurs);
    } else if (value.is_real()) {
      out_.append(json_real(value.as_real()), kOurs);
    } else if (const MarkedString* text = value.as_string()) {
      string(*text);
    } else if (const List* list = value.as_list(); list != nullptr && list->kind != List::Kind::kGenerator) {
      array(*list);
    } else if (const Dict* dict = value.as_dict()) {
      object(*dict);
    } else {
      runtime_.fail(fmt::format("a {} has no JSON form", value.type_name()));
    }
  }

 private:
  static std::string json_real(double value) {
    if (std::isnan(value)) return "NaN";
    return std::isinf(value) ? (value > 0 ? "Infinity" : "-Infinity") : real_text(value);
  }

  void string(const MarkedString& text) {
    std::string json = json_string(text.text());
    if (style_.ascii_only) json = in_ascii(json);
    runtime_.build(json.size());
    out_.append(json, text.origin());
  }

  void array(const List& list) {
    open("[", list.items.empty());
    bool first = true;
    for (const Value& item : list.items) {
      separate(std::exchange(first, false));
      write(item);
    }
    close("]", list.items.empty());
  }

  void object(const Dict& dict) {
    open("{", dict.items.empty());
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict.items) items.push_back(&item);
    if (style_.sort_keys) {
      std::ranges::stable_sort(
          items, [&](const auto* a, const auto* b) { return runtime_.compare(a->first, b->first) < 0; });
    }
    bool first = true;
    for (const auto* item : items) {
      separate(std::exchange(first, false));
      key(item->first);
      out_.append(style_.key_separator, kOurs);
      write(item->second);
    }
    close("}", dict.items.empty());
  }

  // Keys that are no strings are written as JSON would write their values, in quotes.
  void key(const Value& key) {
    if (const MarkedString* text = key.as_string()) return string(*text);
    out_.append("\"", kOurs);
    write(key);
    out_.append("\"", kOurs);
  }

  void open(std::string_view bracket, bool empty) {
    out_.append(bracket, kOurs);
    ++level_;
    if (!empty) new_line();
  }

  void close(std::string_view bracket, bool empty) {
    --level_;
    if (!empty) new_line();
    out_.append(bracket, kOurs);
  }

  void separate(bool first) {
    if (first) return;
    out_.append(style_.item_separator, kOurs);
    new_line();
  }

  void new_line() {
    if (!style_.indent) return;
    out_.append("\n", kOurs);
    runtime_.build(style_.indent->size() * static_cast<size_t>(level_));
    for (int i = 0; i < level_; ++i) out_.append(*style_.indent, kOurs);
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  MarkedString& out_;
  int level_ = 0;
};

}  // namespace

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 400> buffer{};
  // Python switches to an exponent below 1e-4 and from 1e16 on.
  const double size = std::fabs(value);
  const bool exponent = size != 0 && (size < 1e-4 || size >= 1e16);
  const auto format = exponent ? std::chars_format::scientific : std::chars_format::fixed;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format);
  std::string text(buffer.data(), end.ptr);
  if (!exponent && text.find('.') == std::string::npos) text += ".0";
  return text;
}

void append_repr(Runtime& runtime, const Value& value, MarkedString& out) {
  runtime.step();
  runtime.build(16);
  if (value.is_undefined()) {
    out.append("Undefined", kOurs);
  } else if (value.is_none()) {
    out.append("None", kOurs);
  } else if (value.is_boolean()) {
    out.append(value.as_boolean() ? "True" : "False", kOurs);
  } else if (value.is_integer()) {
    out.append(fmt::format("{}", *value.as_integer()), kOurs);
  } else if (value.is_real()) {
    out.append(real_text(value.as_real()), kOurs);
  } else if (const MarkedString* text = value.as_string()) {
    append_string_repr(runtime, *text, out);
  } else if (const List* list = value.as_list(); list != nullptr && list->kind != List::Kind::kGenerator) {
    append_list_repr(runtime, *list, out);
  } else if (const Dict* dict = value.as_dict()) {
    append_dict_repr(runtime, *dict, out);
  } else {
    out.append(fmt::format("<{}>", value.type_name()), kOurs);
  }
}

MarkedString to_text(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) return {};
  if (const MarkedString* text = value.as_string()) return *text;
  MarkedString out;
  append_repr(runtime, value, out);
  return out;
}

void append_json(Runtime& runtime, const Value& value, const JsonStyle& style, MarkedString& out) {
  JsonWriter(runtime, style, out).write(value);
}

}  // namespace kvasir::jinja
