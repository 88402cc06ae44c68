// A sequence's blocks in order: slot i holds the tokens [i·block_tokens, (i+1)·block_tokens). A slot may be a hole:
// windows and sinks drop blocks from the middle. Knows neither owner nor layers.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/ids.h"

namespace kvasir {

class BlockTable {
 public:
  std::int64_t slots() const { return static_cast<std::int64_t>(blocks_.size()); }
  BlockId at(std::int64_t slot) const { return blocks_[static_cast<size_t>(slot)]; }
  bool hole(std::int64_t slot) const { return at(slot) == kNoBlock; }
  const BlockId* data() const { return blocks_.data(); }

  void append(BlockId block) { blocks_.push_back(block); }
  void replace(std::int64_t slot, BlockId block) { blocks_[static_cast<size_t>(slot)] = block; }
  void make_hole(std::int64_t slot) { replace(slot, kNoBlock); }
  void drop_last() {
    CHECK(!blocks_.empty());
    blocks_.pop_back();
  }

 private:
  std::vector<BlockId> blocks_;
};

}  // namespace kvasir
