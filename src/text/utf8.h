// UTF-8, read one character at a time, with a rule for what is not UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvasir {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

struct Utf8Char {
  enum class Kind : std::uint8_t {
    kWhole,    // a character of `size` bytes
    kInvalid,  // `size` bytes that begin no character: the longest such run that one U+FFFD stands for
    kPartial,  // the text ends inside a character that could still become whole; `size` bytes of it are there
  };
  char32_t code = 0;  // of a whole character
  int size = 0;       // at least 1
  Kind kind = Kind::kWhole;
};

// The character at `at`. REQUIRES: at < text.size().
Utf8Char utf8_at(std::string_view text, size_t at);

// The character that ends at `end`; kInvalid of size 1 where none does. REQUIRES: 0 < end <= text.size().
Utf8Char utf8_before(std::string_view text, size_t end);

// How many bytes of text[at…] are whole characters, up to the first that is not.
size_t valid_run(std::string_view text, size_t at);

// How many bytes of text[at…] lie before the next whole character.
size_t invalid_run(std::string_view text, size_t at);

void append_utf8(std::string& out, char32_t code);

// The text with one U+FFFD for each invalid sequence.
std::string to_valid_utf8(std::string_view text);

}  // namespace kvasir
