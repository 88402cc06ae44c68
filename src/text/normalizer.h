// What is done to a text before it is cut into words. Bytes that are not UTF-8 pass unchanged.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/text_range.h"

namespace kvasir {

enum class NormalForm : std::uint8_t { kNfc, kNfd, kNfkc, kNfkd };

// Text and the ranges of it that bear a mark, ascending and apart.
struct MarkedRanges {
  std::string text;
  std::vector<TextRange> marked;
};

// Puts a text before every text that is not empty.
struct PrependStep {
  std::string text;
};

// Replaces a string, which is not empty, wherever it is.
struct ReplaceStep {
  std::string pattern;
  std::string content;
};

using NormalizerStep = std::variant<NormalForm, PrependStep, ReplaceStep>;

// Normalizes in place. A range that begins or ends inside a changed character or string grows to all of it. Throws
// Error for a text that would be 2 GiB or more.
void normalize(const NormalizerStep& step, MarkedRanges& text);

}  // namespace kvasir
