// Which queries read which split of the context together.
//
// A batch is cut into tiles: consecutive rows of one sequence, or one of a draft tree. A unit is one split of the
// context and the tiles that read it: of one sequence, or of many whose blocks there are the same, as under a shared
// prefix. Each of those blocks then comes from memory once for all of them. A row's partial sum over a split depends
// on the row and the split alone, and splits merge in order, so sharing changes no bit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/kernels.h"

namespace kvasir::cpu {

// Query heads that share a KV head: all of them, or so many as fit where they are more than kMaxQueryRows.
struct QueryTile {
  int sequence = 0;
  int first_token = 0;  // row inside the sequence
  int tokens = 0;
  int first_head = 0;  // of those that share a KV head
  int heads = 0;

  int rows() const { return tokens * heads; }  // at most kMaxQueryRows
};

struct SplitUnit {
  int split = 0;  // of the plan's
  int first = 0;  // tiles order()[first, first + count), together at most kMaxQueryRows rows
  int count = 0;
};

// Kept between calls, to allocate nothing in a steady state.
class AttentionPlan {
 public:
  void build(const AttentionBatch& batch);

  const std::vector<QueryTile>& tiles() const { return tiles_; }
  const std::vector<SplitUnit>& units() const { return units_; }
  const std::vector<int>& order() const { return order_; }
  // The splits that some tile may see, ascending: with a window a long context has no more than a short one.
  const std::vector<std::int64_t>& splits() const { return splits_; }

  // Tiles that share a unit with others are spread: their sums over each split are kept apart until all are there.
  // The others go through their splits one after the other.
  void spread_all();
  bool spread(int tile) const { return places_[static_cast<size_t>(tile)] >= 0; }
  int place(int tile) const { return places_[static_cast<size_t>(tile)]; }  // among the spread ones
  const std::vector<int>& spread_tiles() const { return spread_; }

  // Whether any row of the tile sees anything of this split of the context.
  static bool sees(const AttentionBatch& batch, const QueryTile& tile, std::int64_t split);

  // Calls body(tile) for a sequence's rows from `first` on, in the order of the rows and then of the heads.
  template <class Body>
  static void each_tile(const AttentionBatch& batch, int sequence, int first, const Body& body) {
    const SequenceView& view = batch.sequences[static_cast<size_t>(sequence)];
    const int sharing = batch.heads / batch.view.layout.shape.heads;
    const int heads = std::min(sharing, kMaxQueryRows);
    const int most = view.ancestors != nullptr ? 1 : kMaxQueryRows / heads;  // of a tree each sees others
    for (; first < view.rows; first += most) {
      const int tokens = std::min(most, view.rows - first);
      for (int head = 0; head < sharing; head += heads) {
        body(QueryTile{sequence, first, tokens, head, std::min(heads, sharing - head)});
      }
    }
  }

 private:
  void cut_tiles(const AttentionBatch& batch);
  void choose_splits(const AttentionBatch& batch);
  void add_split(const AttentionBatch& batch, int index);
  void spread_tile(int tile);
  void add_group(int split, std::span<const int> tiles);

  std::vector<QueryTile> tiles_;
  std::vector<SplitUnit> units_;
  std::vector<int> order_;
  std::vector<int> candidates_;  // tiles that may share the split at hand
  std::vector<int> places_;      // by tile; -1: not spread
  std::vector<int> spread_;
  std::vector<std::int64_t> splits_;
};

}  // namespace kvasir::cpu
