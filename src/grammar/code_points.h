// Sets of Unicode characters, and their bytes as JSON strings hold them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/builder.h"

namespace kvasir::grammar {

// Takes the first character off valid UTF-8; nullopt, with nothing taken, when what comes first is not one.
std::optional<char32_t> take_utf8(std::string_view& text);

std::string utf8(char32_t character);

// Ranges of characters. Surrogates are not characters: no set has them.
class CodePointSet {
 public:
  using Range = std::pair<char32_t, char32_t>;  // inclusive

  CodePointSet() = default;
  CodePointSet(std::initializer_list<Range> ranges);

  static CodePointSet all();

  void add(char32_t low, char32_t high);
  void add(const CodePointSet& other);
  CodePointSet complement() const;

  const std::vector<Range>& ranges() const { return ranges_; }  // sorted, not touching

 private:
  std::vector<Range> ranges_;
};

// The way a character is spelled in a JSON string where one way must do: escaped only where it has to be, as most
// serializers write it.
std::string json_spelling(char32_t character);

// Builds: one character of the set, in that spelling, leads from one node to the other.
void build_characters(GrammarBuilder& builder, NodeId from, const CodePointSet& set, NodeId to);

}  // namespace kvasir::grammar
