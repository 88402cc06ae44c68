#include "model/cached_attention.h"

#include <algorithm>

#include "base/check.h"

namespace kvasir {
namespace {

Matrix matrix(const Buffer& buffer, int rows, int cols) { return {buffer.as<float>(), rows, cols, cols}; }

// Whether a row of these looks at sinks that its window has left behind.
bool looks_back(const KvView& view, std::span<const SequenceView> sequences) {
  return view.sink_query_position > 0 && std::ranges::any_of(sequences, [&view](const SequenceView& sequence) {
           return sequence.start + sequence.rows > view.retention.window;
         });
}

// What belongs to the heads of a group: everything, but where heads of a layer are cached apart. Those are never
// merged, and leave no states.
AttentionRows heads_of(const AttentionRows& rows, const AttentionSpec& spec, const KvView& view) {
  const int queries = spec.heads / spec.kv.heads * spec.kv.k_dim;
  const int heads = view.layout.shape.heads;
  return {rows.q.columns(view.first_head * queries, heads * queries),
          spec.makes_kv() ? rows.k.columns(view.first_head * spec.kv.k_dim, heads * spec.kv.k_dim) : Matrix{},
          spec.v_width() > 0 ? rows.v.columns(view.first_head * spec.kv.v_dim, heads * spec.kv.v_dim) : Matrix{},
          rows.sink_q.columns(view.first_head * queries, heads * queries), rows.unturned};
}

AttentionPart heads_of(const AttentionPart& part, const AttentionSpec& spec, const KvView& view) {
  if (view.layout.shape.heads == spec.kv.heads) return part;
  const int queries = spec.heads / spec.kv.heads;
  const int heads = view.layout.shape.heads * queries;
  return {part.out.columns(view.first_head * queries * spec.kv.v_dim, heads * spec.kv.v_dim), nullptr, heads};
}

// The sink logit, which stands for no key, counts once: with the keys of the finest group.
ScoreRule rule_of(const ScoreRule& rule, const AttentionSpec& spec, const KvView& view) {
  ScoreRule own = rule.from_head(view.first_head * (spec.heads / spec.kv.heads));
  if (!view.recent_override.full()) own.sink_logits = nullptr;
  return own;
}

}  // namespace

CachedAttention::CachedAttention(Backend& backend, const ModelSpec& spec, int max_rows)
    : backend_(backend), spec_(spec), max_rows_(max_rows) {
  int heads = 0;
  int q_width = 0;
  int out_width = 0;
  for (const LayerSpec& layer : spec.layers) {
    heads = std::max(heads, layer.attention.heads);
    q_width = std::max(q_width, layer.attention.q_width());
    out_width = std::max(out_width, layer.attention.out_width());
  }
  const auto rows_of = [&](int width) {
    return backend.allocate(sizeof(float) * static_cast<size_t>(max_rows) * static_cast<size_t>(width));
  };
  const int state_width = heads * static_cast<int>(sizeof(SoftmaxState) / sizeof(float));
  states_ = rows_of(state_width);
  coarse_ = rows_of(out_width);
  coarse_states_ = rows_of(state_width);
  sink_q_ = rows_of(q_width);
  sink_out_ = rows_of(out_width);
  sink_states_ = rows_of(state_width);
}

void CachedAttention::use_basis(const KvBasis& basis) {
  const AttentionSpec& all = spec_.uniform_attention();
  CHECK(basis.kv_heads == all.kv.heads && basis.dim == all.kv.k_dim && basis.dim == all.kv.v_dim &&
        std::ssize(basis.layers) == spec_.layer_count());
  projections_.emplace(backend_, basis, all.heads, max_rows_);
}

void CachedAttention::run(int layer, const Batch& batch, const KvStorage& storage, const LayerRows& rows,
                          Matrix out) {
  const AttentionSpec& spec = spec_.attention(layer);
  const Call call{spec.owns_kv() ? layer : spec.kv_layer, &spec, rows.rule, &batch, &storage};
  if (rows.sinks == LayerRows::Sinks::kLookBack) turn_to_sinks(rows, spec.heads);
  const bool rotated = rows.rope.pairs > 0;
  const bool fused = rotated && spec.makes_kv() && in_one_group(call);
  if (rotated && !fused) {  // queries and keys lie side by side
    const Matrix qk{rows.q.data, rows.q.rows, spec.q_width() + spec.k_width(), rows.q.stride};
    backend_.run(RopeOp{qk, qk.cols / spec.kv.k_dim, rows.rope});
  }
  const Matrix sink_q = matrix(sink_q_, rows.q.rows, spec.q_width());
  write_and_read(call, {rows.q, rows.k, rows.v, sink_q, fused ? &rows.rope : nullptr}, out);
}

bool CachedAttention::has_rows(const Call& call, size_t group) {
  return call.storage->caches(group, call.layer) && !call.storage->keeps_state(group);
}

// Whether all rows are cached alike, and as they are.
bool CachedAttention::in_one_group(const Call& call) const {
  int groups = 0;
  bool plain = true;
  for (size_t group = 0; group < call.batch->sequences.size(); ++group) {
    if (call.batch->sequences[group].empty() || !has_rows(call, group)) continue;
    const KvShape& shape = call.storage->view(group, call.layer).layout.shape;
    plain = plain && shape.whole() && shape.heads == call.spec->kv.heads;
    ++groups;
  }
  return plain && groups == 1;
}

// The queries a second time, before they are rotated: as they stand beside the sinks inside the cache.
void CachedAttention::turn_to_sinks(const LayerRows& rows, int heads) {
  const Matrix copy = matrix(sink_q_, rows.q.rows, rows.q.cols);
  for (int r = 0; r < rows.q.rows; ++r) {
    backend_.run(CopyOp{reinterpret_cast<std::byte*>(copy.row(r)), reinterpret_cast<const std::byte*>(rows.q.row(r)),
                        sizeof(float) * static_cast<size_t>(rows.q.cols)});
  }
  if (rows.at_sinks.pairs > 0) backend_.run(RopeOp{copy, heads, rows.at_sinks});
}

// Each sequence in the groups of its policy. Where a finer group of the layer has a part of the keys, the rest is
// read apart, and both become one.
void CachedAttention::write_and_read(const Call& call, const AttentionRows& rows, Matrix out) {
  const AttentionSpec& spec = *call.spec;
  const AttentionPart whole{out, states_.as<SoftmaxState>(), spec.heads};
  const AttentionPart coarse{matrix(coarse_, out.rows, spec.out_width()), coarse_states_.as<SoftmaxState>(),
                             spec.heads};
  const auto each_group = [&](const auto& body) {
    for (size_t group = 0; group < call.batch->sequences.size(); ++group) {
      const std::span<const SequenceView> sequences = call.batch->sequences[group];
      if (sequences.empty() || !has_rows(call, group)) continue;
      body(group, call.storage->view(group, call.layer), sequences);
    }
  };
  each_group([&](size_t group, const KvView& view, std::span<const SequenceView> sequences) {
    const AttentionPart part = heads_of(view.recent_override.full() ? whole : coarse, spec, view);
    const AttentionRows own = heads_of(rows, spec, view);
    const AttentionBatch like{own.q, view, sequences, part.heads, rule_of(call.rule, spec, view)};
    const AttentionBatch reading = write_and_read(call, own, like, part);
    if (group < call.batch->watches.size() && spec.makes_kv()) watch(reading, call.batch->watches[group]);
  });
  each_group([&](size_t, const KvView& view, std::span<const SequenceView> sequences) {
    if (!view.recent_override.full()) backend_.run(MergeAttentionOp{whole, coarse, sequences});
  });
}

// One group's rows into the cache, and what its keys give: part.out is of whole rows in any case. Returns what was
// read with.
AttentionBatch CachedAttention::write_and_read(const Call& call, AttentionRows rows, const AttentionBatch& like,
                                               const AttentionPart& part) {
  const KvShape& shape = like.view.layout.shape;
  if (!looks_back(like.view, like.sequences)) rows.sink_q = {};
  AttentionPart to = part;
  if (!shape.whole()) {
    CHECK(projections_);
    rows = projections_->shortened(rows, call.layer, like.view, like.sequences);
    if (shape.v_space != KvSpace::kWhole) to.out = projections_->room_for_outputs(rows.q.rows, like.view);
  }
  AttentionBatch batch = like;
  batch.q = rows.q;
  if (!call.spec->makes_kv()) {
    // The rows are there: an earlier layer of the same step wrote them, or they were made of the source.
  } else if (rows.unturned != nullptr) {
    const QkvRows all{rows.q, rows.k, rows.v, call.spec->heads, call.spec->kv.heads, *rows.unturned};
    backend_.run(RopeKvWriteOp{all, like.view, like.sequences});
  } else {
    backend_.run(KvWriteOp{rows.k, rows.v, like.view, like.sequences});
  }
  read(batch, rows.sink_q, to);
  if (shape.v_space != KvSpace::kWhole) projections_->widen(to.out, call.layer, like.view, like.sequences, part.out);
  return batch;
}

// Keys keep their positions, so that what is cached never changes: RoPE knows only distances. The window's keys are
// as far as they are; the sinks are as far as if nothing had been dropped between them and the window.
void CachedAttention::read(const AttentionBatch& batch, Matrix sink_q, const AttentionPart& part) {
  const KvView& view = batch.view;
  AttentionBatch window = batch;
  window.states = part.states;
  if (view.sink_query_position > 0) window.view.retention.sinks = 0;
  backend_.run(AttentionOp{window, part.out});
  if (sink_q.data == nullptr) return;
  const AttentionPart sinks{matrix(sink_out_, batch.q.rows, part.out.cols), sink_states_.as<SoftmaxState>(),
                            part.heads};
  AttentionBatch behind = batch;
  behind.q = sink_q;
  behind.states = sinks.states;
  behind.rule.sink_logits = nullptr;                         // counted beside the window
  behind.view.retention.window = 1;                          // of the sinks …
  behind.view.recent_override = {view.retention.window, 0};  // … those that the window does not have
  backend_.run(AttentionOp{behind, sinks.out});
  backend_.run(MergeAttentionOp{part, sinks, batch.sequences});
}

void CachedAttention::watch(const AttentionBatch& batch, std::span<const AttentionWatch> watches) {
  for (AttentionWatch one : watches) {
    one.scores += batch.view.layer * batch.view.layout.shape.heads * one.stride;
    backend_.run(WatchAttentionOp{batch, one});
  }
}

}  // namespace kvasir
