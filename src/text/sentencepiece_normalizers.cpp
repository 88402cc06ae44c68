// SentencePiece's normalizers: its table, and what it does with white space.
#include <unicode/ubrk.h>
#include <unicode/utext.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "text/normalizer.h"
#include "text/pieces.h"
#include "text/utf8.h"

namespace kvasir {
namespace {

// How many bytes the longest of `kept` has that the text begins with; 0: none.
size_t kept_prefix(const ByteTrie* kept, std::string_view text) {
  size_t longest = 0;
  ByteTrie::Node node = ByteTrie::kRoot;
  for (size_t at = 0; kept != nullptr && at < text.size(); ++at) {
    node = kept->step(node, text[at]);
    if (node == ByteTrie::kNone) break;
    if (kept->value(node) >= 0) longest = at + 1;
  }
  return longest;
}

void longest_strings(const CharsmapStep& step, MarkedRanges& text) {
  Rewrite out(text);
  const std::string_view all = text.text;
  for (size_t at = 0; at < all.size();) {
    if (const size_t kept = kept_prefix(step.kept.get(), all.substr(at)); kept > 0) {
      at += kept;
      continue;
    }
    if (const auto match = step.map ? step.map->longest(all.substr(at)) : std::nullopt) {
      out.keep(at);
      out.replace(at + match->size, match->result);
      at += match->size;
    } else {
      at += static_cast<size_t>(utf8_at(all, at).size);
    }
  }
  out.keep(all.size());
  text = out.take();
}

struct BreaksClose {
  void operator()(UBreakIterator* breaks) const { ubrk_close(breaks); }
};
struct TextClose {
  void operator()(UText* text) const { utext_close(text); }
};

// Where the graphemes of valid UTF-8 end.
class Graphemes {
 public:
  explicit Graphemes(std::string_view text) {
    UErrorCode status = U_ZERO_ERROR;
    text_.reset(utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(text.size()), &status));
    breaks_.reset(ubrk_open(UBRK_CHARACTER, "", nullptr, 0, &status));
    if (U_SUCCESS(status)) ubrk_setUText(breaks_.get(), text_.get(), &status);
    if (U_FAILURE(status))
      fail_system("ICU has no rules for graphemes", u_errorName(status), "install its data files");
  }

  size_t next() { return static_cast<size_t>(ubrk_next(breaks_.get())); }

 private:
  std::unique_ptr<UText, TextClose> text_;
  std::unique_ptr<UBreakIterator, BreaksClose> breaks_;
};

// A grapheme of few bytes is looked up as a whole, and becomes what its shortest beginning in the table becomes; if
// there is none, each of its characters is. Strange, but what models were made with.
void one_grapheme(const Charsmap& map, std::string_view all, size_t end, Rewrite& out) {
  constexpr size_t kLongestGrapheme = 5;
  const std::string_view grapheme = all.substr(out.at(), end - out.at());
  if (grapheme.size() <= kLongestGrapheme) {
    if (const auto match = map.shortest(grapheme)) return out.replace(end, match->result);
  }
  while (out.at() < end) {
    const auto size = static_cast<size_t>(utf8_at(all, out.at()).size);
    const auto match = map.shortest(all.substr(out.at(), size));
    if (match) {
      out.replace(out.at() + size, match->result);
    } else {
      out.keep(out.at() + size);
    }
  }
}

void graphemes(const CharsmapStep& step, MarkedRanges& text) {
  Rewrite out(text);
  const std::string_view all = text.text;
  while (out.at() < all.size()) {
    const size_t begin = out.at();
    const size_t end = begin + valid_run(all, begin);
    if (begin < end) {
      Graphemes breaks(all.substr(begin, end - begin));
      while (out.at() < end) one_grapheme(*step.map, all, begin + breaks.next(), out);
    }
    out.keep(end + invalid_run(all, end));
  }
  text = out.take();
}

}  // namespace

void apply(const CharsmapStep& step, MarkedRanges& text) {
  if (step.unit == CharsmapStep::Unit::kLongest) return longest_strings(step, text);
  if (step.map) graphemes(step, text);
}

void apply(const SpaceMarksStep& step, MarkedRanges& text) {
  using Prefix = SpaceMarksStep::Prefix;
  const bool remove = step.extra == SpaceMarksStep::Extra::kRemove;
  const std::string_view all = text.text;
  const size_t first = std::min(all.find_first_not_of(' '), all.size());
  if (all.empty() || (remove && first == all.size())) {
    text = {};
    return;
  }
  Rewrite out(text);
  if (remove) out.replace(first, "");
  if (step.prefix == Prefix::kText) out.replace(out.at(), kSpaceMark);
  const size_t end = remove ? all.find_last_not_of(' ') + 1 : all.size();
  for (size_t at = out.at(); at < end; ++at) {
    if (at == first && step.prefix == Prefix::kWord) {
      out.keep(at);
      out.replace(at, kSpaceMark);
    }
    if (all[at] != ' ') continue;
    out.keep(at);
    const bool extra = remove && at > 0 && all[at - 1] == ' ';
    out.replace(at + 1, extra ? "" : kSpaceMark);
  }
  out.keep(end);
  out.replace(all.size(), "");
  if (remove && step.own_marks == SpaceMarksStep::OwnMarks::kExtra) {
    while (out.text().ends_with(kSpaceMark)) out.shorten(out.text().size() - kSpaceMark.size());
  }
  text = out.take();
}

}  // namespace kvasir
