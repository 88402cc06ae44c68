// Stop strings in a text that comes in pieces.
//
// The answer ends before the stop string that is complete first; of those complete at once, before the longest.
// Whatever the pieces, what push() and finish() gave out together is the text up to there, or all of it: text that
// may be the beginning of a stop string is held back until it is certain.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir {

class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> stops);  // REQUIRES: none is empty

  // The text that is certain now. After a match it is always empty.
  std::string push(std::string_view piece);

  // What was held back: the text ended without a stop string.
  std::string finish();

  const std::optional<std::string>& matched() const { return matched_; }

 private:
  size_t unfinished() const;

  std::vector<std::string> stops_;
  std::string held_;
  std::optional<std::string> matched_;
};

}  // namespace kvasir
