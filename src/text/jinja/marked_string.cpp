#include "text/jinja/marked_string.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <utility>

#include "text/utf8.h"

namespace kvasir::jinja {
namespace {

template <class Strip>
TextRange strip_while(std::string_view text, Side side, Strip strip) {
  TextRange range{0, text.size()};
  while (side != Side::kRight && range.begin < range.end) {
    const auto size = static_cast<size_t>(utf8_at(text, range.begin).size);
    if (!strip(text.substr(range.begin, size))) break;
    range.begin += size;
  }
  while (side != Side::kLeft && range.begin < range.end) {
    const auto size = static_cast<size_t>(utf8_before(text, range.end).size);
    if (!strip(text.substr(range.end - size, size))) break;
    range.end -= size;
  }
  return range;
}

}  // namespace

void MarkedString::mark(TextRange range) {
  if (range.size() == 0) return;
  if (!user_.empty() && user_.back().end == range.begin) {
    user_.back().end = range.end;
  } else {
    user_.push_back(range);
  }
}

void MarkedString::append(std::string_view text, Origin origin) {
  const size_t begin = text_.size();
  text_ += text;
  if (origin == Origin::kUser) mark({begin, text_.size()});
}

void MarkedString::append_range(const MarkedString& other, TextRange range) {
  const size_t begin = text_.size();
  text_.append(other.text_, range.begin, range.size());
  const auto ended = [&](const TextRange& user) { return user.end <= range.begin; };
  for (auto user = std::ranges::partition_point(other.user_, ended); user != other.user_.end(); ++user) {
    if (user->begin >= range.end) break;
    mark({begin + std::max(user->begin, range.begin) - range.begin,
          begin + std::min(user->end, range.end) - range.begin});
  }
}

MarkedString MarkedString::slice(TextRange range) const {
  MarkedString out;
  out.append_range(*this, range);
  out.markup_ = markup_;
  return out;
}

MarkedString escaped(const MarkedString& text) {
  constexpr std::array<std::pair<char, std::string_view>, 5> kEntities{
      {{'&', "&amp;"}, {'>', "&gt;"}, {'<', "&lt;"}, {'\'', "&#39;"}, {'"', "&#34;"}}};
  if (text.is_markup()) return text;
  MarkedString out;
  for (size_t at = 0; at < text.size(); ++at) {
    const auto* entity = std::ranges::find(kEntities, text.text()[at], &std::pair<char, std::string_view>::first);
    if (entity == kEntities.end()) {
      out.append_range(text, {at, at + 1});
    } else {
      out.append(entity->second, text.slice({at, at + 1}).origin());
    }
  }
  return out.as_markup(true);
}

bool is_python_space(char32_t code) {
  return u_isUWhiteSpace(static_cast<UChar32>(code)) || (code >= 0x1C && code <= 0x1F);
}

std::vector<size_t> character_starts(std::string_view text) {
  std::vector<size_t> starts;
  starts.reserve(text.size() + 1);
  for (size_t at = 0; at < text.size(); at += static_cast<size_t>(utf8_at(text, at).size)) starts.push_back(at);
  starts.push_back(text.size());
  return starts;
}

size_t character_count(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); at += static_cast<size_t>(utf8_at(text, at).size)) ++count;
  return count;
}

TextRange stripped(std::string_view text, Side side) {
  return strip_while(text, side, [](std::string_view character) {
    const Utf8Char c = utf8_at(character, 0);
    return c.kind == Utf8Char::Kind::kWhole && is_python_space(c.code);
  });
}

TextRange stripped(std::string_view text, Side side, std::string_view chars) {
  const std::vector<size_t> starts = character_starts(chars);
  return strip_while(text, side, [&](std::string_view character) {
    for (size_t i = 0; i + 1 < starts.size(); ++i) {
      if (chars.substr(starts[i], starts[i + 1] - starts[i]) == character) return true;
    }
    return false;
  });
}

}  // namespace kvasir::jinja
