#include "model/llama.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model/angle_table.h"
#include "model/kv_projections.h"
#include "model/last_batch.h"
#include "model/llama_weights.h"
#include "model/rope_frequencies.h"

namespace kvasir {
namespace {

// A step's activations, for up to max_rows rows; allocated once.
struct Workspace {
  Buffer x;            // [rows][hidden], the residual stream
  Buffer normed;       // [rows][hidden]
  Buffer qkv;          // [rows][(heads + 2 kv_heads) * head_dim]
  Buffer mixed;        // [rows][heads * head_dim], what attention gives
  Buffer rest;         // [rows][heads * head_dim], what it gives for keys in a coarser format, if there are such
  Buffer states;       // [rows][heads] of SoftmaxState: what `mixed` is a mean of
  Buffer rest_states;  // the same for `rest`
  Buffer branch;       // [rows][hidden], what a branch adds to x
  Buffer gate_up;      // [rows][2 ffn]
  Buffer last;         // [rows][hidden], the rows whose logits are wanted
  Buffer logits;       // [rows][vocab]
  Buffer sink_q;       // [rows][heads * head_dim], as they look at sinks
  Buffer sink_mixed;   // [rows][heads * head_dim], what attention to sinks gives
  Buffer sink_states;  // [rows][heads] of SoftmaxState
};

// A batch's angles, for all layers.
struct Angles {
  RopeTable own;
  RopeTable at_sinks;  // without pairs: nobody looks at sinks from behind a gap
};

// Whether a row of these looks at sinks that its window has left behind.
bool looks_back(const KvView& view, std::span<const SequenceView> sequences) {
  return view.sink_position > 0 && std::ranges::any_of(sequences, [&view](const SequenceView& sequence) {
           return sequence.start + sequence.rows > view.retention.window;
         });
}

class Llama final : public Model {
 public:
  Llama(const ModelConfig& config, const TensorSource& weights, Backend& backend, const LoadOptions& options)
      : config_(config),
        backend_(backend),
        max_rows_(options.max_rows),
        form_(options.weights),
        stored_fingerprint_(name(config, weights)),
        angles_(backend, rope_frequencies(config.rope, config.head_dim), config.context, options.max_rows),
        weights_(load_llama_weights(config, weights, backend, options.weights, options.progress)) {
    allocate_workspace();
  }

  const ModelConfig& config() const override { return config_; }
  Key256 stored_fingerprint() const override { return stored_fingerprint_; }
  Key256 fingerprint() const override {
    if (form_ == WeightForm::kAsStored) return stored_fingerprint_;
    const std::array<std::string_view, 1> parts{name_of(form_)};
    return keyed_hash(stored_fingerprint_, parts);
  }
  std::uint64_t weight_bytes() const override { return weights_.bytes; }
  int max_rows() const override { return max_rows_; }
  const std::optional<Key256>& basis_name() const override { return basis_name_; }

  void use_basis(const KvBasis& basis) override {
    CHECK(basis.kv_heads == config_.kv_heads && basis.dim == config_.head_dim &&
          std::ssize(basis.layers) == config_.layers);
    projections_.emplace(backend_, basis, config_.heads, max_rows_);
    last_.forget();
    basis_name_ = basis.name;
  }

  std::vector<std::span<const std::byte>> weight_memory() const override { return weights_.memory(); }

  Matrix forward(const Batch& batch, KvStorage& storage) override {
    CHECK(batch.rows() > 0 && batch.rows() <= max_rows_);
    const bool to_sinks = find_angles(batch, storage);
    if (last_.needs_the_same_ops(batch, storage) &&
        backend_.repeat_batch(last_.id(), {batch.sequences, storage.block_tokens(), batch.tokens, places_})) {
      return last_.logits();
    }
    backend_.begin_batch(batch.sequences, storage.block_tokens());
    const Matrix x = matrix(space_.x, batch.rows(), config_.hidden);
    backend_.embed(*weights_.embedding, batch.tokens, x);
    Angles angles{angles_.at(backend_.send_places(places_)), {}};
    if (to_sinks) angles.at_sinks = angles_.at(backend_.send_places(sink_places_));
    for (int i = 0; i < config_.layers; ++i) {
      attend(i, batch, angles, storage);
      feed_forward(weights_.layers[static_cast<size_t>(i)], batch.rows());
    }
    backend_.add(x, matrix(space_.branch, batch.rows(), config_.hidden));
    const Matrix out = logits(batch, x);
    const BatchId id = backend_.end_batch();
    if (!to_sinks) last_.remember(batch, storage, id, out);  // whether rows look at sinks changes on the way
    return out;
  }

 private:
  // What the branch before adds, and the norm behind it.
  NormedRows normed(const Buffer& norm, int rows) {
    return {matrix(space_.x, rows, config_.hidden),
            matrix(space_.branch, rows, config_.hidden),
            {norm.as<float>(), eps()},
            matrix(space_.normed, rows, config_.hidden)};
  }
  // out = stack(norm(x + branch))
  void norm_matmul(const NormedRows& rows, const Stack& stack, const float* bias, Matrix out) {
    if (stack.size() == 1) return backend_.norm_matmul(rows, *stack.front(), bias, out);
    backend_.add_rms_norm(rows.x, rows.y, rows.norm, rows.normed);
    matmul(stack, rows.normed, bias, out);
  }

  // branch = out(attention(rope(qkv(norm(x)))))
  void attend(int index, const Batch& batch, const Angles& angles, const KvStorage& storage) {
    const LlamaLayer& layer = weights_.layers[static_cast<size_t>(index)];
    const int rows = batch.rows();
    const Matrix qkv = matrix(space_.qkv, rows, qkv_width());
    const Matrix q = qkv.columns(0, q_width());
    const Matrix k = qkv.columns(q_width(), kv_width());
    const Matrix v = qkv.columns(q_width() + kv_width(), kv_width());
    const Matrix mixed = matrix(space_.mixed, rows, q_width());
    const Matrix branch = matrix(space_.branch, rows, config_.hidden);

    const NormedRows in = normed(layer.attention_norm, rows);
    if (index == 0) {  // no branch is before it
      backend_.rms_norm(in.x, in.norm.weight, in.norm.eps, in.normed);
      matmul(layer.qkv, in.normed, layer.qkv_bias.as<float>(), qkv);
    } else {
      norm_matmul(in, layer.qkv, layer.qkv_bias.as<float>(), qkv);
    }
    if (angles.at_sinks.pairs > 0) turn_to_sinks(q, angles.at_sinks);
    const bool apart = !in_one_group(index, batch, storage);
    if (apart) backend_.rope(qkv.columns(0, q_width() + kv_width()), config_.heads + config_.kv_heads, angles.own);
    const Matrix sink_q = matrix(space_.sink_q, rows, q_width());
    write_and_read({q, k, v, sink_q, apart ? nullptr : &angles.own}, index, batch, storage, mixed);
    backend_.matmul(*layer.out, mixed, layer.out_bias.as<float>(), branch);
  }

  // Whether all rows are cached alike, and as they are.
  bool in_one_group(int layer, const Batch& batch, const KvStorage& storage) const {
    int groups = 0;
    bool plain = true;
    for (size_t group = 0; group < batch.sequences.size(); ++group) {
      if (batch.sequences[group].empty() || !storage.caches(group, layer)) continue;
      const KvShape& shape = storage.view(group, layer).layout.shape;
      plain = plain && shape.whole() && shape.heads == config_.kv_heads;
      ++groups;
    }
    return plain && groups == 1;
  }

  // The queries a second time, before they are turned: as they stand beside the sinks inside the cache.
  void turn_to_sinks(Matrix q, const RopeTable& angles) {
    const Matrix copy = matrix(space_.sink_q, q.rows, q_width());
    for (int r = 0; r < q.rows; ++r) {
      backend_.copy(reinterpret_cast<std::byte*>(copy.row(r)), reinterpret_cast<const std::byte*>(q.row(r)),
                    sizeof(float) * static_cast<size_t>(q_width()));
    }
    backend_.rope(copy, config_.heads, angles);
  }

  // Keys keep their positions, so that what is cached never changes: RoPE knows only distances. The window's keys are
  // as far as they are; the sinks are as far as if nothing had been dropped between them and the window.
  void read(const AttentionBatch& batch, Matrix sink_q, const AttentionPart& part) {
    const KvView& view = batch.view;
    AttentionBatch window = batch;
    window.states = part.states;
    if (view.sink_position > 0) window.view.retention.sinks = 0;
    backend_.attention(window, part.out);
    if (sink_q.data == nullptr) return;
    const AttentionPart sinks{matrix(space_.sink_mixed, batch.q.rows, part.out.cols),
                              space_.sink_states.as<SoftmaxState>(), config_.heads};
    AttentionBatch behind = batch;
    behind.q = sink_q;
    behind.states = sinks.states;
    behind.view.retention.window = 1;                // of the sinks …
    behind.view.finer = {view.retention.window, 0};  // … those that the window does not have
    backend_.attention(behind, sinks.out);
    backend_.merge_attention(part, sinks, batch.sequences);
  }

  void watch(const AttentionBatch& batch, std::span<const AttentionWatch> watches) {
    for (AttentionWatch one : watches) {
      one.scores += batch.view.layer * batch.view.layout.shape.heads * one.stride;
      backend_.watch_attention(batch, one);
    }
  }

  // One group's rows into the cache, and what its keys give: part.out is of whole rows in any case.
  // Returns what was read with.
  AttentionBatch write_and_read(AttentionRows rows, int layer, const AttentionBatch& like,
                                const AttentionPart& part) {
    const KvShape& shape = like.view.layout.shape;
    if (!looks_back(like.view, like.sequences)) rows.sink_q = {};
    AttentionPart to = part;
    if (!shape.whole()) {
      CHECK(projections_);
      rows = projections_->shortened(rows, layer, like.view, like.sequences);
      if (shape.v_space != KvSpace::kWhole) to.out = projections_->room_for_outputs(rows.q.rows, like.view);
    }
    AttentionBatch batch = like;
    batch.q = rows.q;
    if (rows.unturned != nullptr) {
      const UnturnedRows all{rows.q, rows.k, rows.v, config_.heads, config_.kv_heads, *rows.unturned};
      backend_.rope_kv_write(all, like.view, like.sequences);
    } else {
      backend_.kv_write(rows.k, rows.v, like.view, like.sequences);
    }
    read(batch, rows.sink_q, to);
    if (shape.v_space != KvSpace::kWhole) projections_->widen(to.out, layer, like.view, like.sequences, part.out);
    return batch;
  }

  // What belongs to the heads of a group: everything, but where heads of a layer are cached apart. Those are never
  // merged, and leave no states.
  AttentionRows heads_of(const AttentionRows& rows, const KvView& view) const {
    const int dim = config_.head_dim;
    const int queries = config_.heads / config_.kv_heads * dim;
    const int heads = view.layout.shape.heads;
    return {rows.q.columns(view.first_head * queries, heads * queries),
            rows.k.columns(view.first_head * dim, heads * dim), rows.v.columns(view.first_head * dim, heads * dim),
            rows.sink_q.columns(view.first_head * queries, heads * queries), rows.unturned};
  }
  AttentionPart heads_of(const AttentionPart& part, const KvView& view) const {
    if (view.layout.shape.heads == config_.kv_heads) return part;
    const int queries = config_.heads / config_.kv_heads;
    const int heads = view.layout.shape.heads * queries;
    const Matrix out = part.out.columns(view.first_head * queries * config_.head_dim, heads * config_.head_dim);
    return {out, nullptr, heads};
  }

  // Each sequence in the groups of its policy. Where a finer group of the layer has a part of the keys, the rest is
  // read apart, and both become one.
  void write_and_read(const AttentionRows& rows, int layer, const Batch& batch, const KvStorage& storage,
                      Matrix mixed) {
    const float scale = 1.0F / std::sqrt(static_cast<float>(config_.head_dim));
    const AttentionPart whole{mixed, space_.states.as<SoftmaxState>(), config_.heads};
    const AttentionPart rest{matrix(space_.rest, batch.rows(), q_width()), space_.rest_states.as<SoftmaxState>(),
                             config_.heads};
    for (const bool merging : {false, true}) {
      for (size_t group = 0; group < batch.sequences.size(); ++group) {
        const std::span<const SequenceView> sequences = batch.sequences[group];
        if (sequences.empty() || !storage.caches(group, layer)) continue;
        const KvView view = storage.view(group, layer);
        const AttentionPart part = heads_of(view.finer.full() ? whole : rest, view);
        if (!merging) {
          const AttentionRows own = heads_of(rows, view);
          const AttentionBatch reading =
              write_and_read(own, layer, {own.q, view, sequences, part.heads, scale}, part);
          if (group < batch.watches.size()) watch(reading, batch.watches[group]);
        } else if (!view.finer.full()) {
          backend_.merge_attention(whole, rest, sequences);
        }
      }
    }
  }

  // branch = down(silu(gate(norm(x))) * up(norm(x)))
  void feed_forward(const LlamaLayer& layer, int rows) {
    const NormedRows in = normed(layer.ffn_norm, rows);
    const Matrix gate_up = matrix(space_.gate_up, rows, 2 * config_.ffn);
    const Matrix branch = matrix(space_.branch, rows, config_.hidden);
    const float* bias = layer.gate_up_bias.as<float>();
    const float* down_bias = layer.down_bias.as<float>();
    if (layer.gate_up.size() == 1) {
      const GatedLayer gated{layer.gate_up.front().get(), bias, layer.down.get(), down_bias};
      return backend_.feed_forward(in, gated, gate_up, branch);
    }
    norm_matmul(in, layer.gate_up, bias, gate_up);
    const Matrix up = gate_up.columns(config_.ffn, config_.ffn);
    backend_.gated_matmul(*layer.down, gate_up.columns(0, config_.ffn), up, down_bias, branch);
  }

  void matmul(const Stack& stack, Matrix x, const float* bias, Matrix out) {
    int first = 0;
    for (const auto& weight : stack) {
      backend_.matmul(*weight, x, bias != nullptr ? bias + first : nullptr, out.columns(first, weight->outputs()));
      first += weight->outputs();
    }
  }

  Matrix logits(const Batch& batch, Matrix x) {
    const int rows = static_cast<int>(batch.logit_rows.size());
    const Matrix last = matrix(space_.last, rows, config_.hidden);
    const Matrix out = matrix(space_.logits, rows, config_.vocab);
    if (rows == 0) return out;
    for (int r = 0, end = 0; r < rows; r = end) {  // neighbours together
      const int first = batch.logit_rows[static_cast<size_t>(r)];
      while (end < rows && batch.logit_rows[static_cast<size_t>(end)] == first + end - r) ++end;
      const auto run = [&](const Matrix& m, int at) { return Matrix{m.row(at), end - r, m.cols, m.stride}; };
      backend_.rms_norm(run(x, first), weights_.final_norm.as<float>(), eps(), run(last, r));
    }
    backend_.matmul(weights_.head(), last, nullptr, out);
    return out;
  }

  // Whether rows look at sinks, too, from where they stand inside the cache.
  bool find_angles(const Batch& batch, const KvStorage& storage) {
    angles_.find(AngleTable::Use::kRows, batch.positions, places_);
    bool any = false;
    for (size_t group = 0; group < batch.sequences.size(); ++group) {
      if (batch.sequences[group].empty() || storage.sink_position(group) == 0) continue;
      if (!std::exchange(any, true)) sink_positions_ = batch.positions;
      for (const SequenceView& sequence : batch.sequences[group]) {
        for (int i = 0; i < sequence.rows; ++i) {
          Position& position = sink_positions_[static_cast<size_t>(sequence.first_row) + static_cast<size_t>(i)];
          position = std::min(position, storage.sink_position(group));
        }
      }
    }
    if (any) angles_.find(AngleTable::Use::kSinks, sink_positions_, sink_places_);
    return any;
  }

  void allocate_workspace() {
    const auto rows_of = [this](std::int64_t width) {
      return backend_.allocate(sizeof(float) * static_cast<size_t>(max_rows_ * width));
    };
    space_.x = rows_of(config_.hidden);
    space_.normed = rows_of(config_.hidden);
    space_.qkv = rows_of(qkv_width());
    space_.mixed = rows_of(q_width());
    space_.rest = rows_of(q_width());
    space_.states = rows_of(config_.heads * static_cast<int>(sizeof(SoftmaxState) / sizeof(float)));
    space_.rest_states = rows_of(config_.heads * static_cast<int>(sizeof(SoftmaxState) / sizeof(float)));
    space_.branch = rows_of(config_.hidden);
    space_.gate_up = rows_of(2 * config_.ffn);
    space_.last = rows_of(config_.hidden);
    space_.logits = rows_of(config_.vocab);
    space_.sink_q = rows_of(q_width());
    space_.sink_mixed = rows_of(q_width());
    space_.sink_states = rows_of(config_.heads * static_cast<int>(sizeof(SoftmaxState) / sizeof(float)));
  }

  // The same weights with another rope or norm give other keys and values: all that changes them is in the name.
  static Key256 name(const ModelConfig& config, const TensorSource& weights) {
    const RopeConfig& rope = config.rope;
    const std::string constants =
        fmt::format("llama {} {} {} {} {} {} {} {} {} {} {} {}", config.layers, config.heads, config.kv_heads,
                    config.head_dim, config.norm_eps, static_cast<int>(rope.scaling), rope.theta, rope.factor,
                    rope.low_freq_factor, rope.high_freq_factor, rope.original_context, config.tied_embeddings);
    const std::array<std::string_view, 1> parts{constants};
    return keyed_hash(weights.fingerprint(), parts);
  }

  int q_width() const { return config_.heads * config_.head_dim; }
  int kv_width() const { return config_.kv_heads * config_.head_dim; }
  int qkv_width() const { return q_width() + 2 * kv_width(); }
  float eps() const { return static_cast<float>(config_.norm_eps); }
  static Matrix matrix(const Buffer& buffer, int rows, int cols) { return {buffer.as<float>(), rows, cols, cols}; }

  ModelConfig config_;
  Backend& backend_;
  int max_rows_;
  WeightForm form_;
  Key256 stored_fingerprint_;
  AngleTable angles_;
  LlamaWeights weights_;
  Workspace space_;
  std::optional<KvProjections> projections_;
  std::optional<Key256> basis_name_;
  LastBatch last_;
  // Of a batch, where its rows' angles are, and those of their places inside the cache.
  std::vector<std::int32_t> places_;
  std::vector<std::int32_t> sink_places_;
  std::vector<Position> sink_positions_;
};

}  // namespace

std::unique_ptr<Model> make_llama(const ModelConfig& config, const TensorSource& weights, Backend& backend,
                                  const LoadOptions& options) {
  return std::make_unique<Llama>(config, weights, backend, options);
}

}  // namespace kvasir
