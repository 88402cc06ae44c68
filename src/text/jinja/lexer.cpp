#include "text/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "text/jinja/marked_string.h"
#include "text/utf8.h"

namespace kvasir::jinja {
namespace {

constexpr size_t kNone = std::string_view::npos;

// As Jinja reads a file: every kind of line end is "\n", and the last one is dropped.
std::string with_plain_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_name_byte(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || (c & 0x80) != 0; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& where) : source_(with_plain_newlines(source)), where_(where) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) text_until_tag();
    add(Token::Kind::kEnd);
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(std::string problem) const {
    fail_input(std::move(problem), fmt::format("{} line {}", where_, line_), "correct the chat template");
  }

  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool next_is(std::string_view text) const { return rest().substr(0, text.size()) == text; }

  void advance(size_t count) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + count), '\n'));
    at_ += count;
  }

  void skip_spaces() { advance(stripped(rest(), Side::kLeft).begin); }

  Token& add(Token::Kind kind, std::string_view text = {}) {
    Token& token = tokens_.emplace_back();
    token.kind = kind;
    token.text = std::string(text);
    token.line = line_;
    return token;
  }

  // How far the next tag is from here.
  size_t distance_to_tag() const {
    for (size_t open = source_.find('{', at_); open != kNone; open = source_.find('{', open + 1)) {
      const char second = open + 1 < source_.size() ? source_[open + 1] : ' ';
      if (second == '{' || second == '%' || second == '#') return open - at_;
    }
    return kNone;
  }

  void text_until_tag() {
    const size_t open = distance_to_tag();
    if (open == kNone) {
      add(Token::Kind::kText, rest());
      at_ = source_.size();
      return;
    }
    const char kind = source_[at_ + open + 1];
    const char sign = at_ + open + 2 < source_.size() ? source_[at_ + open + 2] : ' ';
    add_text(rest().substr(0, open), sign, kind == '{' ? Opens::kVariable : Opens::kBlock);
    advance(open + 2 + (sign == '-' || sign == '+' ? 1 : 0));
    if (kind == '#') {
      comment();
    } else if (kind == '{') {
      tag(Token::Kind::kVariableBegin, Token::Kind::kVariableEnd, "}}");
    } else if (!raw_block()) {
      tag(Token::Kind::kBlockBegin, Token::Kind::kBlockEnd, "%}");
    }
  }

  enum class Opens { kVariable, kBlock };  // kBlock: or a comment

  // The text before a tag, less what the tag's sign or lstrip_blocks, which spares variables, takes from its end.
  void add_text(std::string_view text, char sign, Opens tag) {
    if (sign == '-') {
      text = text.substr(0, stripped(text, Side::kRight).end);
    } else if (sign != '+' && tag != Opens::kVariable) {
      const size_t newline = text.rfind('\n');
      const size_t line_begin = newline == kNone ? 0 : newline + 1;
      const bool at_line_begin = newline != kNone || line_starting_;
      if (at_line_begin && stripped(text.substr(line_begin), Side::kBoth).size() == 0)
        text = text.substr(0, line_begin);
    }
    if (!text.empty()) add(Token::Kind::kText, text);
  }

  // Takes the end of a tag, and what trim_blocks or its sign takes from the text after it. False: this is no
  // end.
  bool end_of_tag(std::string_view close) {
    const bool variable = close == "}}";
    const size_t begin = at_;
    if (next_is(std::string("-").append(close))) {
      advance(1 + close.size());
      skip_spaces();
    } else if (!variable && next_is(std::string("+").append(close))) {
      advance(1 + close.size());
    } else if (next_is(close)) {
      advance(close.size());
      if (!variable && next_is("\n")) advance(1);
    } else {
      return false;
    }
    line_starting_ = at_ > begin && source_[at_ - 1] == '\n';
    return true;
  }

  void comment() {
    while (at_ < source_.size()) {
      if (end_of_tag("#}")) return;
      advance(1);
    }
    fail("a comment is not closed");
  }

  // After "{%": {% raw %}…{% endraw %}, whose inside is text.
  bool raw_block() {
    const size_t saved_at = at_;
    const int saved_line = line_;
    skip_spaces();
    const bool named = next_is("raw") && !(at_ + 3 < source_.size() && is_name_byte(source_[at_ + 3]));
    if (named) {
      advance(3);
      skip_spaces();
    }
    if (!named || !(next_is("%}") || next_is("-%}"))) {
      at_ = saved_at;
      line_ = saved_line;
      return false;
    }
    const bool strip = next_is("-");
    advance(strip ? 3 : 2);
    const size_t before_spaces = at_;
    if (strip) skip_spaces();
    line_starting_ = at_ > before_spaces && source_[at_ - 1] == '\n';
    for (size_t open = rest().find("{%"); open != kNone; open = rest().find("{%", open + 2)) {
      if (names_endraw(at_ + open + 2)) return end_raw(open);
    }
    fail("a raw block is not closed");
  }

  // Whether the tag whose inside begins at `at` is endraw, with nothing after it. Looks without moving: it is
  // asked for every tag inside a raw block.
  bool names_endraw(size_t at) const {
    const std::string_view all = source_;
    if (at < all.size() && (all[at] == '-' || all[at] == '+')) ++at;
    at += stripped(all.substr(at), Side::kLeft).begin;
    if (all.substr(at, 6) != "endraw") return false;
    at += 6;
    at += stripped(all.substr(at), Side::kLeft).begin;
    if (at < all.size() && (all[at] == '-' || all[at] == '+')) ++at;
    return all.substr(at, 2) == "%}";
  }

  bool end_raw(size_t open) {
    const std::string_view text = rest().substr(0, open);
    const char sign = source_[at_ + open + 2];
    add_text(text, sign, Opens::kBlock);
    advance(open + 2 + (sign == '-' || sign == '+' ? 1 : 0));
    skip_spaces();
    advance(std::string_view("endraw").size());
    skip_spaces();
    return end_of_tag("%}");
  }

  void tag(Token::Kind begin, Token::Kind end, std::string_view close) {
    add(begin);
    std::string open_brackets;
    while (true) {
      skip_spaces();
      if (at_ >= source_.size()) fail("a tag is not closed");
      if (open_brackets.empty()) {
        const int line = line_;
        if (end_of_tag(close)) {
          add(end).line = line;
          return;
        }
      }
      expression_token(open_brackets);
    }
  }

  void expression_token(std::string& open_brackets) {
    const char c = source_[at_];
    if (is_digit(c)) {
      number();
    } else if (is_name_byte(c)) {
      const auto* end = std::find_if_not(rest().begin(), rest().end(), is_name_byte);
      const auto size = static_cast<size_t>(end - rest().begin());
      add(Token::Kind::kName, rest().substr(0, size));
      advance(size);
    } else if (c == '\'' || c == '"') {
      string_literal(c);
    } else {
      operator_token(open_brackets);
    }
  }

  void string_literal(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail("a string is not closed");
    std::string value;
    if (!unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1), value))
      fail("a string has a malformed escape");
    add(Token::Kind::kString, value);
    advance(end + 1 - at_);
  }

  size_t digits_from(size_t at, bool (*is)(char)) const {
    while (at < source_.size() &&
           (is(source_[at]) || (source_[at] == '_' && at + 1 < source_.size() && is(source_[at + 1])))) {
      ++at;
    }
    return at;
  }

  void number() {
    static constexpr std::string_view kPrefixes = "xXoObB";
    const char second = at_ + 1 < source_.size() ? source_[at_ + 1] : ' ';
    if (source_[at_] == '0' && kPrefixes.find(second) != kNone) {
      const int base = second == 'x' || second == 'X' ? 16 : second == 'o' || second == 'O' ? 8 : 2;
      const size_t end =
          digits_from(at_ + 2, [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; });
      integer(at_ + 2, end, base);
      return;
    }
    const size_t whole = digits_from(at_, is_digit);
    size_t end = whole;
    if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1]))
      end = digits_from(end + 1, is_digit);
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      size_t exponent = end + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
      if (exponent < source_.size() && is_digit(source_[exponent])) end = digits_from(exponent, is_digit);
    }
    const bool after_dot = !tokens_.empty() && tokens_.back().is_operator(".");
    if (end == whole || after_dot) {
      integer(at_, whole, 10);
    } else {
      real(end);
    }
  }

  std::string plain_digits(size_t begin, size_t end) const {
    std::string digits = source_.substr(begin, end - begin);
    std::erase(digits, '_');
    return digits;
  }

  void integer(size_t begin, size_t end, int base) {
    const std::string digits = plain_digits(begin, end);
    Token& token = add(Token::Kind::kInteger);
    const auto [stop, status] = std::from_chars(digits.data(), digits.data() + digits.size(), token.integer, base);
    if (status != std::errc{} || stop != digits.data() + digits.size()) fail("a number is malformed or too large");
    advance(end - at_);
  }

  void real(size_t end) {
    const std::string digits = plain_digits(at_, end);
    Token& token = add(Token::Kind::kReal);
    const auto [stop, status] = std::from_chars(digits.data(), digits.data() + digits.size(), token.real);
    if (stop != digits.data() + digits.size()) fail("a number is malformed");
    if (status == std::errc::result_out_of_range) token.real = std::strtod(digits.c_str(), nullptr);  // 0 or infinite
    advance(end - at_);
  }

  void operator_token(std::string& open_brackets) {
    static constexpr std::array<std::string_view, 6> kLong{"//", "**", "==", "!=", ">=", "<="};
    const auto* found = std::ranges::find_if(kLong, [&](std::string_view op) { return next_is(op); });
    const std::string text = found != kLong.end() ? std::string(*found) : source_.substr(at_, 1);
    if (found == kLong.end() && std::string_view("+-*/%~[](){}><=.:|,").find(text[0]) == kNone) {
      fail(fmt::format("'{}' has no meaning here", text));
    }
    if (text == "(") open_brackets += ')';
    if (text == "[") open_brackets += ']';
    if (text == "{") open_brackets += '}';
    if (text == ")" || text == "]" || text == "}") {
      if (open_brackets.empty() || open_brackets.back() != text[0]) fail(fmt::format("'{}' closes nothing", text));
      open_brackets.pop_back();
    }
    add(Token::Kind::kOperator, text);
    advance(text.size());
  }

  const std::string source_;
  const std::string& where_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the text that follows begins a line: a tag's end took the newline
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, const std::string& where) { return Lexer(source, where).run(); }

bool unescape(std::string_view quoted, std::string& out) {
  static constexpr std::string_view kNames = "\n\\'\"abfnrtv";
  static constexpr std::string_view kValues = "\0\\'\"\a\b\f\n\r\t\v";
  for (size_t i = 0; i < quoted.size(); ++i) {
    if (quoted[i] != '\\' || i + 1 >= quoted.size()) {
      out += quoted[i];
      continue;
    }
    const char c = quoted[++i];
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    const size_t octal = std::min<size_t>(3, quoted.substr(i).find_first_not_of("01234567") == kNone
                                                 ? quoted.size() - i
                                                 : quoted.substr(i).find_first_not_of("01234567"));
    if (digits > 0 || octal > 0) {
      const std::string_view code = quoted.substr(digits > 0 ? i + 1 : i, digits > 0 ? digits : octal);
      std::uint32_t value = 0;
      const auto [stop, status] = std::from_chars(code.data(), code.data() + code.size(), value, digits > 0 ? 16 : 8);
      const bool whole = status == std::errc{} && stop == code.data() + code.size() && code.size() >= digits;
      if (!whole || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return false;
      append_utf8(out, value);
      i += digits > 0 ? digits : octal - 1;
    } else if (c == '\n') {
      continue;  // a line that goes on
    } else if (const size_t named = kNames.find(c); named != kNone) {
      out += kValues[named];
    } else {
      out += '\\';
      out += c;
    }
  }
  return true;
}

}  // namespace kvasir::jinja
