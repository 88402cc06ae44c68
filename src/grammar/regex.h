// Regular expressions of JSON Schema's "pattern", the part of them that is a finite automaton.
//
// Understood: literals, ".", classes, \d \w \s and their opposites, \t \n \r \f \v \xHH \uHHHH, escaped punctuation,
// groups (plain, non-capturing, named), alternatives, * + ? {m} {m,} {m,n} (lazy ones match the same texts), and ^,
// $ and look-around wherever they are not repeated. Refused with an Error: back references, \b, \p, a look-behind
// after a look-ahead. As JSON Schema has it, a pattern without anchors matches anywhere in the string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/code_points.h"

namespace kvasir::grammar {

struct Regex {
  enum class Kind { kSet, kSequence, kAlternatives, kRepeat, kAll, kNot, kBegin, kEnd, kAhead, kBehind };
  static constexpr std::uint32_t kNoLimit = 0xFFFFFFFF;

  Kind kind = Kind::kSequence;
  CodePointSet set;          // kSet: one character of it
  std::vector<Regex> parts;  // of kRepeat, kNot, kAhead and kBehind the only one; kAll: texts that match each of them
  std::uint32_t least = 0;   // kRepeat
  std::uint32_t most = kNoLimit;
};

Regex regex_of(Regex::Kind kind, std::vector<Regex> parts = {});
Regex any_text();

// Throws Error, naming `where`, for what is not understood. What it returns has no kBegin, kEnd, kAhead and kBehind,
// and matches the whole string.
Regex parse_pattern(std::string_view pattern, const std::string& where);

// The second half of parse_pattern: a pattern that may match anywhere as one that matches the whole string, without
// anchors and look-around.
Regex whole_text(const Regex& pattern, const std::string& where);

}  // namespace kvasir::grammar
