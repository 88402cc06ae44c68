// The rows of a sequence under a policy that evicts tokens: which token each row holds, in each layer and head, and
// what attention gave it. engine/step/token_evictor decides which rows go; this carries it out.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/kv_storage.h"
#include "engine/step/token_evictor.h"
#include "kv/cache.h"
#include "layout/kv_layout.h"

namespace kvasir {

class TokenRows {
 public:
  struct Shape {
    std::span<const KvGroup> groups;  // of the policy; those with a window of their own evict nothing
    int layers = 0;                   // of the model
    Position longest = 0;             // tokens that the sequence may have
  };

  // Of a sequence without any rows yet. The backend outlives this.
  TokenRows(Backend& backend, const EvictionRule& rule, const Shape& shape);

  // How attention's scores of the tokens [start, start + rows) are tracked in a group of the policy, if any are.
  std::optional<AttentionWatch> track_scores(size_t group, Position start, int rows) const;

  // At a point of the rule, when its tokens are committed: what is over the budget goes.
  void evict(KvCache& cache, KvStorage& storage, KvLease& lease);

  // How many of the lease's tokens are gone, the mean over layers and heads.
  std::int64_t evicted(const KvLease& lease) const;

 private:
  struct Group {
    std::vector<int> layers;  // none: it evicts nothing
    int heads = 0;
    std::int64_t budget = 0;                       // rows that stay
    std::int64_t stride = 0;                       // rows that there may be
    Buffer scores;                                 // [layers][heads][stride], where scores are tracked
    std::vector<std::vector<Position>> positions;  // [layers * heads][row]: tokens that the last point left, or found
  };

  struct Place {
    KvCache& cache;
    KvStorage& storage;
    KvLease& lease;
  };
  using Scores = std::vector<float>;  // of a group, as its own

  std::span<const float> scores_of(const Group& group, const Scores& scores, size_t head) const;
  Scores read_scores(const Group& group) const;
  void write_scores(const Group& group, Scores& scores) const;
  std::vector<std::int64_t> budgets_of(std::span<const Group> groups, std::span<const Scores> scores) const;
  void shrink(size_t index, std::int64_t keep, Scores& scores, const Place& place);

  Backend& backend_;
  EvictionRule rule_;
  std::vector<Group> groups_;  // of the policy; those of the same layers, which have their heads, follow each other
};

}  // namespace kvasir
