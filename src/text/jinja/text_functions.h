// What strings can do, for methods and filters alike. All keep the origin of every byte they keep.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace kvasir::jinja {

enum class Casing {
  kUpper,
  kLower,
  kCapitalize,
  kTitle,
  kTitleFilter,
  kSwap,
  kFold
};  // str.title() and |title find words differently
MarkedString with_casing(const MarkedString& text, Casing casing);

// count: at most that many; negative: all.
MarkedString replaced(Runtime& runtime, const MarkedString& text, const MarkedString& from, const MarkedString& to,
                      std::int64_t count);

// By a separator, or by runs of white space; at most `most` cuts, from the left or from the right; negative:
// all.
std::vector<Value> split(Runtime& runtime, const MarkedString& text, const MarkedString* separator,
                         std::int64_t most);
std::vector<Value> split_from_right(Runtime& runtime, const MarkedString& text, const MarkedString* separator,
                                    std::int64_t most);
enum class LineEnds { kDrop, kKeep };
std::vector<MarkedString> lines_of(const MarkedString& text, LineEnds ends = LineEnds::kDrop);

// Between as many of `fill` on both sides; where these cannot be equal, as Python has it.
MarkedString centered(Runtime& runtime, const MarkedString& text, std::int64_t width, std::string_view fill = " ");

MarkedString joined(Runtime& runtime, const std::vector<Value>& items, const MarkedString& separator);

}  // namespace kvasir::jinja
