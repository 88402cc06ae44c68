#include "text/jinja/text_functions.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <utility>

#include "text/jinja/operations.h"
#include "text/utf8.h"

namespace kvasir::jinja {
namespace {

constexpr size_t kNone = std::string::npos;

std::string upper(std::string_view text) {
  std::string out;
  icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())))
      .toUpper(icu::Locale::getRoot())
      .toUTF8String(out);
  return out;
}

std::string lower(std::string_view text) {
  std::string out;
  icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())))
      .toLower(icu::Locale::getRoot())
      .toUTF8String(out);
  return out;
}

std::string folded(std::string_view text) {
  std::string out;
  icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())))
      .foldCase()
      .toUTF8String(out);
  return out;
}

std::string swapped(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = utf8_at(text, at);
    const std::string_view one = text.substr(at, static_cast<size_t>(c.size));
    const bool whole = c.kind == Utf8Char::Kind::kWhole;
    out += whole && u_isUUppercase(static_cast<UChar32>(c.code))   ? lower(one)
           : whole && u_isULowercase(static_cast<UChar32>(c.code)) ? upper(one)
                                                                   : std::string(one);
    at += one.size();
  }
  return out;
}

// The first character upper, the rest lower.
std::string capitalized(std::string_view text) {
  if (text.empty()) return {};
  const auto first = static_cast<size_t>(utf8_at(text, 0).size);
  return upper(text.substr(0, first)) + lower(text.substr(first));
}

// Capitalizes each run of characters of which `inside` is true.
template <class Inside>
std::string title(std::string_view text, Inside inside) {
  std::string out;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = begin;
    while (end < text.size() && inside(utf8_at(text, end))) end += static_cast<size_t>(utf8_at(text, end).size);
    if (end == begin) {
      end += static_cast<size_t>(utf8_at(text, end).size);
      out += text.substr(begin, end - begin);
    } else {
      out += capitalized(text.substr(begin, end - begin));
    }
    begin = end;
  }
  return out;
}

bool is_letter(const Utf8Char& c) {
  return c.kind == Utf8Char::Kind::kWhole &&
         (u_isUUppercase(static_cast<UChar32>(c.code)) || u_isULowercase(static_cast<UChar32>(c.code)) ||
          u_istitle(static_cast<UChar32>(c.code)));
}

// |title begins a word after any of these.
bool continues_word(const Utf8Char& c) {
  return c.kind != Utf8Char::Kind::kWhole || !(is_python_space(c.code) || c.code == '-' || c.code == '(' ||
                                               c.code == '{' || c.code == '[' || c.code == '<');
}

struct Gap {
  size_t begin, end;  // what is cut out
};

// The next separator or run of white space at or after `from`.
std::optional<Gap> next_gap(const MarkedString& text, const MarkedString* separator, size_t from) {
  if (separator != nullptr) {
    const size_t at = text.text().find(separator->text(), from);
    return at == kNone ? std::nullopt : std::optional(Gap{at, at + separator->size()});
  }
  const std::string_view all = text.text();
  const auto is_space = [&](size_t at) {
    const Utf8Char c = utf8_at(all, at);
    return c.kind == Utf8Char::Kind::kWhole && is_python_space(c.code);
  };
  size_t begin = from;
  while (begin < all.size() && !is_space(begin)) begin += static_cast<size_t>(utf8_at(all, begin).size);
  if (begin >= all.size()) return std::nullopt;
  size_t end = begin;
  while (end < all.size() && is_space(end)) end += static_cast<size_t>(utf8_at(all, end).size);
  return Gap{begin, end};
}

std::vector<TextRange> split_ranges(Runtime& runtime, const MarkedString& text, const MarkedString* separator,
                                    std::int64_t most) {
  if (separator != nullptr && separator->empty()) runtime.fail("split needs a separator that is not empty");
  std::vector<TextRange> ranges;
  const bool by_space = separator == nullptr;
  size_t begin = by_space ? stripped(text.text(), Side::kLeft).begin : 0;
  while (most < 0 || static_cast<std::int64_t>(ranges.size()) < most) {
    const std::optional<Gap> gap = next_gap(text, separator, begin);
    if (!gap) break;
    ranges.push_back({begin, gap->begin});
    begin = gap->end;
    runtime.step();
  }
  if (!by_space || begin < text.size()) ranges.push_back({begin, text.size()});
  return ranges;
}

}  // namespace

MarkedString with_casing(const MarkedString& text, Casing casing) {
  std::string out;
  switch (casing) {
    case Casing::kUpper:
      out = upper(text.text());
      break;
    case Casing::kLower:
      out = lower(text.text());
      break;
    case Casing::kCapitalize:
      out = capitalized(text.text());
      break;
    case Casing::kTitle:
      out = title(text.text(), is_letter);
      break;
    case Casing::kTitleFilter:
      out = title(text.text(), continues_word);
      break;
    case Casing::kSwap:
      out = swapped(text.text());
      break;
    case Casing::kFold:
      out = folded(text.text());
      break;
  }
  return MarkedString(out, text.origin()).as_markup(text.is_markup());
}

MarkedString replaced(Runtime& runtime, const MarkedString& text, const MarkedString& from, const MarkedString& to,
                      std::int64_t count) {
  MarkedString out;
  size_t done = 0;
  size_t look = 0;
  for (std::int64_t n = 0; count < 0 || n < count; ++n) {
    const size_t at = look > text.size() ? kNone : text.text().find(from.text(), look);
    if (at == kNone) break;
    runtime.step();
    runtime.build(to.size());
    out.append_range(text, {done, at});
    out.append(to);
    done = at + from.size();
    // An empty `from` is found before every character and at the end.
    look = !from.empty()      ? done
           : at < text.size() ? at + static_cast<size_t>(utf8_at(text.text(), at).size)
                              : text.size() + 1;
  }
  out.append_range(text, {done, text.size()});
  return out;
}

std::vector<Value> split(Runtime& runtime, const MarkedString& text, const MarkedString* separator,
                         std::int64_t most) {
  std::vector<Value> parts;
  for (TextRange range : split_ranges(runtime, text, separator, most))
    parts.push_back(runtime.string(text.slice(range)));
  return parts;
}

std::vector<Value> split_from_right(Runtime& runtime, const MarkedString& text, const MarkedString* separator,
                                    std::int64_t most) {
  std::vector<TextRange> ranges = split_ranges(runtime, text, separator, -1);
  if (most >= 0 && ranges.size() > static_cast<size_t>(most) + 1) {
    // All cuts but the last `most` are undone.
    const size_t merged = ranges.size() - static_cast<size_t>(most);
    ranges[merged - 1].begin = ranges[0].begin;
    ranges.erase(ranges.begin(), ranges.begin() + static_cast<std::ptrdiff_t>(merged) - 1);
  }
  std::vector<Value> parts;
  parts.reserve(ranges.size());
  for (const TextRange& range : ranges) parts.push_back(runtime.string(text.slice(range)));
  return parts;
}

std::vector<MarkedString> lines_of(const MarkedString& text, LineEnds line_ends) {
  std::vector<MarkedString> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = utf8_at(text.text(), at);
    auto size = static_cast<size_t>(c.size);
    const bool whole = c.kind == Utf8Char::Kind::kWhole;
    const bool ends = whole && ((c.code >= 0x0A && c.code <= 0x0D) || (c.code >= 0x1C && c.code <= 0x1E) ||
                                c.code == 0x85 || c.code == 0x2028 || c.code == 0x2029);
    if (ends) {
      if (c.code == '\r' && at + 1 < text.size() && text.text()[at + 1] == '\n') ++size;
      lines.push_back(text.slice({begin, line_ends == LineEnds::kKeep ? at + size : at}));
      begin = at + size;
    }
    at += size;
  }
  if (begin < text.size()) lines.push_back(text.slice({begin, text.size()}));
  return lines;
}

MarkedString centered(Runtime& runtime, const MarkedString& text, std::int64_t width, std::string_view fill) {
  const auto wide = static_cast<std::int64_t>(character_count(text.text()));
  if (width <= wide) return text;
  const std::int64_t room = width - wide;
  if (room > (1 << 20)) runtime.fail("a text is made too wide");
  runtime.build(static_cast<size_t>(room) * fill.size() + text.size());
  const std::int64_t left = room / 2 + (room & width & 1);
  MarkedString out;
  const auto add = [&](std::int64_t count) {
    for (; count > 0; --count) out.append(fill, Origin::kTemplate);
  };
  add(left);
  out.append(text);
  add(room - left);
  return out.as_markup(text.is_markup());
}

MarkedString joined(Runtime& runtime, const std::vector<Value>& items, const MarkedString& separator) {
  MarkedString out;
  bool first = true;
  for (const Value& item : items) {
    if (!std::exchange(first, false)) out.append(separator);
    const MarkedString text = to_text(runtime, item);
    runtime.build(text.size() + separator.size());
    out.append(text);
  }
  return out;
}

}  // namespace kvasir::jinja
