#include "engine/step/batch_builder.h"

#include <algorithm>
#include <utility>

namespace kvasir {
namespace {

// Behind a step in flight the rows of all known tokens are on their way.
Position start_of(const ScheduledTokens& one) {
  return one.sampled >= 0 ? static_cast<Position>(one.sequence->tokens.size()) : one.sequence->lease.length();
}

void add_tokens(const ScheduledTokens& one, Position start, std::vector<TokenId>& tokens) {
  if (one.sampled >= 0) return tokens.push_back(sampled_token(one.sampled));
  const std::int64_t again = one.sequence->computed_again;
  const auto first = one.sequence->tokens.begin() + start - again;
  tokens.insert(tokens.end(), first, first + again + one.own_rows());
  tokens.insert(tokens.end(), one.draft.tokens.begin(), one.draft.tokens.end());
}

// Of the rows of a draft that branches, with `before` rows of the text: whom each of them sees of these. The batch
// has room for so many.
const std::uint64_t* add_ancestors(const DraftView& draft, int before, Batch& batch) {
  if (!draft.branches()) return nullptr;
  const size_t first = batch.ancestors.size();
  const auto all_before = [](std::int64_t row) { return (std::uint64_t{1} << row) - 1; };
  for (int row = 0; row < before; ++row) batch.ancestors.push_back(all_before(row));
  for (const std::int32_t parent : draft.parents) {
    const std::int64_t row = before + parent;  // that it follows
    batch.ancestors.push_back(batch.ancestors[first + static_cast<size_t>(row)] | std::uint64_t{1} << row);
  }
  return batch.ancestors.data() + first;
}

// What its rows see of the source, wherever they stand; and the source itself, if the cache does not have it.
void add_source(const ScheduledTokens& one, std::span<const size_t> groups, const KvCache& cache, Batch& batch) {
  const KvLease& lease = one.sequence->lease;
  if (lease.source().empty()) return;
  const int first_row = batch.rows() - one.rows;
  Batch::Source unread{lease.source(), {}};
  for (size_t i = 0; i < groups.size(); ++i) {
    if (!cache.keeps_source(groups[i])) continue;
    const auto length = static_cast<Position>(lease.source().size());
    SequenceView view{lease.table(i).data(), length - one.rows, first_row, one.rows};
    view.keys = length;
    batch.sequences[groups[i]].push_back(view);
    unread.into.emplace_back(groups[i], lease.table(i).data());
  }
  if (lease.lacks_source()) batch.sources.push_back(std::move(unread));
}

}  // namespace

int logit_rows_of(const ScheduledTokens& one) {
  const Sequence& sequence = *one.sequence;
  if (sequence.request.score_from) {
    const Position end = sequence.lease.length() + one.rows;
    return static_cast<int>(std::clamp<Position>(end - *sequence.request.score_from, 0, one.rows));
  }
  return one.completes() ? 1 + static_cast<int>(one.draft.size()) : 0;
}

void build_batch(std::span<const ScheduledTokens> scheduled, const KvCache& cache, Batch& batch) {
  batch.clear(cache.groups());
  size_t tree_rows = 0;
  for (const ScheduledTokens& one : scheduled) {
    if (one.draft.branches()) tree_rows += static_cast<size_t>(one.rows + one.sequence->computed_again);
  }
  batch.ancestors.reserve(tree_rows);  // views point to them
  for (const ScheduledTokens& one : scheduled) {
    const Sequence& sequence = *one.sequence;
    const Position start = start_of(one);
    const int first_row = batch.rows();
    add_tokens(one, start, batch.tokens);
    const std::int64_t again = sequence.computed_again;
    const int rows = one.rows + static_cast<int>(again);
    SequenceView view{nullptr, start - again, first_row, rows};
    view.ancestors = add_ancestors(one.draft, rows - static_cast<int>(one.draft.size()), batch);
    for (int i = 0; i < rows; ++i) batch.positions.push_back(view.position_of(i));
    const Position in_flight = start - sequence.lease.length();
    const std::span<const size_t> groups = cache.groups_of(sequence.lease.policy());
    add_source(one, groups, cache, batch);
    for (size_t i = 0; i < groups.size(); ++i) {
      const bool only_kept = cache.keeps_state(groups[i]) && !cache.writes_state(groups[i]);
      if (cache.keeps_source(groups[i]) || only_kept) continue;
      std::vector<SequenceView>& views = batch.sequences[groups[i]];
      view.blocks = sequence.lease.table(i).data();
      view.start = sequence.lease.rows(i) + in_flight - again;
      views.push_back(view);
      if (cache.keeps_state(groups[i])) views.back().block_count = 1;
      if (!sequence.rows) continue;
      if (const auto watch = sequence.rows->track_scores(i, start, one.rows)) {
        batch.watches[groups[i]].push_back(*watch);
        batch.watches[groups[i]].back().sequence = static_cast<int>(views.size()) - 1;
      }
    }
    for (int row = batch.rows() - logit_rows_of(one); row < batch.rows(); ++row) batch.logit_rows.push_back(row);
  }
}

}  // namespace kvasir
