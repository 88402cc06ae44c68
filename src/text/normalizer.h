// What is done to a text before it is cut into words. Bytes that are not UTF-8 pass unchanged.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/byte_trie.h"
#include "text/charsmap.h"
#include "text/regex.h"
#include "text/rewrite.h"

namespace kvasir {

enum class NormalForm : std::uint8_t { kNfc, kNfd, kNfkc, kNfkd };

// Puts a text before every text that is not empty.
struct PrependStep {
  std::string text;
};

// Replaces a string, which is not empty, wherever it is.
struct ReplaceStep {
  std::string pattern;
  std::string content;
};

// Replaces what a pattern matches, which is never nothing.
struct RegexReplaceStep {
  Regex pattern;
  std::string content;
};

// Every letter by itself: a final sigma is one like any other.
struct LowercaseStep {};

// Takes white space away at the ends of a text.
struct TrimStep {
  bool left = true;
  bool right = true;
};

enum class Accents : std::uint8_t {
  kKeep,
  kNonspacing,  // those are taken away: marks that take no room of their own
  kAll,         // all marks are
};

// Takes accents away that are characters of their own: NFD makes them so.
struct StripAccentsStep {
  Accents which = Accents::kAll;
};

// BERT's: takes control characters away and makes white space spaces.
struct CleanTextStep {
  enum class Both : std::uint8_t { kControl, kSpace };

  Both both = Both::kControl;  // what is a control character and white space: Hugging Face's, and llama.cpp's choice
};

// BERT's: puts spaces around Chinese characters.
struct SpaceChineseStep {};

// SentencePiece's "nmt": takes control characters away, and makes spaces of others.
struct NmtStep {};

// Writes every byte as the character that stands for it (byte_level.h).
struct SpellBytesStep {};

// SentencePiece's table. What begins with one of `kept` is left as it is.
struct CharsmapStep {
  enum class Unit : std::uint8_t {
    kLongest,   // the longest string of the table at each place, as SentencePiece has it
    kGraphemes  // whole graphemes, else characters, by the shortest string they begin with, as Hugging Face has it
  };

  std::shared_ptr<const Charsmap> map;  // may be null: only white space is looked at then
  Unit unit = Unit::kLongest;
  std::shared_ptr<const ByteTrie> kept;  // null: none
};

// SentencePiece's white space: every space becomes a mark (pieces.h), one may be put first, and those that are too
// many may be taken away: at the ends, and all but one of a row.
struct SpaceMarksStep {
  enum class Prefix : std::uint8_t {
    kNever,
    kText,  // before every text that is not empty
    kWord,  // before the first character that is no space, as llama.cpp has it
  };
  enum class Extra : std::uint8_t { kKeep, kRemove };

  // Whether a mark that the text itself has at its end is one that is too many: it is in SentencePiece.
  enum class OwnMarks : std::uint8_t { kExtra, kText };

  Prefix prefix = Prefix::kText;
  Extra extra = Extra::kRemove;
  OwnMarks own_marks = OwnMarks::kExtra;
};

using NormalizerStep =
    std::variant<NormalForm, PrependStep, ReplaceStep, RegexReplaceStep, LowercaseStep, TrimStep, StripAccentsStep,
                 CleanTextStep, SpaceChineseStep, NmtStep, SpellBytesStep, CharsmapStep, SpaceMarksStep>;

// Normalizes in place. A range that begins or ends inside a changed character or string grows to all of it. Throws
// Error for a text that would be 2 GiB or more, and where a pattern exceeds its matching limits.
void normalize(const NormalizerStep& step, MarkedRanges& text);

// The steps that look at single characters or at white space.
void apply(const LowercaseStep& step, MarkedRanges& text);
void apply(const TrimStep& step, MarkedRanges& text);
void apply(const StripAccentsStep& step, MarkedRanges& text);
void apply(const CleanTextStep& step, MarkedRanges& text);
void apply(const SpaceChineseStep& step, MarkedRanges& text);
void apply(const NmtStep& step, MarkedRanges& text);
void apply(const SpellBytesStep& step, MarkedRanges& text);
void apply(const CharsmapStep& step, MarkedRanges& text);
void apply(const SpaceMarksStep& step, MarkedRanges& text);

}  // namespace kvasir
