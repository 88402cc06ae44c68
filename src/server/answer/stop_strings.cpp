#include "server/answer/stop_strings.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvasir {
namespace {

// How many first bytes of the pattern a text ends with that ended with `met` of them, once `byte` came.
std::uint32_t after(const StopPatterns::Pattern& pattern, std::uint32_t met, char byte) {
  while (met > 0 && pattern.text[met] != byte) met = pattern.borders[met - 1];
  return pattern.text[met] == byte ? met + 1 : 0;
}

}  // namespace

StopPatterns::StopPatterns(std::vector<std::string> stops) {
  for (std::string& stop : stops) {
    CHECK(!stop.empty());
    Pattern& pattern = patterns_.emplace_back(Pattern{std::move(stop), {0}});
    for (size_t i = 1; i < pattern.text.size(); ++i)
      pattern.borders.push_back(after(pattern, pattern.borders.back(), pattern.text[i]));
  }
}

StopStrings::StopStrings(std::shared_ptr<const StopPatterns> patterns)
    : patterns_(std::move(patterns)), met_(patterns_->all().size()) {}

// The longest stop string that this byte completes; null: none.
const StopPatterns::Pattern* StopStrings::met_by(char byte) {
  const StopPatterns::Pattern* longest = nullptr;
  for (size_t i = 0; i < met_.size(); ++i) {
    const StopPatterns::Pattern& pattern = patterns_->all()[i];
    met_[i] = after(pattern, met_[i], byte);
    const bool complete = met_[i] == pattern.text.size();
    if (complete && (longest == nullptr || pattern.text.size() > longest->text.size())) longest = &pattern;
  }
  return longest;
}

std::string StopStrings::push(std::string_view piece) {
  if (matched_) return {};
  if (met_.empty()) return std::string(piece);
  for (size_t i = 0; i < piece.size(); ++i) {
    const StopPatterns::Pattern* stop = met_by(piece[i]);
    if (stop == nullptr) continue;
    matched_ = stop->text;
    std::string out = std::exchange(held_, {}).append(piece.substr(0, i + 1));
    out.resize(out.size() - stop->text.size());
    return out;
  }
  held_ += piece;
  std::string out = held_.substr(0, held_.size() - std::ranges::max(met_));
  held_.erase(0, out.size());
  return out;
}

std::string StopStrings::finish() { return std::exchange(held_, {}); }

}  // namespace kvasir
