// Template source -> tokens, with the white-space rules that transformers sets: trim_blocks and
// lstrip_blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir::jinja {

struct Token {
  enum class Kind : std::uint8_t {
    kText,           // outside of tags
    kVariableBegin,  // {{
    kVariableEnd,
    kBlockBegin,  // {%
    kBlockEnd,
    kName,
    kString,    // text: its value
    kInteger,   // integer
    kReal,      // real
    kOperator,  // text: "+", "==", "(" …
    kEnd,
  };

  Kind kind = Kind::kEnd;
  std::string text;
  std::int64_t integer = 0;
  double real = 0;
  int line = 1;

  bool is(Kind wanted, std::string_view value) const { return kind == wanted && text == value; }
  bool is_operator(std::string_view value) const { return is(Kind::kOperator, value); }
  bool is_name(std::string_view value) const { return is(Kind::kName, value); }
};

// Ends with a kEnd token. Throws Error, with the line, for what is not a template. `where` names the
// template.
std::vector<Token> tokenize(std::string_view source, const std::string& where);

// What the inside of a quoted literal stands for, its escapes resolved as in Python. False for a malformed
// escape.
bool unescape(std::string_view quoted, std::string& out);

}  // namespace kvasir::jinja
