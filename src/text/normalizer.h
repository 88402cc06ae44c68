// Unicode normalization of text that may contain bytes that are not UTF-8: those pass unchanged.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_range.h"

namespace kvasir {

enum class NormalForm : std::uint8_t { kNfc, kNfd, kNfkc, kNfkd };

// Text and the ranges of it that bear a mark, ascending and apart.
struct MarkedRanges {
  std::string text;
  std::vector<TextRange> marked;
};

// Normalizes in place. A range that begins or ends inside a changed character grows to all of it.
void normalize(NormalForm form, MarkedRanges& text);

}  // namespace kvasir
