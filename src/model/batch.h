// What a model runs at once: rows of tokens, of many sequences, each with its place in the cache.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/ids.h"
#include "layout/kv_view.h"

namespace kvasir {

// There is no prefill and no decode: a prompt's chunk, the next token and a draft to check are sequences with n, 1
// and k+1 rows. Kept by its builder between steps, so that a step allocates nothing.
struct Batch {
  enum class Output : std::uint8_t {
    kLogits,
    kHidden,  // the rows themselves, as the head would read them
  };

  std::vector<TokenId> tokens;      // [rows]
  std::vector<Position> positions;  // [rows]
  // [cache group][sequence]: each sequence in the groups of its policy, which together cache every layer; its views
  // differ in their block table, and in their start where tokens were evicted: there rows are no positions.
  std::vector<std::vector<SequenceView>> sequences;
  // [cache group]: whose attention is watched. The scores are those of the group's first layer; each further layer's
  // follow, [layers][KV heads][stride].
  std::vector<std::vector<AttentionWatch>> watches;
  std::vector<int> logit_rows;  // rows whose output is wanted, ascending
  Output output = Output::kLogits;
  // Sources whose rows the cache does not have: they are read before the rows above, which look at them.
  struct Source {
    std::span<const TokenId> tokens;
    std::vector<std::pair<size_t, const BlockId*>> into;  // cache groups, and the blocks there
  };
  std::vector<Source> sources = {};
  std::vector<TokenId> token_types = {};  // [rows], of a model that has some; empty: all are the first
  // What else is wanted, of all rows: the stream behind so many layers, or DraftHeadSpec::kNormedRows.
  struct Tap {
    int behind = 0;
    Matrix to;  // [rows][hidden], row behind row, in the backend's memory
  };
  std::vector<Tap> taps = {};
  // What a draft head is given with each token: [rows][features], the target's rows side by side; or [rows][hidden],
  // its own. In the backend's memory.
  Matrix given = {};
  // Of draft trees: what sequences' views point to (SequenceView::ancestors).
  std::vector<std::uint64_t> ancestors = {};

  // Nothing of so many cache groups; the memory stays.
  void clear(size_t groups) {
    tokens.clear();
    positions.clear();
    logit_rows.clear();
    sources.clear();
    taps.clear();
    ancestors.clear();
    sequences.resize(groups);
    for (auto& views : sequences) views.clear();
    watches.resize(groups);
    for (auto& watched : watches) watched.clear();
  }

  int rows() const { return static_cast<int>(tokens.size()); }
};

}  // namespace kvasir
