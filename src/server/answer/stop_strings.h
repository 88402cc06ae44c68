// Stop strings in a text that comes in pieces.
//
// The answer ends before the stop string that is complete first; of those complete at once, before the longest.
// Whatever the pieces, what push() and finish() gave out together is the text up to there, or all of it: text that
// may be the beginning of a stop string is held back until it is certain.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir {

// What is looked for, made once for all choices of a request. Each byte of a text costs a few steps for each stop
// string, however long these are and however much of them was met before (Knuth, Morris and Pratt).
class StopPatterns {
 public:
  struct Pattern {
    std::string text;
    std::vector<std::uint32_t> borders;  // of its first n + 1 bytes: the longest beginning that is also their end
  };

  explicit StopPatterns(std::vector<std::string> stops);  // REQUIRES: none is empty

  const std::vector<Pattern>& all() const { return patterns_; }

 private:
  std::vector<Pattern> patterns_;
};

class StopStrings {
 public:
  explicit StopStrings(std::shared_ptr<const StopPatterns> patterns);
  explicit StopStrings(std::vector<std::string> stops)
      : StopStrings(std::make_shared<const StopPatterns>(std::move(stops))) {}

  // The text that is certain now. After a match it is always empty.
  std::string push(std::string_view piece);

  // What was held back: the text ended without a stop string.
  std::string finish();

  const std::optional<std::string>& matched() const { return matched_; }

 private:
  const StopPatterns::Pattern* met_by(char byte);

  std::shared_ptr<const StopPatterns> patterns_;
  std::vector<std::uint32_t> met_;  // how many first bytes of each pattern the text ends with
  std::string held_;                // as long as the largest of these
  std::optional<std::string> matched_;
};

}  // namespace kvasir
