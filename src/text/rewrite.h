// A text and which parts of it bear a mark, and a way to write a changed copy that keeps the marks where they belong.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/text_range.h"

namespace kvasir {

// Text and the ranges of it that bear a mark, ascending and apart.
struct MarkedRanges {
  std::string text;
  std::vector<TextRange> marked;
};

// Writes a new text from an old one, from its beginning to its end. A mark that touches a replaced stretch covers all
// of what replaces it.
class Rewrite {
 public:
  explicit Rewrite(const MarkedRanges& source);

  // The next bytes of the source, up to `end`, as they are.
  void keep(size_t end);

  // `text` instead of the next bytes of the source, up to `end`; nothing is dropped where that is where it stands.
  void replace(size_t end, std::string_view text);

  size_t at() const { return at_; }  // how far the source is done
  const std::string& text() const { return out_.text; }
  MarkedRanges take() { return std::move(out_); }

  // Takes away what was written last, down to `size` bytes.
  void shorten(size_t size);

 private:
  void mark(TextRange range);
  // Whether a mark touches source[at_, end), or, when that is empty, lies around it. Moves first_ on.
  bool touched(size_t end);

  const MarkedRanges& source_;
  size_t at_ = 0;
  size_t first_ = 0;  // of source_.marked that may still matter
  MarkedRanges out_;
};

}  // namespace kvasir
