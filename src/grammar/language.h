// Regular languages over characters, for what patterns alone cannot say: a string that matches two patterns, or one
// and not the other; a property's name that is none of these.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "grammar/builder.h"
#include "grammar/regex.h"

namespace kvasir::grammar {

// A deterministic automaton; the first state is the start. Every state has a way to an accepting one, so a language
// without states has no texts.
struct Language {
  struct Edge {
    char32_t low, high;  // inclusive
    std::uint32_t target;
  };
  struct State {
    std::vector<Edge> edges;  // sorted, not overlapping
    bool accepts = false;
  };
  std::vector<State> states;

  bool is_empty() const { return states.empty(); }
  bool contains(std::string_view text) const;
  // All its texts, where there are at most so many.
  std::optional<std::vector<std::string>> texts(std::size_t most) const;
};

// How many characters a string may have.
struct LengthLimits {
  std::uint32_t least = 0;
  std::uint32_t most = Regex::kNoLimit;
};

// Makes languages within a bound on the work of all of them together; throws Error, naming `where`, beyond it.
class Languages {
 public:
  enum class Keep { kBoth, kFirstOnly, kEither };

  // Read once: the same pattern gives the same object.
  const Language& of_pattern(const std::string& pattern, const std::string& where);
  Language of_regex(const Regex& regex, const std::string& where);
  Language of_texts(std::span<const std::string> texts, const std::string& where);
  Language of_length(LengthLimits length, const std::string& where);
  Language combined(const Language& a, const Language& b, Keep keep, const std::string& where);

  void spend(std::size_t work, const std::string& where);

 private:
  std::unordered_map<std::string, Language> patterns_;
  std::size_t spent_ = 0;
};

// Builds the characters of a JSON string of the language, without its quotes. Returns the node at the end.
NodeId build_language(GrammarBuilder& builder, NodeId from, const Language& language);

}  // namespace kvasir::grammar
