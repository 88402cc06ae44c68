#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/error.h"
#include "grammar/regex.h"

namespace kvasir::grammar {
namespace {

constexpr int kMaxGroupDepth = 64;
constexpr std::uint32_t kMaxCount = 1'000'000;
constexpr std::size_t kMaxPattern = 16'384;

CodePointSet digits() { return {{U'0', U'9'}}; }
CodePointSet word_characters() { return {{U'0', U'9'}, {U'A', U'Z'}, {U'_', U'_'}, {U'a', U'z'}}; }
CodePointSet spaces() {
  return {{0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
          {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
}
CodePointSet line_breaks() { return {{0x0A, 0x0A}, {0x0D, 0x0D}, {0x2028, 0x2029}}; }

Regex one_of(CodePointSet set) { return {.kind = Regex::Kind::kSet, .set = std::move(set), .parts = {}}; }

class PatternParser {
 public:
  PatternParser(std::string_view pattern, const std::string& where) : rest_(pattern), where_(where) {}

  Regex parse() {
    Regex all = alternatives(0);
    if (!rest_.empty()) fail("a ')' without its '('");
    return all;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    fail_input(fmt::format("the pattern has {}", what), where_,
               "see docs/structured-output.md for what is supported");
  }

  bool next_is(char c) const { return !rest_.empty() && rest_.front() == c; }
  bool take(char c) {
    if (!next_is(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  char32_t take_character() {
    const std::optional<char32_t> character = take_utf8(rest_);
    if (!character) fail(rest_.empty() ? "an end where more should follow" : "bytes that are not UTF-8");
    return *character;
  }

  Regex alternatives(int depth) {
    if (depth > kMaxGroupDepth) fail("groups nested too deep");
    Regex out{.kind = Regex::Kind::kAlternatives, .set = {}, .parts = {}};
    do {
      out.parts.push_back(sequence(depth));
    } while (take('|'));
    return out;
  }

  Regex sequence(int depth) {
    Regex out{.kind = Regex::Kind::kSequence, .set = {}, .parts = {}};
    while (!rest_.empty() && !next_is('|') && !next_is(')')) {
      if (take('^')) {
        out.parts.push_back({.kind = Regex::Kind::kBegin, .set = {}, .parts = {}});
      } else if (take('$')) {
        out.parts.push_back({.kind = Regex::Kind::kEnd, .set = {}, .parts = {}});
      } else {
        out.parts.push_back(repeated(item(depth)));
      }
    }
    return out;
  }

  Regex item(int depth) {
    if (take('(')) return group(depth);
    if (take('[')) return one_of(char_class());
    if (take('.')) return one_of(line_breaks().complement());
    if (take('\\')) {
      if (std::optional<CodePointSet> set = class_escape()) return one_of(*std::move(set));
      const char32_t c = character_escape("");
      return one_of({{c, c}});
    }
    if (next_is('*') || next_is('+') || next_is('?') || next_is('{')) fail("a repetition of nothing");
    const char32_t c = take_character();
    return one_of({{c, c}});
  }

  Regex group(int depth) {
    if (!take('?') || take(':')) return inside_group(depth);
    if (take('=')) return look(Regex::Kind::kAhead, inside_group(depth));
    if (take('!')) return look(Regex::Kind::kAhead, regex_of(Regex::Kind::kNot, {inside_group(depth)}));
    if (!take('<')) fail("a kind of group that is not supported");
    if (take('=')) return look(Regex::Kind::kBehind, inside_group(depth));
    if (take('!')) return look(Regex::Kind::kBehind, regex_of(Regex::Kind::kNot, {inside_group(depth)}));
    while (!take('>')) take_character();
    return inside_group(depth);
  }

  Regex look(Regex::Kind kind, Regex what) {
    if (next_is('*') || next_is('+') || next_is('?') || next_is('{')) fail("a look-around that is repeated");
    return regex_of(kind, {std::move(what)});
  }

  Regex inside_group(int depth) {
    Regex inside = alternatives(depth + 1);
    if (!take(')')) fail("a '(' without its ')'");
    return inside;
  }

  Regex repeated(Regex what) {
    std::uint32_t least = 0;
    std::uint32_t most = Regex::kNoLimit;
    if (take('+')) {
      least = 1;
    } else if (take('?')) {
      most = 1;
    } else if (take('{')) {
      least = count();
      if (!take(',')) {
        most = least;
      } else if (!next_is('}')) {
        most = count();
      }
      if (!take('}') || most < least) fail("a wrong {m,n}");
    } else if (!take('*')) {
      return what;
    }
    take('?');  // a lazy one matches the same texts
    if (next_is('*') || next_is('+') || next_is('?') || next_is('{')) fail("a repetition of a repetition");
    Regex out{.kind = Regex::Kind::kRepeat, .set = {}, .parts = {}, .least = least, .most = most};
    out.parts.push_back(std::move(what));
    return out;
  }

  std::uint32_t count() {
    std::uint32_t value = 0;
    if (rest_.empty() || rest_.front() < '0' || rest_.front() > '9') fail("a wrong {m,n}");
    while (!rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9') {
      value = value * 10 + static_cast<std::uint32_t>(rest_.front() - '0');
      if (value > kMaxCount) fail("a repetition that counts too far");
      rest_.remove_prefix(1);
    }
    return value;
  }

  // After a backslash: \d and its like, or nullopt.
  std::optional<CodePointSet> class_escape() {
    if (take('d')) return digits();
    if (take('D')) return digits().complement();
    if (take('w')) return word_characters();
    if (take('W')) return word_characters().complement();
    if (take('s')) return spaces();
    if (take('S')) return spaces().complement();
    return std::nullopt;
  }

  // After a backslash: one character. `letters`: those that stand for themselves here.
  char32_t character_escape(std::string_view letters) {
    const char32_t c = take_character();
    switch (c) {
      case U't':
        return U'\t';
      case U'n':
        return U'\n';
      case U'r':
        return U'\r';
      case U'f':
        return U'\f';
      case U'v':
        return U'\v';
      case U'x':
        return hex(2);
      case U'u':
        return code_unit();
      default:
        break;
    }
    const bool alphanumeric = (c >= U'0' && c <= U'9') || (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z');
    if (c == U'b' && letters == "b") return U'\b';
    if (alphanumeric) fail(fmt::format("\\{}, which is not supported", static_cast<char>(c)));
    return c;
  }

  char32_t hex(int count) {
    char32_t value = 0;
    for (; count > 0; --count) {
      const char32_t c = take_character();
      const bool letter = (c >= U'a' && c <= U'f') || (c >= U'A' && c <= U'F');
      if (!letter && (c < U'0' || c > U'9')) fail("a wrong \\x or \\u");
      value = value * 16 + (letter ? (c | 0x20) - U'a' + 10 : c - U'0');
    }
    return value;
  }

  // \uHHHH, or two of them for a character past U+FFFF.
  char32_t code_unit() {
    const char32_t high = hex(4);
    if (high < 0xD800 || high > 0xDFFF) return high;
    if (high > 0xDBFF || !take("\\u")) fail("half of a surrogate pair");
    const char32_t low = hex(4);
    if (low < 0xDC00 || low > 0xDFFF) fail("half of a surrogate pair");
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }

  CodePointSet char_class() {
    const bool negative = take('^');
    CodePointSet set;
    while (!take(']')) {
      if (take('\\')) {
        if (const std::optional<CodePointSet> several = class_escape()) {
          set.add(*several);
          if (next_is('-') && !rest_.starts_with("-]")) fail("a range that begins with a class");
          continue;
        }
        add_range(set, character_escape("b"));
      } else {
        add_range(set, take_character());
      }
    }
    return negative ? set.complement() : set;
  }

  void add_range(CodePointSet& set, char32_t low) {
    if (rest_.starts_with("-]") || !take('-')) return set.add(low, low);
    char32_t high = 0;
    if (take('\\')) {
      if (class_escape()) fail("a range that ends with a class");
      high = character_escape("b");
    } else {
      high = take_character();
    }
    if (high < low) fail("a range that runs backwards");
    set.add(low, high);
  }

  std::string_view rest_;
  const std::string& where_;
};

}  // namespace

Regex parse_pattern(std::string_view pattern, const std::string& where) {
  if (pattern.size() > kMaxPattern) {
    fail_input(fmt::format("the pattern has {} bytes, and at most {} are supported", pattern.size(), kMaxPattern),
               where);
  }
  return whole_text(PatternParser(pattern, where).parse(), where);
}

}  // namespace kvasir::grammar
