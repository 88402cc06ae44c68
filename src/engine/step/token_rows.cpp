#include "engine/step/token_rows.h"

#include <algorithm>

#include "base/check.h"
#include "engine/cache_bytes.h"
#include "engine/schedule/policy_registry.h"

namespace kvasir {
namespace {

using Method = TokenEviction::Method;

// Whose scores begin anew at each point; the others remember.
bool forgets(Method method) { return method == Method::kTova || method == Method::kSnapKv; }

}  // namespace

TokenRows::TokenRows(Backend& backend, const EvictionRule& rule, const Shape& shape)
    : backend_(backend), rule_(rule) {
  for (const KvGroup& kept : shape.groups) {
    Group& group = groups_.emplace_back();
    group.budget = group_budget(rule, kept, shape.layers);
    if (!kept.retention.full() || group.budget >= shape.longest) continue;
    group.layers = kept.layers;
    group.heads = kept.shape.heads;
    group.stride = rule.most_rows(shape.longest);
    group.positions.resize(kept.layers.size() * static_cast<size_t>(kept.shape.heads));
    if (rule.how.method == Method::kFifo) continue;
    group.scores = backend.allocate(group.positions.size() * static_cast<size_t>(group.stride) * sizeof(float));
  }
}

std::optional<AttentionWatch> TokenRows::track_scores(size_t index, Position start, int rows) const {
  const Group& group = groups_[index];
  const Position from = rule_.watched_from(start);
  if (group.layers.empty() || from >= start + rows) return std::nullopt;
  AttentionWatch out;
  out.first = static_cast<int>(from - start);
  out.position = from;
  out.note = rule_.how.method == Method::kLru ? AttentionWatch::Note::kLastQuery : AttentionWatch::Note::kShares;
  out.scores = group.scores.as<float>();
  out.stride = group.stride;
  return out;
}

// `head` counts over all layers.
std::span<const float> TokenRows::scores_of(const Group& group, const Scores& scores, size_t head) const {
  return std::span(scores).subspan(head * static_cast<size_t>(group.stride), group.positions[head].size());
}

TokenRows::Scores TokenRows::read_scores(const Group& group) const {
  Scores scores(group.positions.size() * static_cast<size_t>(group.stride));
  if (rule_.how.method == Method::kFifo) return scores;
  backend_.download(std::as_writable_bytes(std::span(scores)), group.scores.as<std::byte>());
  if (rule_.how.method != Method::kTova) return scores;
  // All heads of a layer keep the same tokens: those that all of them together look at.
  const auto stride = static_cast<size_t>(group.stride);
  const auto heads = static_cast<size_t>(group.heads);
  for (size_t layer = 0; layer < group.layers.size(); ++layer) {
    const std::span<float> first = std::span(scores).subspan(layer * heads * stride, stride);
    for (size_t head = 1; head < heads; ++head) {
      for (size_t row = 0; row < stride; ++row) first[row] += scores[(layer * heads + head) * stride + row];
    }
    for (size_t head = 1; head < heads; ++head) std::ranges::copy(first, first.data() + head * stride);
  }
  return scores;
}

void TokenRows::write_scores(const Group& group, Scores& scores) const {
  if (rule_.how.method == Method::kFifo) return;
  if (forgets(rule_.how.method)) std::ranges::fill(scores, 0.0F);
  backend_.upload(group.scores.as<std::byte>(), std::as_bytes(std::span(scores)));
}

// How many rows each of the groups keeps, which hold the heads of the same layers.
std::vector<std::int64_t> TokenRows::budgets_of(std::span<const Group> groups, std::span<const Scores> scores) const {
  std::vector<std::int64_t> out;
  if (rule_.how.heads == TokenEviction::Heads::kUniform) {
    for (const Group& group : groups) out.push_back(group.budget);
    return out;
  }
  out.resize(groups.size());
  const size_t layers = groups.front().layers.size();
  for (size_t layer = 0; layer < layers; ++layer) {
    std::vector<HeadRows> heads;
    for (size_t i = 0; i < groups.size(); ++i) {
      heads.push_back({groups[i].positions[layer], scores_of(groups[i], scores[i], layer)});
    }
    const std::vector<std::int64_t> of_layer = head_budgets(rule_, heads, groups.front().budget);
    for (size_t i = 0; i < groups.size(); ++i) out[i] += of_layer[i];
  }
  for (std::int64_t& budget : out) budget /= static_cast<std::int64_t>(layers);
  return out;
}

// Positions and scores move with the rows.
void TokenRows::shrink(size_t index, std::int64_t keep, Scores& scores, const Place& place) {
  Group& group = groups_[index];
  const RowQuota quota{keep, rule_.recent(group.budget)};
  const auto heads = static_cast<size_t>(group.heads);
  const size_t number = place.cache.groups_of(place.lease.policy())[index];
  for (size_t layer = 0; layer < group.layers.size(); ++layer) {
    std::vector<RowMove> moves;
    for (size_t head = layer * heads; head < (layer + 1) * heads; ++head) {
      std::vector<Position>& positions = group.positions[head];
      const std::vector<std::int32_t> kept = rows_to_keep(rule_, {positions, scores_of(group, scores, head)}, quota);
      float* own = scores.data() + head * static_cast<size_t>(group.stride);
      for (const RowMove& move : moves_to_front(kept, static_cast<int>(head - layer * heads))) {
        positions[static_cast<size_t>(move.to)] = positions[static_cast<size_t>(move.from)];
        own[move.to] = own[move.from];
        moves.push_back(move);
      }
      std::fill(own + keep, own + positions.size(), 0.0F);
      positions.resize(static_cast<size_t>(keep));
    }
    const KvView view = place.storage.view(number, group.layers[layer]);
    backend_.run(KvMoveOp{view, place.lease.table(index).data(), moves});
  }
  place.cache.shrink(place.lease, index, keep);
}

void TokenRows::evict(KvCache& cache, KvStorage& storage, KvLease& lease) {
  copy_blocks(cache, storage);
  size_t end = 0;
  for (size_t begin = 0; begin < groups_.size(); begin = end) {
    end = begin + 1;
    const std::vector<int>& layers = groups_[begin].layers;
    if (layers.empty()) continue;
    while (end < groups_.size() && groups_[end].layers == layers) ++end;
    std::vector<Scores> scores;
    for (size_t i = begin; i < end; ++i) {
      CHECK(lease.rows(i) <= groups_[i].stride);
      for (std::vector<Position>& positions : groups_[i].positions) {  // those that came since the last point
        const std::int64_t new_rows = lease.rows(i) - std::ssize(positions);
        for (std::int64_t row = 0; row < new_rows; ++row) positions.push_back(lease.length() - new_rows + row);
      }
      scores.push_back(read_scores(groups_[i]));
    }
    const std::vector<std::int64_t> budgets = budgets_of({&groups_[begin], end - begin}, scores);
    for (size_t i = begin; i < end; ++i) {
      const std::int64_t keep = budgets[i - begin];
      if (keep < lease.rows(i)) shrink(i, keep, scores[i - begin], {cache, storage, lease});
      write_scores(groups_[i], scores[i - begin]);
    }
  }
}

std::int64_t TokenRows::evicted(const KvLease& lease) const {
  std::int64_t evicted = 0;
  std::int64_t all = 0;
  for (size_t i = 0; i < groups_.size(); ++i) {
    const auto heads = static_cast<std::int64_t>(groups_[i].positions.size());
    evicted += heads * (lease.length() - lease.rows(i));
    all += heads;
  }
  return all == 0 ? 0 : (evicted + all / 2) / all;
}

}  // namespace kvasir
