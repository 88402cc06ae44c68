// Which sequences of a batch begin with the same blocks, so that those are read once for all of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layout/kv_view.h"

namespace kvasir {

struct SharedPrefix {
  std::vector<int> sequences;  // of the batch: two or more
  int pieces = 0;              // that all of them begin with
};

struct PrefixPieces {
  int block_tokens = 0;
  int blocks = 0;  // of a piece
  int least = 1;   // reads of a piece that a prefix must save to be worth having
  int cost = 0;    // reads that each piece of a prefix costs beside its own
};

// Prefixes of whole pieces that lie before all rows of their sequences, and have no holes. Each of the sequences
// `among` is in one of them at most: in that which saves the most reads of pieces, not in every one that it has.
std::vector<SharedPrefix> find_shared_prefixes(std::span<const SequenceView> sequences, std::span<const int> among,
                                               const PrefixPieces& size);

}  // namespace kvasir
