// Cuts text into the words that the model works on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/regex.h"
#include "text/text_range.h"

namespace kvasir {

// What happens to a match of the pattern, named as in tokenizer.json.
enum class SplitBehavior : std::uint8_t { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// Cuts every word at the matches of a pattern. Digits and the pattern of ByteLevel are of this kind too.
struct SplitStep {
  enum class Matches : std::uint8_t { kPattern, kRest };  // kRest: "invert", the pattern describes what lies between

  Regex pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  Matches matches = Matches::kPattern;
};

// Puts a space before every word that has none.
struct PrefixSpaceStep {};

// SentencePiece's: spaces become marks (pieces.h), a word without one at its beginning may get one, and words may be
// cut before each.
struct MetaspaceStep {
  enum class Prepend : std::uint8_t { kNever, kFirst, kAlways };  // kFirst: only at the very beginning of a text
  enum class Cut : std::uint8_t { kNever, kBeforeMarks };

  Prepend prepend = Prepend::kAlways;
  Cut cut = Cut::kBeforeMarks;
};

// Cuts words where the script changes, as the Hugging Face library has it: Hiragana and Katakana are Han, spaces go
// with what comes before them, and those before everything else are lost.
struct UnicodeScriptsStep {};

// Puts a text before every word.
struct WordPrefixStep {
  std::string text;
};

// Writes every byte of every word as the character that stands for it (byte_level.h), for what comes after.
struct SpellWordsStep {};

// Where in the whole text a part of it lies.
enum class TextPlace : std::uint8_t { kBeginning, kLater };

// Words of a text, in order: ranges of `text`, which may differ from the text that was given by spaces put in or
// marked.
struct Words {
  struct Word {
    TextRange range;
    bool valid = true;  // UTF-8; the others are never cut
  };
  std::string text;
  std::vector<Word> words;

  std::string_view operator[](size_t i) const {
    return std::string_view(text).substr(words[i].range.begin, words[i].range.size());
  }
};

class Pretokenizer {
 public:
  using Step =
      std::variant<SplitStep, PrefixSpaceStep, MetaspaceStep, UnicodeScriptsStep, WordPrefixStep, SpellWordsStep>;

  explicit Pretokenizer(std::vector<Step> steps) : steps_(std::move(steps)) {}

  // None of the words is empty. Runs of bytes that are not UTF-8 are words of their own.
  Words cut(std::string text, TextPlace place) const;

 private:
  std::vector<Step> steps_;
};

void apply(const UnicodeScriptsStep& step, TextPlace place, Words& all);
void apply(const WordPrefixStep& step, TextPlace place, Words& all);
void apply(const SpellWordsStep& step, TextPlace place, Words& all);

// BERT's: words between white space, and punctuation, each of it a word. (pretokenizer_parts.cpp)
std::vector<Pretokenizer::Step> bert_splits(const std::string& where);

// The pattern that ByteLevel uses unless told otherwise: GPT-2's.
std::string_view gpt2_pattern();

}  // namespace kvasir
