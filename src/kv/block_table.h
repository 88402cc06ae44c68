// A sequence's blocks in order: the block at index i holds the tokens [i·block_tokens, (i+1)·block_tokens). There may
// be holes: windows and sinks drop blocks from the middle. The table knows neither owner nor layers.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/ids.h"

namespace kvasir {

class BlockTable {
 public:
  std::int64_t size() const { return static_cast<std::int64_t>(blocks_.size()); }
  BlockId at(std::int64_t block_index) const { return blocks_[static_cast<size_t>(block_index)]; }
  bool hole(std::int64_t block_index) const { return at(block_index) == kNoBlock; }
  const BlockId* data() const { return blocks_.data(); }
  auto begin() const { return blocks_.begin(); }
  auto end() const { return blocks_.end(); }

  void append(BlockId block) { blocks_.push_back(block); }
  void replace(std::int64_t block_index, BlockId block) { blocks_[static_cast<size_t>(block_index)] = block; }
  void make_hole(std::int64_t block_index) { replace(block_index, kNoBlock); }
  void drop_last() {
    CHECK(!blocks_.empty());
    blocks_.pop_back();
  }

 private:
  std::vector<BlockId> blocks_;
};

}  // namespace kvasir
