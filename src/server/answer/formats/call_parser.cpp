#include "server/answer/formats/call_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace kvasir {

Meets meets(std::string_view text, std::string_view mark) {
  if (text.starts_with(mark)) return Meets::kWhole;
  return mark.starts_with(text) ? Meets::kPart : Meets::kNot;
}

size_t unfinished_mark(std::string_view text, std::string_view mark) {
  if (mark.empty()) return 0;
  size_t most = std::min(mark.size() - 1, text.size());
  while (most > 0 && text.substr(text.size() - most) != mark.substr(0, most)) --most;
  return most;
}

size_t end_of_name(std::string_view text, size_t from) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.'; };
  while (from < text.size() && fits(static_cast<unsigned char>(text[from]))) ++from;
  return from;
}

size_t JsonScan::end_in(std::string_view text) {
  for (; seen_ < text.size(); ++seen_) {
    const char c = text[seen_];
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
      }
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{') {
      ++depth_;
    } else if (c == '}' && --depth_ <= 0) {
      return ++seen_;
    }
  }
  return 0;
}

std::string json_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  return out;
}

}  // namespace kvasir
