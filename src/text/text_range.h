// A stretch of a text, in bytes.
#pragma once

#include <cstddef>

namespace kvasir {

struct TextRange {
  size_t begin = 0;
  size_t end = 0;

  size_t size() const { return end - begin; }
  friend bool operator==(const TextRange&, const TextRange&) = default;
};

}  // namespace kvasir
