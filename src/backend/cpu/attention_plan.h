// Which queries read which split of the context together.
//
// A batch is cut into tiles: consecutive rows of one sequence. A unit is one split of the context and the tiles that
// read it: of one sequence, or of many whose blocks there are the same, as under a shared prefix. Each of those
// blocks then comes from memory once for all of them. A row's partial sum over a split depends on the row and the
// split alone, and splits merge in order, so sharing changes no bit.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/kernels.h"

namespace kvasir::cpu {

struct QueryTile {
  int sequence = 0;
  int first_token = 0;  // row inside the sequence
  int tokens = 0;       // tokens * heads_per_kv <= kMaxQueryRows
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

 private:
  void cut_tiles(const AttentionBatch& batch);
  void choose_splits(const AttentionBatch& batch);
  void add_split(const AttentionBatch& batch, int index);
  void spread_tile(int tile);
  void add_group(int split, const int* tiles, int count, int rows_per_token);

  std::vector<QueryTile> tiles_;
  std::vector<SplitUnit> units_;
  std::vector<int> order_;
  std::vector<int> candidates_;  // tiles that may share the split at hand
  std::vector<int> places_;      // by tile; -1: not spread
  std::vector<int> spread_;
  std::vector<std::int64_t> splits_;
};

}  // namespace kvasir::cpu
