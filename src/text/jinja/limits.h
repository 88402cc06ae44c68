// What a render may use before it is stopped with an Error. The defaults leave room for any honest template.
#pragma once

#include <cstdint>

namespace kvasir {

struct RenderLimits {
  std::int64_t steps = 20'000'000;       // expressions and statements run, items compared
  std::int64_t bytes = 512 << 20;        // built in strings and lists, over the whole render
  std::int64_t output_bytes = 64 << 20;  // of the result
};

}  // namespace kvasir
