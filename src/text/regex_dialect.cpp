#include "text/regex_dialect.h"

#include <fmt/format.h>
#include <unicode/uchar.h>
#include <unicode/uscript.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.h"

namespace kvasir {
namespace {

// White_Space. PCRE2's own \s has U+180E in addition, which left that property in Unicode 6.3.
constexpr std::string_view kSpaces = R"(\p{Z}\x09-\x0d\x{85})";

constexpr size_t kLongestPattern = 16 * 1024;

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where) : in_(pattern), where_(where) {}

  std::string run() {
    if (in_.size() > kLongestPattern) fail("is too long");
    while (at_ < in_.size()) step();
    if (in_class_) fail("has an unclosed [");
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(std::string_view problem) const {
    fail_input(fmt::format("the pattern '{}' {}", in_.substr(0, 200), problem), where_,
               "only the syntax that PCRE2 and Oniguruma read alike is supported");
  }

  bool next_is(std::string_view text) const { return in_.substr(at_, text.size()) == text; }

  void copy(size_t count) {
    out_ += in_.substr(at_, count);
    at_ += count;
  }

  void step() {
    const char c = in_[at_];
    if (c == '\\') {
      escape();
    } else if (in_class_) {
      class_char(c);
    } else if (c == '[') {
      open_class();
    } else if (c == '(') {
      group();
    } else if (c == '}' && at_ + 1 < in_.size() && in_[at_ + 1] == '+') {
      fail("has {n,m}+, which the two engines read differently");
    } else {
      copy(1);
    }
  }

  void open_class() {
    in_class_ = true;
    copy(1);
    if (next_is("^")) copy(1);
    if (next_is("]")) fail("has an empty class");
  }

  void class_char(char c) {
    if (c == '[') fail("has a class inside a class");
    if (next_is("&&")) fail("has an intersection of classes");
    if (c == ']') in_class_ = false;
    copy(1);
  }

  // Only groups without a life of their own: no recursion, no conditions, no verbs.
  void group() {
    static constexpr std::array<std::string_view, 8> kGroups{"(?:",  "(?i:", "(?=", "(?!",
                                                             "(?<=", "(?<!", "(?>", "(?i)"};
    if (next_is("(*")) fail("has a verb");
    if (next_is("(?")) {
      const auto* known = std::ranges::find_if(kGroups, [&](std::string_view start) { return next_is(start); });
      if (known == kGroups.end()) fail("has an unsupported kind of group");
      copy(known->size());
    } else {
      copy(1);
    }
  }

  void escape() {
    if (at_ + 1 >= in_.size()) fail("ends in a backslash");
    const char c = in_[at_ + 1];
    const bool alphanumeric = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (c == 's') {
      space(std::string(in_class_ ? "" : "[") + std::string(kSpaces) + (in_class_ ? "" : "]"));
    } else if (c == 'S' && !in_class_) {
      space("[^" + std::string(kSpaces) + "]");
    } else if (c == 'p' || c == 'P') {
      property(c);
    } else if (c == 'u' || c == 'x') {
      code_point(c);
    } else if (!alphanumeric || std::string_view("SdDrntf").find(c) != std::string_view::npos) {
      copy(2);
    } else {
      fail(fmt::format("has \\{}", c));
    }
  }

  void space(const std::string& text) {
    out_ += text;
    at_ += 2;
  }

  // \uHHHH, \xHH and \x{H…}.
  void code_point(char kind) {
    at_ += 2;
    const bool braces = kind == 'x' && next_is("{");
    if (braces) ++at_;
    const size_t most = braces ? 6 : kind == 'u' ? 4 : 2;
    size_t digits = 0;
    while (digits < most && at_ + digits < in_.size() &&
           std::isxdigit(static_cast<unsigned char>(in_[at_ + digits]))) {
      ++digits;
    }
    const bool closed = !braces || (at_ + digits < in_.size() && in_[at_ + digits] == '}');
    if (digits == 0 || (!braces && digits != most) || !closed) fail("has a malformed character code");
    out_ += fmt::format("\\x{{{}}}", in_.substr(at_, digits));
    at_ += digits + (braces ? 1 : 0);
  }

  // General categories have one or two letters in PCRE2. A bare script name there means script extensions,
  // here the script itself.
  void property(char letter) {
    at_ += 2;
    const size_t end = in_.find('}', at_);
    if (!next_is("{") || end == std::string_view::npos) fail("has a property without braces");
    std::string name(in_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    const bool negated = !name.empty() && name[0] == '^';
    if (negated) name.erase(0, 1);
    const bool complement = negated != (letter == 'P');
    if (name.empty() || name.size() > 64) fail("has an unknown property");
    for (const char c : name) {
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') fail("has an unknown property");
    }
    out_ += fmt::format("\\{}{{{}}}", complement ? 'P' : 'p', pcre2_name(name));
  }

  std::string pcre2_name(const std::string& name) const {
    const auto is = [&](UProperty property) { return u_getPropertyValueEnum(property, name.c_str()); };
    if (const int32_t mask = is(UCHAR_GENERAL_CATEGORY_MASK); mask != UCHAR_INVALID_CODE) {
      return u_getPropertyValueName(UCHAR_GENERAL_CATEGORY_MASK, mask, U_SHORT_PROPERTY_NAME);
    }
    const UProperty binary = u_getPropertyEnum(name.c_str());
    if (binary == UCHAR_ALPHABETIC || binary == UCHAR_JOIN_CONTROL)
      return u_getPropertyName(binary, U_LONG_PROPERTY_NAME);
    if (const int32_t script = is(UCHAR_SCRIPT); script != UCHAR_INVALID_CODE) {
      return std::string("sc:") + uscript_getName(static_cast<UScriptCode>(script));
    }
    fail("has an unknown property");
  }

  std::string_view in_;
  const std::string& where_;
  size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

std::string to_pcre2_dialect(std::string_view pattern, const std::string& where) {
  return Translator(pattern, where).run();
}

}  // namespace kvasir
