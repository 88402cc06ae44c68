// One layer's attention over a cache, for every model: rows are written into the groups of their sequences' policies,
// and what their keys give is read from all of them: windows, sinks, recent rows in a finer format, heads apart,
// shorter rows, and scores for whoever evicts tokens.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/kv_storage.h"
#include "model/batch.h"
#include "model/kv_projections.h"
#include "model/spec.h"

namespace kvasir {

// A layer's queries, keys and values, before RoPE.
struct LayerRows {
  Matrix q;  // [rows][heads * k_dim]
  Matrix k;  // [rows][kv heads * k_dim]; in memory right behind q's columns
  Matrix v;
  RopeTable rope = {};      // without pairs: none
  RopeTable at_sinks = {};  // the same, where rows look at sinks that their window has left behind
  enum class Sinks : std::uint8_t { kNone, kLookBack } sinks = Sinks::kNone;
  ScoreRule rule = {};
};

class CachedAttention {
 public:
  // For up to max_rows rows. The backend and the spec outlive it.
  CachedAttention(Backend& backend, const ModelSpec& spec, int max_rows);

  // For policies that keep K or V as shorter rows. REQUIRES: of the spec's shape.
  void use_basis(const KvBasis& basis);

  // out: [rows][heads * v_dim]. q and k hold anything afterwards.
  void run(int layer, const Batch& batch, const KvStorage& storage, const LayerRows& rows, Matrix out);

 private:
  // What `run` gives to each of a batch's groups.
  struct Call {
    int layer = 0;  // whose keys and values are read
    const AttentionSpec* spec = nullptr;
    ScoreRule rule;
    const Batch* batch = nullptr;
    const KvStorage* storage = nullptr;
  };

  static bool has_rows(const Call& call, size_t group);  // of the call's layer
  bool in_one_group(const Call& call) const;
  void turn_to_sinks(const LayerRows& rows, int heads);
  void write_and_read(const Call& call, const AttentionRows& rows, Matrix out);
  AttentionBatch write_and_read(const Call& call, AttentionRows rows, const AttentionBatch& like,
                                const AttentionPart& part);
  void read(const AttentionBatch& batch, Matrix sink_q, const AttentionPart& part);
  void watch(const AttentionBatch& batch, std::span<const AttentionWatch> watches);

  Backend& backend_;
  const ModelSpec& spec_;
  int max_rows_;
  std::optional<KvProjections> projections_;
  Buffer states_;         // [rows][heads] of SoftmaxState: what `out` is a mean of
  Buffer coarse_;         // [rows][heads * v_dim], what keys in a coarser format give, if there are such
  Buffer coarse_states_;  // the same for these
  Buffer sink_q_;         // [rows][heads * k_dim], queries as they look at sinks
  Buffer sink_out_;       // [rows][heads * v_dim], what attention to sinks gives
  Buffer sink_states_;
};

}  // namespace kvasir
