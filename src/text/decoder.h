// How tokens become text again: the decoder of a tokenizer.json, as a chain of steps.
//
// The first steps see tokens one by one, those after a Fuse see the whole text. What a token becomes may depend on
// whether it is the first or the last of all, so text comes out of a DecodeStream, which takes them in order; what it
// gives for a row of tokens is the same however they come.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/regex.h"

namespace kvasir {

// The bytes that the characters of a token stand for (byte_level.h), and Fuse. A token with other characters is its
// own text.
struct ByteLevelDecode {};

// "<0x0A>" is a byte. Only Fuse may come after it.
struct ByteFallbackDecode {};

struct FuseDecode {};

// Without a decoder there is a space between tokens.
struct JoinDecode {};

// A space before every token but the first; instead, those that begin with the prefix lose it.
struct WordPieceDecode {
  std::string prefix;
  bool cleanup = true;  // spaces before marks like "." and in English contractions go
};

// A space for every mark; for those in the first token nothing, where `first_has_none`.
struct MetaspaceDecode {
  std::string mark;
  bool first_has_none = true;
};

// A space for every suffix; for those in the last token nothing.
struct SuffixDecode {
  std::string suffix;
};

// Of equal tokens side by side the first, without pads.
struct CtcDecode {
  std::string pad;
  std::string delimiter;  // becomes a space, where `cleanup`
  bool cleanup = true;
};

// At most so many of a character are taken away at each end: of every token, or, after Fuse, of the text.
struct StripDecode {
  std::string content;  // not empty
  int start = 0;
  int stop = 0;
};

// After Fuse: only a string. Never matches nothing.
struct ReplaceDecode {
  std::variant<std::string, Regex> pattern;
  std::string content;
};

using DecodeStep = std::variant<ByteLevelDecode, ByteFallbackDecode, FuseDecode, JoinDecode, WordPieceDecode,
                                MetaspaceDecode, SuffixDecode, CtcDecode, StripDecode, ReplaceDecode>;

// Constant once built.
class Decoder {
 public:
  // Where a token stands among all.
  enum class Place : std::uint8_t { kFirst, kMiddle, kLast, kOnly };
  enum class Kind : std::uint8_t { kVocabulary, kAdded };  // spelled, or its own text

  explicit Decoder(std::vector<DecodeStep> steps);

  // What the steps before Fuse make of a token.
  std::string text_of(std::string_view token, Kind kind, Place place) const;

  bool minds_first() const { return minds_first_; }
  bool minds_last() const { return minds_last_; }
  bool drops_repeats() const { return drops_repeats_; }
  const std::vector<DecodeStep>& on_text() const { return on_text_; }  // each a StripDecode or a ReplaceDecode

 private:
  std::vector<DecodeStep> on_tokens_;
  std::vector<DecodeStep> on_text_;
  bool minds_first_ = false;
  bool minds_last_ = false;
  bool drops_repeats_ = false;
};

// The steps after Fuse, for text that comes in parts.
class TextStream {
 public:
  enum class Begins : std::uint8_t { kHere, kEarlier };  // kEarlier: nothing is stripped at the beginning

  TextStream(const Decoder& decoder, Begins begins);

  std::string push(std::string_view text) { return run(std::string(text), 0); }
  std::string finish();

 private:
  struct State {
    int to_drop = 0;
    std::string held;
  };

  std::string run(std::string text, size_t first_step);
  static std::string strip(const StripDecode& step, State& state, std::string_view text);
  static std::string replace(const ReplaceDecode& step, State& state, std::string_view text);

  const Decoder* decoder_;
  std::vector<State> states_;
};

}  // namespace kvasir
