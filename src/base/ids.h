// The few integers that travel everywhere, each with a name.
#pragma once

#include <cstdint>

namespace kvasir {

using TokenId = std::int32_t;
using Position = std::int64_t;  // of a token in its sequence; streaming runs past 2^31
using BlockId = std::int32_t;   // of a block in the pool of its group
using RequestId = std::uint64_t;

inline constexpr BlockId kNoBlock = -1;  // a hole: the slot's block was dropped, or never taken

}  // namespace kvasir
