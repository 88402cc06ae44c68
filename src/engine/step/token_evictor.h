// Which rows of a sequence stay when its policy evicts tokens: from scores to row moves. What is left is lossy and
// the sequence's own.
//
// Everything is decided at points that depend on positions alone, never on chunks, batches or blocks: when the whole
// prompt is cached, and again behind every kInterval further tokens. So a sequence that is computed again goes
// through the same points and comes to the same rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "layout/token_eviction.h"

namespace kvasir {

// A policy's eviction, for one sequence.
struct EvictionRule {
  static constexpr std::int64_t kInterval = 16;
  static constexpr std::int64_t kSnapWindow = 32;    // queries that SnapKV watches, and whose tokens it keeps
  static constexpr std::int64_t kSnapPool = 5;       // rows beside each other whose scores it averages
  static constexpr std::int64_t kPyramidSlope = 20;  // PyramidKV: the last layer has so much less than the mean
  static constexpr std::int64_t kLeastOfFive = 1;    // Ada-KV: fifths of an equal share that each head keeps …
  static constexpr std::int64_t kMostShares = 2;  // … and ours: shares that none exceeds, so that memory is bounded

  TokenEviction how;
  std::int64_t sinks = 0;  // the first tokens, which always stay
  Position prompt = 1;     // its length: nothing goes before all of it is cached, and shares are shares of it

  bool is_point(Position length) const;
  Position next_point(Position length) const;  // the first behind it

  std::int64_t budget() const;  // rows that a head of a layer keeps; with budgets per layer or head, the mean
  // The newest rows, which stay after the sinks, in a layer whose heads keep so many each, or in the mean.
  std::int64_t recent(std::int64_t budget) const;
  // Of a layer, of so many of the model's. They add up to budget() times the layers, but for rounding.
  std::int64_t layer_budget(int layer, int layers) const;

  // The first query at or behind `position` that must be watched before the next point; that point: none.
  Position watched_from(Position position) const;
  // What any layer holds at most, at any time, of a sequence of so many tokens.
  std::int64_t most_rows(Position longest) const;
};

// One head of one layer at a point: the token in each row, and what watching gave the row. Rows are in no order.
struct HeadRows {
  std::span<const Position> positions;
  std::span<const float> scores;  // as many; of fifo any
};

// How many rows a head keeps; sinks and the `recent` newest are among them.
struct RowQuota {
  std::int64_t keep = 0;
  std::int64_t recent = 0;
};

// The rows that stay, ascending. Of equal scores the newer stays.
std::vector<std::int32_t> rows_to_keep(const EvictionRule& rule, const HeadRows& rows, const RowQuota& quota);

// Budgets of a layer's heads that add up to at most `budget` each in the mean: those with the highest scores of all
// heads get the rows, within bounds. None is larger than the head's rows.
std::vector<std::int64_t> head_budgets(const EvictionRule& rule, std::span<const HeadRows> heads,
                                       std::int64_t budget);

// What brings the rows that stay to the first places: those from behind go to the gaps, nothing else moves.
std::vector<RowMove> moves_to_front(std::span<const std::int32_t> kept, int head);

}  // namespace kvasir
