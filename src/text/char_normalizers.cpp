// The normalizers that look at one character, or at white space.
#include <unicode/uchar.h>

#include <algorithm>

#include "text/byte_level.h"
#include "text/char_class.h"
#include "text/normalizer.h"
#include "text/utf8.h"

namespace kvasir {
namespace {

// Calls `visit` with every whole character, as its code and the range of its bytes; it may replace that in `out`.
template <class Visit>
void rewrite_chars(MarkedRanges& text, Visit visit) {
  Rewrite out(text);
  const std::string_view all = text.text;
  for (size_t at = 0; at < all.size();) {
    const Utf8Char c = utf8_at(all, at);
    const TextRange range{at, at + static_cast<size_t>(c.size)};
    if (c.kind == Utf8Char::Kind::kWhole) visit(c.code, range, out);
    at = range.end;
  }
  out.keep(all.size());
  text = out.take();
}

void replace(Rewrite& out, TextRange range, std::string_view with) {
  out.keep(range.begin);
  out.replace(range.end, with);
}

void remove_if(MarkedRanges& text, bool (*test)(char32_t)) {
  rewrite_chars(text, [&](char32_t code, TextRange range, Rewrite& out) {
    if (test(code)) replace(out, range, "");
  });
}

bool is_nmt_removed(char32_t code) {
  return (code >= 0x01 && code <= 0x08) || code == 0x0B || (code >= 0x0E && code <= 0x1F) || code == 0x7F ||
         code == 0x8F || code == 0x9F;
}

bool is_nmt_space(char32_t code) {
  return code == 0x09 || code == 0x0A || code == 0x0C || code == 0x0D || code == 0x1680 ||
         (code >= 0x200B && code <= 0x200F) || code == 0x2028 || code == 0x2029 || code == 0x2581 || code == 0xFEFF ||
         code == 0xFFFD;
}

}  // namespace

void apply(const LowercaseStep&, MarkedRanges& text) {
  rewrite_chars(text, [](char32_t code, TextRange range, Rewrite& out) {
    if (code == 0x130) return replace(out, range, "i\xCC\x87");  // the only letter that becomes two characters
    const auto lower = static_cast<char32_t>(u_tolower(static_cast<UChar32>(code)));
    if (lower == code) return;
    std::string letter;
    append_utf8(letter, lower);
    replace(out, range, letter);
  });
}

void apply(const TrimStep& step, MarkedRanges& text) {
  const std::string_view all = text.text;
  size_t begin = 0;
  size_t end = all.size();
  const auto is_space = [](const Utf8Char& c) { return c.kind == Utf8Char::Kind::kWhole && is_white_space(c.code); };
  for (; step.left && begin < end; begin += static_cast<size_t>(utf8_at(all, begin).size)) {
    if (!is_space(utf8_at(all, begin))) break;
  }
  for (; step.right && end > begin; end -= static_cast<size_t>(utf8_before(all, end).size)) {
    if (!is_space(utf8_before(all, end))) break;
  }
  if (begin == 0 && end == all.size()) return;
  Rewrite out(text);
  out.replace(begin, "");
  out.keep(end);
  out.replace(all.size(), "");
  text = out.take();
}

void apply(const StripAccentsStep& step, MarkedRanges& text) {
  if (step.which == Accents::kAll) remove_if(text, is_mark);
  if (step.which == Accents::kNonspacing) remove_if(text, is_nonspacing_mark);
}

void apply(const CleanTextStep& step, MarkedRanges& text) {
  rewrite_chars(text, [&](char32_t code, TextRange range, Rewrite& out) {
    const bool space = is_white_space(code);
    const bool control = is_bert_control(code) && !(space && step.both == CleanTextStep::Both::kSpace);
    if (code == 0 || code == 0xFFFD || control) {
      replace(out, range, "");
    } else if (code != ' ' && space) {
      replace(out, range, " ");
    }
  });
}

void apply(const SpaceChineseStep&, MarkedRanges& text) {
  rewrite_chars(text, [](char32_t code, TextRange range, Rewrite& out) {
    if (!is_chinese(code)) return;
    replace(out, {range.begin, range.begin}, " ");
    out.keep(range.end);
    out.replace(range.end, " ");
  });
}

void apply(const NmtStep&, MarkedRanges& text) {
  rewrite_chars(text, [](char32_t code, TextRange range, Rewrite& out) {
    if (is_nmt_removed(code)) {
      replace(out, range, "");
    } else if (is_nmt_space(code)) {
      replace(out, range, " ");
    }
  });
}

void apply(const SpellBytesStep&, MarkedRanges& text) {
  Rewrite out(text);
  for (size_t at = 0; at < text.text.size(); ++at) {
    std::string letter;
    append_utf8(letter, byte_to_char(static_cast<unsigned char>(text.text[at])));
    out.replace(at + 1, letter);
  }
  text = out.take();
}

}  // namespace kvasir
