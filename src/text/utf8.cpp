#include "text/utf8.h"

#include "base/check.h"

namespace kvasir {
namespace {

struct Lead {
  int size = 0;                     // of the whole character; 0: not a first byte
  unsigned char second_min = 0x80;  // what may follow the first byte: narrower than 80…BF where overlong forms,
  unsigned char second_max = 0xBF;  // surrogates and codes above U+10FFFF begin
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {};
  if (byte < 0xE0) return {2};
  if (byte < 0xF0) {
    return {3, static_cast<unsigned char>(byte == 0xE0 ? 0xA0 : 0x80),
            static_cast<unsigned char>(byte == 0xED ? 0x9F : 0xBF)};
  }
  if (byte < 0xF5) {
    return {4, static_cast<unsigned char>(byte == 0xF0 ? 0x90 : 0x80),
            static_cast<unsigned char>(byte == 0xF4 ? 0x8F : 0xBF)};
  }
  return {};
}

}  // namespace

Utf8Char utf8_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return {first, 1, Utf8Char::Kind::kWhole};
  const Lead lead = lead_of(first);
  if (lead.size == 0) return {0, 1, Utf8Char::Kind::kInvalid};
  auto code = static_cast<char32_t>(first & (0xFF >> (lead.size + 1)));
  for (int i = 1; i < lead.size; ++i) {
    if (at + static_cast<size_t>(i) >= text.size()) return {0, i, Utf8Char::Kind::kPartial};
    const unsigned char next = byte(at + static_cast<size_t>(i));
    const bool fits = i == 1 ? next >= lead.second_min && next <= lead.second_max : (next & 0xC0) == 0x80;
    if (!fits) return {0, i, Utf8Char::Kind::kInvalid};
    code = code << 6 | (next & 0x3F);
  }
  return {code, lead.size, Utf8Char::Kind::kWhole};
}

Utf8Char utf8_before(std::string_view text, size_t end) {
  CHECK(end > 0 && end <= text.size());
  for (size_t size = 1; size <= 4 && size <= end; ++size) {
    const Utf8Char c = utf8_at(text.substr(0, end), end - size);
    if (c.kind == Utf8Char::Kind::kWhole && static_cast<size_t>(c.size) == size) return c;
  }
  return {0, 1, Utf8Char::Kind::kInvalid};
}

size_t valid_run(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size()) {
    const Utf8Char c = utf8_at(text, end);
    if (c.kind != Utf8Char::Kind::kWhole) break;
    end += static_cast<size_t>(c.size);
  }
  return end - at;
}

size_t invalid_run(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size()) {
    const Utf8Char c = utf8_at(text, end);
    if (c.kind == Utf8Char::Kind::kWhole) break;
    end += static_cast<size_t>(c.size);
  }
  return end - at;
}

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&](char32_t byte) { out += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = utf8_at(text, at);
    const auto size = static_cast<size_t>(c.size);
    out += c.kind == Utf8Char::Kind::kWhole ? text.substr(at, size) : kReplacement;
    at += size;
  }
  return out;
}

}  // namespace kvasir
