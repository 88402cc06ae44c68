#include "model/decoder.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model/cached_attention.h"
#include "model/decoder_weights.h"
#include "model/replay_key.h"
#include "model/rope_cache.h"
#include "model/rope_frequencies.h"

namespace kvasir {
namespace {

// A step's activations, for up to max_rows rows; allocated once, as wide as the widest layer needs them.
struct Workspace {
  Buffer x;              // [rows][hidden], the residual stream
  Buffer normed;         // [rows][hidden]
  Buffer qkv;            // [rows][q, k and v widths]
  Buffer attn_out;       // [rows][heads * v_dim]
  Buffer branch;         // [rows][hidden], what a branch adds to x
  Buffer gate_up;        // [rows][2 ffn]
  Buffer router_logits;  // [rows][experts]
  Buffer last;           // [rows][hidden], the rows whose logits are wanted
  Buffer logits;         // [rows][vocab]
};

// A batch's angles, by rope of the spec.
struct Angles {
  std::vector<RopeTable> own;
  std::vector<RopeTable> at_sinks;  // empty: nobody looks at sinks from behind a gap
};

// The weights with another rope, norm or window give other keys and values: all that changes them is in the spec's
// text.
Key256 name_of(const ModelSpec& spec, const TensorSource& weights) {
  const std::string constants = to_text(spec);
  const std::array<std::string_view, 1> parts{constants};
  return keyed_hash(weights.fingerprint(), parts);
}

// What a rope's layers rotate of a head.
int rotated_dim(const ModelSpec& spec, int rope) {
  for (const LayerSpec& layer : spec.layers) {
    if (layer.attention.rope == rope) return layer.attention.kv.k_dim;
  }
  return 0;
}

class Decoder final : public Model {
 public:
  Decoder(const ModelSpec& spec, const TensorSource& weights, Backend& backend, const LoadOptions& options)
      : spec_(spec),
        backend_(backend),
        max_rows_(options.max_rows),
        form_(options.weights),
        stored_fingerprint_(name_of(spec, weights)),
        weights_(load_decoder_weights(spec, weights, backend, options.weights, options.progress)),
        attention_(backend, spec_, options.max_rows) {
    for (int rope = 0; rope < static_cast<int>(spec_.ropes.size()); ++rope) {
      const RopeSpec& one = spec_.ropes[static_cast<size_t>(rope)];
      RopeCache::Angles angles{rope_frequencies(one, rotated_dim(spec_, rope)), one.magnitude};
      rope_caches_.emplace_back(backend, std::move(angles), spec_.context, max_rows_);
    }
    allocate_workspace();
  }

  const ModelSpec& config() const override { return spec_; }
  Key256 stored_fingerprint() const override { return stored_fingerprint_; }
  Key256 fingerprint() const override {
    if (form_ == WeightQuantization::kAsStored) return stored_fingerprint_;
    const std::array<std::string_view, 1> parts{kvasir::name_of(form_)};
    return keyed_hash(stored_fingerprint_, parts);
  }
  std::uint64_t weight_bytes() const override { return weights_.bytes; }
  int max_rows() const override { return max_rows_; }
  const std::optional<Key256>& basis_name() const override { return basis_name_; }

  void use_basis(const KvBasis& basis) override {
    attention_.use_basis(basis);
    last_.forget();
    basis_name_ = basis.name;
  }

  std::vector<std::span<const std::byte>> weight_memory() const override { return weights_.memory(); }

  Matrix forward(const Batch& batch, KvStorage& storage) override {
    CHECK(batch.rows() > 0 && batch.rows() <= max_rows_);
    const bool to_sinks = find_angles(batch, storage);
    if (last_.matches(batch, storage) &&
        backend_.replay_batch(last_.id(), {batch.sequences, storage.block_tokens(), batch.tokens, rope_rows_})) {
      return last_.logits();
    }
    backend_.begin_batch(batch.sequences, storage.block_tokens());
    const Matrix x = matrix(space_.x, batch.rows(), spec_.hidden);
    backend_.run(EmbedOp{weights_.embedding.get(), batch.tokens, x});
    send_angles(to_sinks);
    if (spec_.embedding_scale != 1.0F) backend_.run(ScaleOp{x, spec_.embedding_scale});
    bool pending = false;  // whether what the last branch made is not added to x yet
    for (int i = 0; i < spec_.layer_count(); ++i) {
      if (fuses(layer_spec(i))) {
        attend(i, batch, storage, pending);
        feed_forward(i, batch.rows());
        pending = true;
      } else {
        if (std::exchange(pending, false)) backend_.run(AddOp{x, branch(batch.rows())});
        run_apart(i, batch, storage);
      }
    }
    if (pending) backend_.run(AddOp{x, branch(batch.rows())});
    const Matrix out = logits(batch, x);
    const BatchId id = backend_.end_batch();
    if (!to_sinks) last_.remember(batch, storage, id, out);  // whether rows look at sinks changes on the way
    return out;
  }

 private:
  const LayerWeights& layer(int index) const { return weights_.layers[static_cast<size_t>(index)]; }
  const LayerSpec& layer_spec(int index) const { return spec_.layers[static_cast<size_t>(index)]; }
  NormRule rule(const Buffer& norm) const {
    const float* weight = norm.as<float>();
    return {weight, static_cast<float>(spec_.norm_eps), spec_.norm_bias ? weight + spec_.hidden : nullptr,
            spec_.norm};
  }
  NormRule head_rule(const Buffer& norm) const { return {norm.as<float>(), static_cast<float>(spec_.norm_eps)}; }
  Matrix branch(int rows) const { return matrix(space_.branch, rows, spec_.hidden); }

  // Whether the sum of a branch, the norm behind it and the product behind that can be one op.
  static bool fuses(const LayerSpec& layer) {
    return layer.norms == NormPlacement::kPre && layer.branch_scale == 1.0F;
  }
  // What a branch of a layer whose ops are apart reads: x with all branches before it, normalized or not.
  Matrix branch_input(const LayerSpec& layer, const Buffer& norm, const NormedRows& rows) {
    if (layer.norms == NormPlacement::kPost) return rows.x;
    backend_.run(NormOp{rows.x, rule(norm), rows.normed});
    return rows.normed;
  }
  // x += what the branch made, as the layer takes it.
  void add_branch(const LayerSpec& layer, const Buffer& post_norm, const NormedRows& rows) {
    const bool post = layer.norms == NormPlacement::kSandwich || layer.norms == NormPlacement::kPost;
    if (post) backend_.run(NormOp{rows.y, rule(post_norm), rows.y});
    if (layer.branch_scale != 1.0F) backend_.run(ScaleOp{rows.y, layer.branch_scale});
    backend_.run(AddOp{rows.x, rows.y});
  }

  // What the branch before adds, and the norm after it.
  NormedRows normed(const Buffer& norm, int rows) const {
    return {matrix(space_.x, rows, spec_.hidden), matrix(space_.branch, rows, spec_.hidden), rule(norm),
            matrix(space_.normed, rows, spec_.hidden)};
  }
  // out = stack(norm(x + branch))
  void norm_matmul(const NormedRows& rows, const Stack& stack, const float* bias, Matrix out) {
    if (stack.size() == 1) return backend_.run(NormMatmulOp{rows, stack.front().get(), bias, out});
    backend_.run(AddNormOp{rows.x, rows.y, rows.norm, rows.normed});
    matmul(stack, rows.normed, bias, out);
  }
  void matmul(const Stack& stack, Matrix x, const float* bias, Matrix out) {
    int first = 0;
    for (const auto& weight : stack) {
      const float* own_bias = bias != nullptr ? bias + first : nullptr;
      backend_.run(MatmulOp{weight.get(), x, own_bias, out.columns(first, weight->outputs())});
      first += weight->outputs();
    }
  }

  // branch = out(attention(rope(qkv(norm(x)))))
  void attend(int index, const Batch& batch, const KvStorage& storage, bool pending) {
    const LayerWeights& weights = layer(index);
    const Matrix qkv = qkv_rows(index, batch.rows());
    const NormedRows in = normed(weights.attention_norm, batch.rows());
    if (pending) {
      norm_matmul(in, weights.qkv, weights.qkv_bias.as<float>(), qkv);
    } else {
      backend_.run(NormOp{in.x, in.norm, in.normed});
      matmul(weights.qkv, in.normed, weights.qkv_bias.as<float>(), qkv);
    }
    attend(index, batch, storage, qkv);
  }

  Matrix qkv_rows(int index, int rows) const {
    const AttentionSpec& spec = spec_.attention(index);
    return matrix(space_.qkv, rows, spec.q_width() + spec.k_width() + spec.v_width());
  }

  // branch = out(attention(rope(qkv)))
  void attend(int index, const Batch& batch, const KvStorage& storage, Matrix qkv) {
    const LayerWeights& weights = layer(index);
    const AttentionSpec& spec = spec_.attention(index);
    LayerRows own = rows_of(qkv, spec);
    own.rule = score_rule(spec, weights);
    if (spec.qk_norm != AttentionSpec::QkNorm::kNone) {
      const bool per_head = spec.qk_norm == AttentionSpec::QkNorm::kPerHead;
      backend_.run(NormOp{own.q, head_rule(weights.q_norm), own.q, per_head ? spec.heads : 1});
      backend_.run(NormOp{own.k, head_rule(weights.k_norm), own.k, per_head ? spec.kv.heads : 1});
    }
    const Matrix attn_out = matrix(space_.attn_out, qkv.rows, spec.out_width());
    attention_.run(index, batch, storage, own, attn_out);
    backend_.run(MatmulOp{weights.out.get(), attn_out, weights.out_bias.as<float>(), branch(qkv.rows)});
  }

  // A layer whose norms do not stand before its branches alone, op by op. x is whole before it and after it.
  void run_apart(int index, const Batch& batch, const KvStorage& storage) {
    const LayerWeights& weights = layer(index);
    const LayerSpec& spec = layer_spec(index);
    const NormedRows rows = normed(weights.attention_norm, batch.rows());
    const Matrix qkv = qkv_rows(index, batch.rows());
    const Matrix read = branch_input(spec, weights.attention_norm, rows);
    matmul(weights.qkv, read, weights.qkv_bias.as<float>(), qkv);
    attend(index, batch, storage, qkv);
    add_branch(spec, weights.attention_post_norm, rows);
    const bool parallel = spec.norms == NormPlacement::kParallel;
    feed(index, parallel ? rows.normed : branch_input(spec, weights.mlp_norm, rows));
    add_branch(spec, weights.mlp_post_norm, rows);
  }

  static ScoreRule score_rule(const AttentionSpec& spec, const LayerWeights& weights) {
    ScoreRule rule{spec.scale, spec.softcap, weights.sink_logits.as<float>(), {}, spec.mask};
    const auto* bias = weights.position_bias.as<float>();
    if (spec.bias.kind == PositionBiasSpec::Kind::kAlibi) rule.bias.slopes = bias;
    if (spec.bias.kind == PositionBiasSpec::Kind::kBuckets) {
      rule.bias = {nullptr, bias, spec.bias.before(), spec.bias.after()};
    }
    return rule;
  }

  LayerRows rows_of(Matrix qkv, const AttentionSpec& spec) const {
    LayerRows rows{qkv.columns(0, spec.q_width()), qkv.columns(spec.q_width(), spec.k_width()),
                   qkv.columns(spec.q_width() + spec.k_width(), spec.v_width())};
    if (spec.rope != kNoRope) rows.rope = batch_angles_.own[static_cast<size_t>(spec.rope)];
    if (looks_back_) rows.sinks = LayerRows::Sinks::kLookBack;
    if (looks_back_ && spec.rope != kNoRope) rows.at_sinks = batch_angles_.at_sinks[static_cast<size_t>(spec.rope)];
    return rows;
  }

  // branch = mlp(norm(x + branch))
  void feed_forward(int index, int rows) {
    const LayerWeights& weights = layer(index);
    const MlpSpec& spec = layer_spec(index).mlp;
    const NormedRows in = normed(weights.mlp_norm, rows);
    const bool swiglu = spec.kind == MlpSpec::Kind::kGated && spec.activation == Activation::kSilu;
    if (spec.moe.experts > 0 || !swiglu || weights.gate_up.size() != 1) {
      backend_.run(AddNormOp{in.x, in.y, in.norm, in.normed});
      return feed(index, in.normed);
    }
    const GatedMlp mlp{weights.gate_up.front().get(), weights.gate_up_bias.as<float>(), weights.down.get(),
                       weights.down_bias.as<float>()};
    backend_.run(FeedForwardOp{in, mlp, matrix(space_.gate_up, rows, 2 * spec.width), branch(rows)});
  }

  // branch = mlp(x)
  void feed(int index, Matrix x) {
    const LayerWeights& weights = layer(index);
    const MlpSpec& spec = layer_spec(index).mlp;
    if (spec.moe.experts > 0) return route_to_experts(weights, spec.moe, x);
    const bool gated = spec.kind == MlpSpec::Kind::kGated;
    const Matrix made = matrix(space_.gate_up, x.rows, (gated ? 2 : 1) * spec.width);
    matmul(weights.gate_up, x, weights.gate_up_bias.as<float>(), made);
    const Matrix first = made.columns(0, spec.width);
    const Matrix up = gated ? made.columns(spec.width, spec.width) : Matrix{};
    const float* bias = weights.down_bias.as<float>();
    if (gated && spec.activation == Activation::kSilu) {
      return backend_.run(GatedMatmulOp{weights.down.get(), first, up, bias, branch(x.rows)});
    }
    backend_.run(ActivationOp{spec.activation, first, up, first});
    backend_.run(MatmulOp{weights.down.get(), first, bias, branch(x.rows)});
  }

  // branch = the sum of what each row's experts make of x
  void route_to_experts(const LayerWeights& weights, const MoeSpec& moe, Matrix x) {
    const Matrix router_logits = matrix(space_.router_logits, x.rows, moe.experts);
    backend_.run(MatmulOp{weights.router.get(), x, nullptr, router_logits});
    const RouterRule rule{moe.score, moe.used, moe.normalized, moe.scale, weights.choice_bias.as<float>()};
    const std::span<const ExpertWeights> experts(weights.experts);
    backend_.run(ExpertsOp{x, router_logits, rule, experts, branch(x.rows)});
  }

  Matrix logits(const Batch& batch, Matrix x) {
    const int rows = static_cast<int>(batch.logit_rows.size());
    const Matrix last = matrix(space_.last, rows, spec_.hidden);
    const Matrix out = matrix(space_.logits, rows, spec_.vocab);
    if (rows == 0) return out;
    for (int r = 0, end = 0; r < rows; r = end) {  // neighbours together
      const int first = batch.logit_rows[static_cast<size_t>(r)];
      while (end < rows && batch.logit_rows[static_cast<size_t>(end)] == first + end - r) ++end;
      const auto run = [&](const Matrix& m, int at) { return Matrix{m.row(at), end - r, m.cols, m.stride}; };
      backend_.run(NormOp{run(x, first), rule(weights_.final_norm), run(last, r)});
    }
    backend_.run(MatmulOp{&weights_.head(), last, nullptr, out});
    if (spec_.logit_scale != 1.0F || spec_.logit_softcap > 0) {
      backend_.run(ScaleOp{out, spec_.logit_scale, spec_.logit_softcap});
    }
    return out;
  }

  // Before the batch begins. Whether rows look at sinks, too, from where they stand inside the cache. Every rope has
  // a position's angles at the same place.
  bool find_angles(const Batch& batch, const KvStorage& storage) {
    for (RopeCache& table : rope_caches_) table.find(RopeCache::Use::kRows, batch.positions, rope_rows_);
    bool any = false;
    for (size_t group = 0; group < batch.sequences.size(); ++group) {
      if (batch.sequences[group].empty() || storage.sink_query_position(group) == 0) continue;
      if (!std::exchange(any, true)) sink_query_positions_ = batch.positions;
      for (const SequenceView& sequence : batch.sequences[group]) {
        for (int i = 0; i < sequence.rows; ++i) {
          Position& position =
              sink_query_positions_[static_cast<size_t>(sequence.first_row) + static_cast<size_t>(i)];
          position = std::min(position, storage.sink_query_position(group));
        }
      }
    }
    if (!any) return false;
    for (RopeCache& table : rope_caches_) table.find(RopeCache::Use::kSinks, sink_query_positions_, sink_rope_rows_);
    return true;
  }

  void send_angles(bool to_sinks) {
    looks_back_ = to_sinks;
    const auto send = [this](std::span<const std::int32_t> rope_rows, std::vector<RopeTable>& tables) {
      const std::int32_t* sent = backend_.upload_rope_rows(rope_rows);
      tables.clear();
      for (const RopeCache& table : rope_caches_) tables.push_back(table.at(sent));
    };
    send(rope_rows_, batch_angles_.own);
    if (to_sinks) send(sink_rope_rows_, batch_angles_.at_sinks);
  }

  void allocate_workspace() {
    int qkv = 0;
    int attn_out = 0;
    int ffn = 0;
    int experts = 0;
    for (const LayerSpec& one : spec_.layers) {
      const AttentionSpec& a = one.attention;
      qkv = std::max(qkv, a.q_width() + a.k_width() + a.v_width());
      attn_out = std::max(attn_out, a.out_width());
      if (one.mlp.moe.experts == 0) ffn = std::max(ffn, one.mlp.width);
      experts = std::max(experts, one.mlp.moe.experts);
    }
    const auto rows_of_width = [this](int width) {
      return backend_.allocate(sizeof(float) * static_cast<size_t>(max_rows_) * static_cast<size_t>(width));
    };
    space_.x = rows_of_width(spec_.hidden);
    space_.normed = rows_of_width(spec_.hidden);
    space_.qkv = rows_of_width(qkv);
    space_.attn_out = rows_of_width(attn_out);
    space_.branch = rows_of_width(spec_.hidden);
    space_.gate_up = rows_of_width(2 * ffn);
    space_.router_logits = rows_of_width(experts);
    space_.last = rows_of_width(spec_.hidden);
    space_.logits = rows_of_width(spec_.vocab);
  }

  static Matrix matrix(const Buffer& buffer, int rows, int cols) { return {buffer.as<float>(), rows, cols, cols}; }

  ModelSpec spec_;
  Backend& backend_;
  int max_rows_;
  WeightQuantization form_;
  Key256 stored_fingerprint_;
  std::vector<RopeCache> rope_caches_;  // by rope of the spec
  DecoderWeights weights_;
  CachedAttention attention_;
  Workspace space_;
  std::optional<Key256> basis_name_;
  ReplayKey last_;
  // Of a batch: where its rows' angles are, and those of their places inside the cache.
  std::vector<std::int32_t> rope_rows_;
  std::vector<std::int32_t> sink_rope_rows_;
  std::vector<Position> sink_query_positions_;
  Angles batch_angles_;
  bool looks_back_ = false;
};

}  // namespace

std::unique_ptr<Model> make_decoder(const ModelSpec& spec, const TensorSource& weights, Backend& backend,
                                    const LoadOptions& options) {
  return std::make_unique<Decoder>(spec, weights, backend, options);
}

}  // namespace kvasir
