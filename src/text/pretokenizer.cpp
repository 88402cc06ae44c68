#include "text/pretokenizer.h"

#include <algorithm>
#include <optional>

#include "text/pieces.h"
#include "text/utf8.h"

namespace kvasir {
namespace {

struct Part {
  TextRange range;
  bool matched = false;
};

// The whole text as a row of parts: matches and what lies between them.
std::vector<Part> parts_of(const SplitStep& step, std::string_view text) {
  const bool invert = step.matches == SplitStep::Matches::kRest;
  std::vector<Part> parts;
  size_t done = 0;
  for (const TextRange& match : step.pattern.matches(text)) {
    if (done < match.begin) parts.push_back({{done, match.begin}, invert});
    parts.push_back({match, !invert});
    done = match.end;
  }
  if (done < text.size()) parts.push_back({{done, text.size()}, invert});
  return parts;
}

bool joins_previous(SplitBehavior behavior, const Part& previous, const Part& part) {
  switch (behavior) {
    case SplitBehavior::kMergedWithPrevious:
      return part.matched && !previous.matched;
    case SplitBehavior::kMergedWithNext:
      return previous.matched && !part.matched;
    case SplitBehavior::kContiguous:
      return previous.matched == part.matched;
    case SplitBehavior::kRemoved:
    case SplitBehavior::kIsolated:
      return false;
  }
  return false;
}

void cut_word(const SplitStep& step, TextRange word, std::string_view text, std::vector<Words::Word>& out) {
  std::optional<Part> previous;
  for (const Part& part : parts_of(step, text.substr(word.begin, word.size()))) {
    if (step.behavior == SplitBehavior::kRemoved && part.matched) continue;
    if (previous && joins_previous(step.behavior, *previous, part)) {
      out.back().range.end = word.begin + part.range.end;
    } else {
      out.push_back({{word.begin + part.range.begin, word.begin + part.range.end}, true});
    }
    previous = part;
  }
}

void apply(const SplitStep& step, TextPlace, Words& all) {
  std::vector<Words::Word> out;
  for (const Words::Word& word : all.words) {
    if (word.valid) {
      cut_word(step, word.range, all.text, out);
    } else {
      out.push_back(word);
    }
  }
  all.words = std::move(out);
}

// Writes all words anew. append(i, torn, out) appends the text of a valid word: a torn one follows bytes that are not
// UTF-8, so it continues a word and gets neither space nor mark before it. add(range, out) adds the words that lie
// there.
template <class Append, class Add>
void rewrite(Words& all, const Append& append, const Add& add) {
  Words out;
  out.text.reserve(all.text.size());
  bool torn = false;
  for (size_t i = 0; i < all.words.size(); ++i) {
    const size_t begin = out.text.size();
    const bool valid = all.words[i].valid;
    if (valid) {
      append(i, torn, out.text);
      add(TextRange{begin, out.text.size()}, out);
    } else {
      out.text += all[i];
      out.words.push_back({{begin, out.text.size()}, false});
    }
    torn = !valid;
  }
  all = std::move(out);
}

void add_word(TextRange range, Words& out) { out.words.push_back({range, true}); }

void apply(const PrefixSpaceStep&, TextPlace, Words& all) {
  const auto append = [&all](size_t i, bool torn, std::string& out) {
    if (!torn && all[i][0] != ' ') out += ' ';
    out += all[i];
  };
  rewrite(all, append, add_word);
}

void append_marked(std::string_view word, std::string& out) {
  for (const char c : word) {
    if (c == ' ') {
      out += kSpaceMark;
    } else {
      out += c;
    }
  }
}

// The parts of a marked word that begin with a mark, and what comes before the first.
void cut_before_marks(TextRange word, Words& out) {
  size_t begin = word.begin;
  while (begin < word.end) {
    const size_t next = std::min(out.text.find(kSpaceMark, begin + 1), word.end);
    out.words.push_back({{begin, next}, true});
    begin = next;
  }
}

void apply(const MetaspaceStep& step, TextPlace place, Words& all) {
  using Prepend = MetaspaceStep::Prepend;
  const auto append = [&](size_t i, bool torn, std::string& out) {
    const bool wanted = step.prepend == Prepend::kAlways ||
                        (step.prepend == Prepend::kFirst && place == TextPlace::kBeginning && i == 0);
    if (wanted && !torn && all[i][0] != ' ' && !all[i].starts_with(kSpaceMark)) out += kSpaceMark;
    append_marked(all[i], out);
  };
  rewrite(all, append, step.cut == MetaspaceStep::Cut::kBeforeMarks ? cut_before_marks : add_word);
}

Words valid_and_invalid(std::string text) {
  Words all;
  for (size_t at = 0; at < text.size();) {
    const size_t valid = valid_run(text, at);
    if (valid > 0) all.words.push_back({{at, at + valid}, true});
    at += valid;
    const size_t invalid = invalid_run(text, at);
    if (invalid > 0) all.words.push_back({{at, at + invalid}, false});
    at += invalid;
  }
  all.text = std::move(text);
  return all;
}

}  // namespace

Words Pretokenizer::cut(std::string text, TextPlace place) const {
  Words words = valid_and_invalid(std::move(text));
  for (const Step& step : steps_) {
    std::visit([&](const auto& kind) { apply(kind, place, words); }, step);
  }
  return words;
}

std::string_view gpt2_pattern() {
  return R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
}

}  // namespace kvasir
