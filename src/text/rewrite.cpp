#include "text/rewrite.h"

#include <algorithm>

namespace kvasir {

Rewrite::Rewrite(const MarkedRanges& source) : source_(source) { out_.text.reserve(source.text.size()); }

void Rewrite::mark(TextRange range) {
  if (range.begin >= range.end) return;
  if (!out_.marked.empty() && out_.marked.back().end >= range.begin) {
    out_.marked.back().end = std::max(out_.marked.back().end, range.end);
  } else {
    out_.marked.push_back(range);
  }
}

bool Rewrite::touched(size_t end) {
  while (first_ < source_.marked.size() && source_.marked[first_].end <= at_) ++first_;
  if (first_ >= source_.marked.size()) return false;
  return source_.marked[first_].begin < (end > at_ ? end : at_);
}

void Rewrite::keep(size_t end) {
  if (touched(end)) {
    const size_t shift = out_.text.size();
    for (size_t i = first_; i < source_.marked.size() && source_.marked[i].begin < end; ++i) {
      const size_t from = std::max(source_.marked[i].begin, at_);
      mark({shift + from - at_, shift + std::min(source_.marked[i].end, end) - at_});
    }
  }
  out_.text.append(source_.text, at_, end - at_);
  at_ = end;
}

void Rewrite::replace(size_t end, std::string_view text) {
  if (touched(end)) mark({out_.text.size(), out_.text.size() + text.size()});
  out_.text += text;
  at_ = end;
}

void Rewrite::shorten(size_t size) {
  out_.text.resize(size);
  while (!out_.marked.empty() && out_.marked.back().begin >= size) out_.marked.pop_back();
  if (!out_.marked.empty()) out_.marked.back().end = std::min(out_.marked.back().end, size);
}

}  // namespace kvasir
