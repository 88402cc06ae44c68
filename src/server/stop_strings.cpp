#include "server/stop_strings.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvasir {

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_) CHECK(!stop.empty());
}

std::string StopStrings::push(std::string_view piece) {
  if (matched_) return {};
  if (stops_.empty()) return std::string(piece);
  held_ += piece;
  size_t best_end = std::string::npos;
  size_t best_begin = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t begin = held_.find(stop);
    if (begin == std::string::npos) continue;
    const size_t end = begin + stop.size();
    if (end > best_end || (end == best_end && begin >= best_begin)) continue;
    best_end = end;
    best_begin = begin;
    matched_ = stop;
  }
  const size_t certain = matched_ ? best_begin : held_.size() - unfinished();
  std::string out = held_.substr(0, certain);
  held_.erase(0, certain);
  if (matched_) held_.clear();
  return out;
}

std::string StopStrings::finish() { return std::exchange(held_, {}); }

// The longest end of what is held that begins a stop string.
size_t StopStrings::unfinished() const {
  size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > longest; --n) {
      if (held_.compare(held_.size() - n, n, stop, 0, n) == 0) longest = n;
    }
  }
  return longest;
}

}  // namespace kvasir
