// The few integers that travel everywhere, each with a name.
#pragma once

#include <cstdint>

namespace kvasir {

using TokenId = std::int32_t;
using Position = std::int64_t;  // of a token in its sequence; streaming runs past 2^31
using BlockId = std::int32_t;   // of a block in the pool of its group
using RequestId = std::uint64_t;

inline constexpr BlockId kNoBlock = -1;  // a hole: the block was dropped, or never taken

// The blocks that hold so many tokens.
constexpr std::int64_t blocks_for(std::int64_t tokens, int block_tokens) {
  return (tokens + block_tokens - 1) / block_tokens;
}

}  // namespace kvasir
