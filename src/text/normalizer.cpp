#include "text/normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/edits.h>
#include <unicode/normalizer2.h>

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "text/utf8.h"

namespace kvasir {
namespace {

const icu::Normalizer2& instance_of(NormalForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* found = nullptr;
  switch (form) {
    case NormalForm::kNfc:
      found = icu::Normalizer2::getNFCInstance(status);
      break;
    case NormalForm::kNfd:
      found = icu::Normalizer2::getNFDInstance(status);
      break;
    case NormalForm::kNfkc:
      found = icu::Normalizer2::getNFKCInstance(status);
      break;
    case NormalForm::kNfkd:
      found = icu::Normalizer2::getNFKDInstance(status);
      break;
  }
  if (U_FAILURE(status) || found == nullptr) {
    fail_system("ICU has no normalization data", u_errorName(status), "install ICU's data files");
  }
  return *found;
}

bool is_ascii(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  }
  return true;
}

// Where positions of a run have gone. A position inside a changed stretch goes to one end of it.
class Moved {
 public:
  explicit Moved(const icu::Edits& edits) : edits_(edits.getFineIterator()) {}

  size_t begin_at(size_t source) { return inside_change(source) ? begin_ : plain(source); }
  size_t end_at(size_t source) { return inside_change(source) ? end_ : plain(source); }

 private:
  bool inside_change(size_t source) {
    UErrorCode status = U_ZERO_ERROR;
    const auto index = static_cast<int32_t>(source);
    if (!edits_.findSourceIndex(index, status) || !edits_.hasChange() || edits_.sourceIndex() == index) return false;
    begin_ = static_cast<size_t>(edits_.destinationIndex());
    end_ = begin_ + static_cast<size_t>(edits_.newLength());
    return true;
  }

  size_t plain(size_t source) {
    UErrorCode status = U_ZERO_ERROR;
    return static_cast<size_t>(edits_.destinationIndexFromSourceIndex(static_cast<int32_t>(source), status));
  }

  icu::Edits::Iterator edits_;
  size_t begin_ = 0, end_ = 0;  // of the changed stretch, in the result
};

class Normalization {
 public:
  Normalization(const icu::Normalizer2& normalizer, const MarkedRanges& source)
      : normalizer_(normalizer), source_(source) {
    out_.text.reserve(source.text.size());
  }

  // The normal form of the whole characters in `run`.
  void append_valid(TextRange run) {
    UErrorCode status = U_ZERO_ERROR;
    const icu::StringPiece text(source_.text.data() + run.begin, static_cast<int32_t>(run.size()));
    const size_t out_begin = out_.text.size();
    icu::StringByteSink<std::string> sink(&out_.text);
    icu::Edits edits;
    normalizer_.normalizeUTF8(0, text, sink, &edits, status);
    if (U_FAILURE(status)) fail_system("a text cannot be normalized", u_errorName(status));
    Moved moved(edits);
    for_marked_in(run, [&](TextRange part) {
      const size_t begin = part.begin == run.begin ? 0 : moved.begin_at(part.begin - run.begin);
      const size_t end = part.end == run.end ? out_.text.size() - out_begin : moved.end_at(part.end - run.begin);
      mark({out_begin + begin, out_begin + end});
    });
  }

  void append_unchanged(TextRange run) {
    const size_t out_begin = out_.text.size();
    out_.text.append(source_.text, run.begin, run.size());
    for_marked_in(run, [&](TextRange part) {
      mark({out_begin + part.begin - run.begin, out_begin + part.end - run.begin});
    });
  }

  MarkedRanges take() { return std::move(out_); }

 private:
  // Runs come in order, so ranges that ended are never looked at again.
  template <class Body>
  void for_marked_in(TextRange run, Body body) {
    while (first_ < source_.marked.size() && source_.marked[first_].end <= run.begin) ++first_;
    for (size_t i = first_; i < source_.marked.size() && source_.marked[i].begin < run.end; ++i) {
      body(TextRange{std::max(source_.marked[i].begin, run.begin), std::min(source_.marked[i].end, run.end)});
    }
  }

  void mark(TextRange range) {
    if (!out_.marked.empty()) range.begin = std::max(range.begin, out_.marked.back().end);
    if (range.begin < range.end) out_.marked.push_back(range);
  }

  const icu::Normalizer2& normalizer_;
  const MarkedRanges& source_;
  size_t first_ = 0;  // of source_.marked that may still matter
  MarkedRanges out_;
};

void apply(const PrependStep& step, MarkedRanges& text) {
  if (text.text.empty()) return;
  text.text.insert(0, step.text);
  for (TextRange& range : text.marked) {
    range.begin += step.text.size();
    range.end += step.text.size();
  }
}

void apply(const ReplaceStep& step, MarkedRanges& text) {
  size_t match = text.text.find(step.pattern);
  if (match == std::string::npos) return;
  Rewrite out(text);
  for (; match != std::string::npos; match = text.text.find(step.pattern, out.at())) {
    out.keep(match);
    out.replace(match + step.pattern.size(), step.content);
  }
  out.keep(text.text.size());
  text = out.take();
}

void apply(const RegexReplaceStep& step, MarkedRanges& text) {
  Rewrite out(text);
  while (out.at() < text.text.size()) {
    const size_t begin = out.at();
    const size_t end = begin + valid_run(text.text, begin);
    for (const TextRange& match : step.pattern.matches(std::string_view(text.text).substr(begin, end - begin))) {
      out.keep(begin + match.begin);
      out.replace(begin + match.end, step.content);
    }
    out.keep(end + invalid_run(text.text, end));
  }
  text = out.take();
}

void apply(NormalForm form, MarkedRanges& text) {
  if (is_ascii(text.text)) return;  // every form leaves ASCII as it is
  if (text.text.size() >= static_cast<size_t>(INT32_MAX)) {
    fail_input("a text of 2 GiB or more cannot be normalized", "the tokenizer", "send less text");
  }
  Normalization normalization(instance_of(form), text);
  for (size_t at = 0; at < text.text.size();) {
    const size_t valid = valid_run(text.text, at);
    if (valid > 0) normalization.append_valid({at, at + valid});
    at += valid;
    const size_t invalid = invalid_run(text.text, at);
    if (invalid > 0) normalization.append_unchanged({at, at + invalid});
    at += invalid;
  }
  text = normalization.take();
}

}  // namespace

void normalize(const NormalizerStep& step, MarkedRanges& text) {
  std::visit([&](const auto& kind) { apply(kind, text); }, step);
  if (text.text.size() >= static_cast<size_t>(INT32_MAX)) {
    fail_input("a text of 2 GiB or more cannot be normalized", "the tokenizer", "send less text");
  }
}

}  // namespace kvasir
