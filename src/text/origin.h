// Who wrote a stretch of a prompt: the model's template, or the request.
#pragma once

#include <cstdint>

namespace kvasir {

enum class Origin : std::uint8_t { kTemplate, kUser };

}  // namespace kvasir
