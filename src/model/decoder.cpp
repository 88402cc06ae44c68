#include "model/decoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model/cached_attention.h"
#include "model/counting_backend.h"
#include "model/decoder_layers.h"
#include "model/decoder_weights.h"
#include "model/decoder_workspace.h"
#include "model/replay_key.h"
#include "model/rope_cache.h"
#include "model/rope_frequencies.h"
#include "model/source_reader.h"

namespace kvasir {
namespace {

// The weights with another rope, norm or window give other keys and values: all that changes them is in the spec's
// text.
Key256 name_of(const ModelSpec& spec, const TensorSource& weights) {
  const std::string constants = to_text(spec);
  const std::array<std::string_view, 1> parts{constants};
  return keyed_hash(weights.fingerprint(), parts);
}

// The size of heads of a rope's layers.
int head_dim_of(const ModelSpec& spec, int rope) {
  for (const LayerSpec& layer : spec.layers) {
    if (layer.attention.rope == rope) return layer.attention.kv.k_dim;
  }
  return 0;
}

RopeCache::Angles angles_of(const ModelSpec& spec, int index) {
  const RopeSpec& rope = spec.ropes[static_cast<size_t>(index)];
  RopeCache::Angles out{rope_frequencies(rope, head_dim_of(spec, index)), rope.magnitude};
  if (rope.query_growth == 0) return out;
  out.query_scale = [growth = rope.query_growth, length = rope.query_length,
                     shift = rope.query_shift](Position position) {
    return 1.0 + growth * std::log(1.0 + static_cast<double>((position + shift) / length));
  };
  return out;
}

// By rope of the spec.
std::vector<RopeCache> make_rope_caches(const ModelSpec& spec, Backend& backend, int max_rows) {
  std::vector<RopeCache> out;
  for (int rope = 0; rope < static_cast<int>(spec.ropes.size()); ++rope) {
    out.emplace_back(backend, angles_of(spec, rope), spec.context, max_rows);
  }
  return out;
}

// A source is read in one step, however many rows a step has otherwise.
int source_rows(const ModelSpec& encoder, std::int64_t context, int max_rows) {
  constexpr std::int64_t kMostSourceRows = 1 << 16;
  const std::int64_t longest = context > 0 ? std::min(context, encoder.context) : encoder.context;
  return static_cast<int>(std::max<std::int64_t>(max_rows, std::min(longest, kMostSourceRows)));
}

LoadOptions for_sources(const ModelSpec& spec, const LoadOptions& options) {
  LoadOptions out = options;
  out.max_rows = source_rows(spec, options.context, options.max_rows);
  out.progress = {};
  return out;
}

class Decoder final : public Model {
 public:
  Decoder(const ModelSpec& spec, const TensorSource& weights, Backend& backend, const LoadOptions& options,
          const SharedWeights& shared = {})
      : spec_(spec),
        backend_(backend),
        max_rows_(options.max_rows),
        form_(options.weights),
        stored_fingerprint_(name_of(spec, weights)),
        weights_(load_decoder_weights(spec, weights, backend, {options.weights, options.progress, shared})),
        attention_(backend, spec_, options.max_rows),
        space_(spec_, backend, options.max_rows),
        layers_(spec_, weights_, space_, backend, attention_) {
    rope_caches_ = make_rope_caches(spec_, backend, max_rows_);
    if (!spec_.reads_source()) return;
    const ModelSpec& encoder = spec_.encoder.front();
    sources_.emplace(SourceReader::Parts{spec_, weights_, space_, backend, max_rows_},
                     std::make_unique<Decoder>(encoder, weights, backend, for_sources(encoder, options),
                                               SharedWeights{weights_.embedding, nullptr}));
    // What both were charged for: all of the file's.
    weights_.bytes += sources_->encoder().weight_bytes() - weights.bytes();
  }

  const ModelSpec& config() const override { return spec_; }
  Key256 stored_fingerprint() const override { return stored_fingerprint_; }
  Key256 fingerprint() const override {
    if (form_ == WeightQuantization::kAsStored) return stored_fingerprint_;
    const std::array<std::string_view, 1> parts{kvasir::name_of(form_)};
    return keyed_hash(stored_fingerprint_, parts);
  }
  std::uint64_t weight_bytes() const override { return weights_.bytes; }
  SharedWeights shared_weights() const override {
    return {weights_.embedding, weights_.own_head ? weights_.own_head : weights_.embedding};
  }
  int max_rows() const override { return max_rows_; }
  int longest_source() const override { return sources_ ? sources_->longest() : 0; }
  const std::optional<Key256>& basis_name() const override { return basis_name_; }

  void use_basis(const KvBasis& basis) override {
    attention_.use_basis(basis);
    last_.forget();
    basis_name_ = basis.name;
  }

  std::vector<std::span<const std::byte>> weight_memory() const override { return weights_.memory(); }

  Matrix forward(const Batch& batch, KvStorage& storage) override {
    CHECK(batch.rows() > 0 && batch.rows() <= max_rows_);
    CHECK(!spec_.encodes() || batch.output == Batch::Output::kHidden);
    if (!batch.sources.empty()) sources_->run(batch, storage);
    const bool to_sinks = find_angles(batch, storage);
    const bool logits_wanted = batch.output == Batch::Output::kLogits;
    const bool repeats = logits_wanted && batch.taps.empty() && spec_.draft.none();
    if (repeats && last_.matches(batch, storage) &&
        backend_.replay_batch(last_.id(), {batch.sequences, storage.block_tokens(), batch.tokens, rope_rows_})) {
      return last_.logits();
    }
    backend_.begin_batch(batch.sequences, storage.block_tokens());
    Matrix x = embed(batch);
    if (!spec_.draft.none()) x = join_given(batch, x);
    step_.batch = &batch;
    step_.storage = &storage;
    step_.all[0].rows = batch.rows();
    step_.all_rows = std::span<const SequenceView>(step_.all);
    send_angles(to_sinks);
    layers_.run(step_);
    for (const Batch::Tap& tap : batch.taps) {
      if (tap.behind == DraftHeadSpec::kNormedRows) normalize(x, tap.to);
    }
    const Matrix out = logits_wanted ? logits(batch, x) : last_rows(batch, x);
    const BatchId id = backend_.end_batch();
    // Whether rows look at sinks changes on the way, and a batch with a second embed() cannot be repeated.
    const bool embeds_once = spec_.positions == 0 && spec_.token_types == 0 && spec_.layer_input == 0;
    if (repeats && !to_sinks && embeds_once) last_.remember(batch, storage, id, out);
    return out;
  }

 private:
  NormRule rule(const Buffer& norm) const { return weights_.rule(spec_, norm); }

  Matrix embed(const Batch& batch) {
    const int rows = batch.rows();
    const Matrix x = as_matrix(spec_.draft.none() ? space_.x : space_.branch, rows, spec_.hidden);
    if (weights_.embedding_in) {
      const Matrix narrow = as_matrix(space_.embedded, rows, spec_.embedding_width);
      backend_.run(EmbedOp{weights_.embedding.get(), batch.tokens, narrow});
      backend_.run(MatmulOp{weights_.embedding_in.get(), narrow, nullptr, x});
    } else {
      backend_.run(EmbedOp{weights_.embedding.get(), batch.tokens, x});
    }
    if (spec_.embedding_scale != 1.0F) backend_.run(ScaleOp{x, spec_.embedding_scale});
    if (spec_.positions > 0) {
      learned_positions_.clear();
      for (const Position position : batch.positions) {
        CHECK(position < spec_.positions);  // the context is no longer than that
        learned_positions_.push_back(static_cast<TokenId>(position));
      }
      add_learned(*weights_.positions, learned_positions_, x);
    }
    if (spec_.token_types > 0) {
      token_types_ = batch.token_types;
      token_types_.resize(static_cast<size_t>(rows));
      add_learned(*weights_.token_types, token_types_, x);
    }
    if (spec_.embedding_norm) backend_.run(NormOp{x, rule(weights_.embedding_norm), x});
    if (spec_.layer_input > 0) make_layer_inputs(batch, x);
    return x;
  }

  void add_learned(const Weight& table, std::span<const TokenId> of_rows, Matrix x) {
    const Matrix added = as_matrix(space_.branch, x.rows, spec_.hidden);
    backend_.run(EmbedOp{&table, of_rows, added});
    backend_.run(AddOp{x, added});
  }

  // What each layer is given of a token: of a table of its own, and of the embedding.
  void make_layer_inputs(const Batch& batch, Matrix x) {
    const int width = spec_.layer_input * spec_.layer_count();
    const Matrix given = as_matrix(space_.layer_inputs, x.rows, width);
    const Matrix made = as_matrix(space_.layer_rows, x.rows, width);
    backend_.run(EmbedOp{weights_.layer_embedding.get(), batch.tokens, given});
    backend_.run(ScaleOp{given, std::sqrt(static_cast<float>(spec_.layer_input))});
    backend_.run(MatmulOp{weights_.layer_projection.get(), x, nullptr, made});
    backend_.run(ScaleOp{made, 1.0F / std::sqrt(static_cast<float>(spec_.hidden))});
    const NormRule norm{weights_.layer_projection_norm.as<float>(), static_cast<float>(spec_.norm_eps)};
    backend_.run(NormOp{made, norm, made, spec_.layer_count()});
    backend_.run(AddOp{given, made});
    backend_.run(ScaleOp{given, std::sqrt(0.5F)});
  }

  // The stream of a draft head: what each row is given, with its token's embedding.
  Matrix join_given(const Batch& batch, Matrix embedded) {
    const DraftHeadSpec& draft = spec_.draft;
    const int rows = embedded.rows;
    CHECK(batch.given.rows == rows);
    CHECK(batch.given.cols == spec_.hidden || batch.given.cols == draft.features(spec_.hidden));
    const Matrix joined = as_matrix(space_.joined, rows, 2 * spec_.hidden);
    const Matrix x = as_matrix(space_.x, rows, spec_.hidden);
    backend_.run(NormOp{embedded, rule(weights_.draft_embedding_norm), joined.columns(0, spec_.hidden)});
    Matrix given = batch.given;
    if (draft.kind == DraftHeadSpec::Kind::kEagle3) {
      given = x;
      if (batch.given.cols == spec_.hidden) {
        copy_rows(batch.given, x);
      } else {
        backend_.run(MatmulOp{weights_.draft_join.get(), batch.given, nullptr, x});
      }
    }
    backend_.run(NormOp{given, rule(weights_.draft_given_norm), joined.columns(spec_.hidden, spec_.hidden)});
    if (draft.kind == DraftHeadSpec::Kind::kNextN) {
      backend_.run(MatmulOp{weights_.draft_join.get(), joined, nullptr, x});
    } else if (draft.residual_is_normed) {
      backend_.run(NormOp{x, rule(weights_.draft_given_norm), x});
    }
    return x;
  }

  void copy_rows(Matrix from, Matrix to) {
    const size_t bytes = sizeof(float) * static_cast<size_t>(from.rows) * static_cast<size_t>(from.cols);
    backend_.run(CopyOp{reinterpret_cast<std::byte*>(to.data), reinterpret_cast<std::byte*>(from.data), bytes});
  }

  // As the head reads them.
  void normalize(Matrix from, Matrix to) {
    if (spec_.final_norm) return backend_.run(NormOp{from, rule(weights_.final_norm), to});
    copy_rows(from, to);
  }

  // The rows whose logits are wanted, normalized.
  Matrix last_rows(const Batch& batch, Matrix x) {
    const int rows = static_cast<int>(batch.logit_rows.size());
    const Matrix last = as_matrix(space_.last, rows, spec_.hidden);
    for (int r = 0, end = 0; r < rows; r = end) {  // neighbours together
      const int first = batch.logit_rows[static_cast<size_t>(r)];
      while (end < rows && batch.logit_rows[static_cast<size_t>(end)] == first + end - r) ++end;
      const auto run = [&](const Matrix& m, int at) { return Matrix{m.row(at), end - r, m.cols, m.stride}; };
      normalize(run(x, first), run(last, r));
    }
    return last;
  }

  Matrix logits(const Batch& batch, Matrix x) {
    const int rows = static_cast<int>(batch.logit_rows.size());
    const Matrix out = as_matrix(space_.logits, rows, spec_.vocab);
    if (rows == 0) return out;
    Matrix last = last_rows(batch, x);
    if (weights_.embedding_out) {
      const Matrix narrow = as_matrix(space_.embedded, rows, spec_.embedding_width);
      backend_.run(MatmulOp{weights_.embedding_out.get(), last, nullptr, narrow});
      last = narrow;
    }
    backend_.run(MatmulOp{&weights_.head(), last, weights_.head_bias.as<float>(), out});
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
    const auto send = [this](std::span<const std::int32_t> rope_rows, std::vector<RopeTable>& tables) {
      const std::int32_t* sent = backend_.upload_rope_rows(rope_rows);
      for (const RopeCache& table : rope_caches_) tables.push_back(table.at(sent));
    };
    step_.ropes.clear();
    step_.at_sinks.clear();
    send(rope_rows_, step_.ropes);
    if (!to_sinks) return;
    send(sink_rope_rows_, step_.at_sinks);
    if (step_.at_sinks.empty()) step_.at_sinks.emplace_back();  // of a model without ropes
  }

  ModelSpec spec_;
  Backend& backend_;
  int max_rows_;
  WeightQuantization form_;
  Key256 stored_fingerprint_;
  std::vector<RopeCache> rope_caches_;  // by rope of the spec
  DecoderWeights weights_;
  CachedAttention attention_;
  Workspace space_;
  DecoderLayers layers_;
  std::optional<Key256> basis_name_;
  ReplayKey last_;
  std::optional<SourceReader> sources_;  // of an encoder-decoder
  // Of a batch: where its rows' angles are, and those of their places inside the cache.
  std::vector<std::int32_t> rope_rows_;
  std::vector<std::int32_t> sink_rope_rows_;
  std::vector<Position> sink_query_positions_;
  std::vector<TokenId> learned_positions_;
  std::vector<TokenId> token_types_;
  LayerStep step_;  // kept, so that a step allocates nothing
};

}  // namespace

std::unique_ptr<Model> make_decoder(const ModelSpec& spec, const TensorSource& weights, Backend& backend,
                                    const LoadOptions& options, const SharedWeights& shared) {
  return std::make_unique<Decoder>(spec, weights, backend, options, shared);
}

std::uint64_t activation_bytes(const ModelSpec& spec, int max_rows) {
  CountingBackend backend;
  const CachedAttention attention(backend, spec, max_rows);
  const Workspace space(spec, backend, max_rows);
  make_rope_caches(spec, backend, max_rows);
  if (!spec.reads_source()) return backend.bytes();
  const ModelSpec& encoder = spec.encoder.front();
  const int longest = source_rows(encoder, 0, max_rows);
  const ScratchRows rows(backend, encoder, longest, KvStorage::Layers::kInTurn);
  return backend.bytes() + activation_bytes(encoder, longest);
}

}  // namespace kvasir
