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
  kTitleFilter
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
std::vector<MarkedString> lines_of(const MarkedString& text);

MarkedString joined(Runtime& runtime, const std::vector<Value>& items, const MarkedString& separator);

}  // namespace kvasir::jinja
