// Regular expressions of JSON Schema's "pattern", the part of them that is a finite automaton.
//
// Understood: literals, ".", classes, \d \w \s and their opposites, \t \n \r \f \v \xHH \uHHHH, escaped punctuation,
// groups (plain, non-capturing, named), alternatives, * + ? {m} {m,} {m,n} (lazy ones match the same texts), and ^
// and $ at the ends of the pattern or of one of its alternatives. Refused with an Error: look-around, back
// references, \b, \p, anchors elsewhere. As JSON Schema has it, a pattern without anchors matches anywhere in the
// string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/code_points.h"

namespace kvasir::grammar {

struct Regex {
  enum class Kind { kSet, kSequence, kAlternatives, kRepeat, kBegin, kEnd };
  static constexpr std::uint32_t kNoLimit = 0xFFFFFFFF;

  Kind kind = Kind::kSequence;
  CodePointSet set;          // kSet: one character of it
  std::vector<Regex> parts;  // kSequence, kAlternatives; kRepeat: the one that is repeated
  std::uint32_t least = 0;   // kRepeat
  std::uint32_t most = kNoLimit;
};

// Throws Error, naming `where`, for what is not understood. What it returns has no kBegin and no kEnd, and matches
// the whole string.
Regex parse_pattern(std::string_view pattern, const std::string& where);

// How many characters a string may have.
struct LengthLimits {
  std::uint32_t least = 0;
  std::uint32_t most = Regex::kNoLimit;
};

// Builds the characters of a JSON string, without its quotes, that matches `regex` and has so many characters.
// Returns the node at the end.
NodeId build_pattern(GrammarBuilder& builder, NodeId from, const Regex& regex, LengthLimits length);

}  // namespace kvasir::grammar
