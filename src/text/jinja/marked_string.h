// A string that remembers which of its bytes came from the request. Every operation of the template language
// keeps that.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/origin.h"
#include "text/text_range.h"

namespace kvasir::jinja {

class MarkedString {
 public:
  MarkedString() = default;
  MarkedString(std::string_view text, Origin origin) { append(text, origin); }

  const std::string& text() const { return text_; }
  size_t size() const { return text_.size(); }
  bool empty() const { return text_.empty(); }

  // The ranges of Origin::kUser: ascending, apart, none empty.
  const std::vector<TextRange>& user() const { return user_; }

  // kUser as soon as one byte is: for operations that do not keep bytes in their places.
  Origin origin() const { return user_.empty() ? Origin::kTemplate : Origin::kUser; }

  void append(std::string_view text, Origin origin);
  void append(const MarkedString& other) { append_range(other, {0, other.size()}); }
  void append_range(const MarkedString& other, TextRange range);

  MarkedString slice(TextRange range) const;  // markup, where this is

  // Whether it is what Jinja calls Markup: strings that are added to it are escaped.
  bool is_markup() const { return markup_; }
  MarkedString as_markup(bool markup) const {
    MarkedString out = *this;
    out.markup_ = markup;
    return out;
  }

 private:
  void mark(TextRange range);

  std::string text_;
  std::vector<TextRange> user_;
  bool markup_ = false;
};

MarkedString escaped(const MarkedString& text);  // for HTML, as markup; what is markup stays as it is

// Python's notions, on UTF-8. A byte that belongs to no character counts as one.
bool is_python_space(char32_t code);
std::vector<size_t> character_starts(std::string_view text);  // and the text's size at the end
size_t character_count(std::string_view text);

// text without what `strip` would take from its ends: white space, or the characters in `chars`.
enum class Side { kLeft, kRight, kBoth };
TextRange stripped(std::string_view text, Side side);
TextRange stripped(std::string_view text, Side side, std::string_view chars);

}  // namespace kvasir::jinja
