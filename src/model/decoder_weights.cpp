#include "model/decoder_weights.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "backend/weight_reader.h"
#include "model/latent_weights.h"
#include "model/position_bias.h"
#include "model/tensors.h"

namespace kvasir {
namespace {

class Loader {
 public:
  Loader(const ModelSpec& spec, const TensorSource& weights, Backend& backend, WeightQuantization form)
      : spec_(spec),
        tensors_(own_tensors(spec)),
        weights_(weights),
        backend_(backend),
        form_(form),
        bytes_(weights.bytes()) {
    for (const TensorSpec& tensor : tensors_) {
      by_role_[{tensor.layer, tensor.role, tensor.bias, tensor.expert}] = &tensor;
    }
  }

  std::uint64_t bytes() const { return bytes_; }

  void load_ends(const SharedWeights& shared, DecoderWeights& out) {
    using enum TensorRole;
    const bool tied = !has(kNoLayer, kHead);
    out.embedding = shared.embedding;
    if (!out.embedding)
      out.embedding = load(found(kNoLayer, {kEmbedding}), tied ? form_ : WeightQuantization::kAsStored);
    out.final_norm = load_norm(kNoLayer, kFinalNorm);
    out.own_head = tied ? shared.head : load(found(kNoLayer, {kHead}), form_);
    out.draft_embedding_norm = load_norm(kNoLayer, kDraftEmbeddingNorm);
    out.draft_given_norm = load_norm(kNoLayer, kDraftGivenNorm);
    out.draft_join = load_if(kNoLayer, kDraftJoin, form_);
    out.head_bias = load_vectors(biases(kNoLayer, {kHead}));
    out.embedding_norm = load_norm(kNoLayer, kEmbeddingNorm);
    out.embedding_in = load_if(kNoLayer, kEmbeddingIn, form_);
    out.embedding_out = load_if(kNoLayer, kEmbeddingOut, form_);
    out.positions = load_if(kNoLayer, kPositions, WeightQuantization::kAsStored);
    out.token_types = load_if(kNoLayer, kTokenTypes, WeightQuantization::kAsStored);
    out.layer_embedding = load_if(kNoLayer, kLayerEmbedding, WeightQuantization::kAsStored);
    out.layer_projection = load_if(kNoLayer, kLayerProjection, form_);
    out.layer_projection_norm = load_norm(kNoLayer, kLayerProjectionNorm);
    int largest = spec_.hidden;
    for (const LayerSpec& layer : spec_.layers) {
      largest = std::max({largest, layer.attention.kv.k_dim, layer.attention.kv.v_dim, layer.attention.q_width()});
    }
    out.ones = upload(std::vector<float>(static_cast<size_t>(largest), 1.0F));
  }

  // What a layer has not is left empty: the decoder asks the spec, and not the weights.
  LayerWeights load_layer(int layer) {
    using enum TensorRole;
    LayerWeights out;
    out.attention_norm = load_norm(layer, kAttentionNorm);
    out.attention_post_norm = load_norm(layer, kAttentionPostNorm);
    if (!spec_.layers[static_cast<size_t>(layer)].recurrent.none()) load_recurrent(layer, out.recurrent);
    const bool of_source = spec_.attention(layer).of_source;
    out.qkv = load_stack(of_source ? found(layer, {kQ}) : found(layer, {kQ, kK, kV, kOutGate}));
    if (of_source) {
      out.source_kv = load_stack(found(layer, {kK, kV}));
      out.source_kv_bias = load_vectors(biases(layer, {kK, kV}));
    }
    if (!spec_.attention(layer).latent.none()) load_latent(layer, out);
    out.out = load_if(layer, kO, form_);
    out.mlp_norm = load_norm(layer, kMlpNorm);
    out.mlp_post_norm = load_norm(layer, kMlpPostNorm);
    if (has(layer, kRouter)) load_experts(layer, out);
    if (has(layer, kDown)) {
      out.gate_up = load_stack(found(layer, {kGate, kUp}));
      out.down = load(found(layer, {kDown}), form_);
    }
    load_layer_input(layer, out);
    out.qkv_bias = spec_.attention(layer).of_source ? load_vectors(biases(layer, {kQ}))
                                                    : load_vectors(biases(layer, {kQ, kK, kV}));
    out.q_norm = load_head_norm(layer, kQNorm);
    out.k_norm = load_head_norm(layer, kKNorm);
    out.sink_logits = load_vectors(found(layer, {kSinks}));
    out.position_bias = load_position_bias(layer);
    out.out_bias = load_vectors(biases(layer, {kO}));
    out.gate_up_bias = load_vectors(biases(layer, {kGate, kUp}));
    out.down_bias = load_vectors(biases(layer, {kDown}));
    return out;
  }

 private:
  using Key = std::tuple<int, TensorRole, bool, int>;  // layer, role, whether it is a bias, expert
  static constexpr int kNoLayer = -1;
  static constexpr int kNoExpert = -1;

  void load_recurrent(int layer, RecurrentWeights& out) {
    using enum TensorRole;
    const RecurrentSpec& spec = spec_.layers[static_cast<size_t>(layer)].recurrent;
    // In the order of RecurrentLayers: what the convolution reads first.
    out.in = spec.kind == RecurrentSpec::Kind::kMamba2
                 ? load_stack(found(layer, {kStateV, kStateK, kStateQ, kStateGate, kStateDecay}))
                 : load_stack(found(layer, {kStateQ, kStateK, kStateV, kStateGateIn, kStateDecayIn, kStateGate,
                                            kStateStrength, kStateDecay}));
    out.gate = load_if(layer, kStateGateOut, form_);
    out.decay = load_if(layer, kStateDecayOut, form_);
    out.conv = load_turned(found(layer, {kStateConv, kStateConvQ, kStateConvK, kStateConvV}));
    out.conv_bias = load_vectors(biases(layer, {kStateConv}));
    out.out = load(found(layer, {kStateOut}), form_);
    if (spec.kind == RecurrentSpec::Kind::kShortConv) return;
    out.skip = load_vectors(found(layer, {kStateSkip}));
    out.step_bias = load_vectors(found(layer, {kStateStepBias}));
    out.norm = load_norm(layer, kStateNorm);
    const HostWeight logs = found(layer, {kStateRate}).front();
    std::vector<float> rate = read_vector(logs);
    for (float& value : rate) value = weights_.is_gguf() ? value : -std::exp(value);
    out.rate = upload(rate);
    done_with(logs);
    // Divided by its length instead of the root of its mean square; queries are scaled besides.
    const float unit = 1.0F / std::sqrt(static_cast<float>(spec.k_dim));
    out.k_unit = upload(std::vector<float>(static_cast<size_t>(spec.k_dim), unit));
    out.q_unit = upload(std::vector<float>(static_cast<size_t>(spec.k_dim), unit * unit));
  }

  // [cols][rows] of small matrices, one below the other, as floats.
  Buffer load_turned(const std::vector<HostWeight>& stored) {
    size_t rows = 0;
    for (const HostWeight& one : stored) rows += static_cast<size_t>(one.rows);
    std::vector<float> row(static_cast<size_t>(stored.front().cols));
    std::vector<float> out(rows * row.size());
    size_t at = 0;
    for (const HostWeight& one : stored) {
      for (int r = 0; r < one.rows; ++r, ++at) {
        read_row(one, r, row.data());
        for (size_t c = 0; c < row.size(); ++c) out[c * rows + at] = row[c];
      }
      done_with(one);
    }
    return upload(out);
  }

  void load_latent(int layer, LayerWeights& out) {
    using enum TensorRole;
    out.q_a = load_if(layer, kQA, form_);
    out.q_a_bias = load_vectors(biases(layer, {kQA}));
    out.q_a_norm = load_norm(layer, kQANorm);
    out.q_b = load_if(layer, kQB, form_);
    out.latent = load_stack(found(layer, {kLatentRope, kLatent}));
    out.latent_bias = load_vectors(biases(layer, {kLatentRope, kLatent}));
    out.latent_norm = load_norm(layer, kLatentNorm);
    const AttentionSpec& attention = spec_.attention(layer);
    const HostWeight keys = found(layer, {kLatentKeys}).front();
    out.absorb = upload(absorbing(attention, keys));
    done_with(keys);
    const HostWeight values = found(layer, {kLatentValues}).front();
    out.expand = upload(expanding(attention, values));
    done_with(values);
  }

  // Routing is float32 whatever the weights are: rows are not rounded before they meet such a matrix.
  std::unique_ptr<Weight> load_router(const HostWeight& stored) {
    std::vector<float> values(static_cast<size_t>(stored.rows) * static_cast<size_t>(stored.cols));
    for (int r = 0; r < stored.rows; ++r)
      read_row(stored, r, values.data() + static_cast<std::ptrdiff_t>(r) * stored.cols);
    const HostWeight plain{std::as_bytes(std::span(values)), DType::kF32, stored.rows, stored.cols};
    std::unique_ptr<Weight> loaded = backend_.load({&plain, 1});
    weights_.done_with(stored);
    return loaded;
  }

  void load_experts(int layer, LayerWeights& out) {
    using enum TensorRole;
    out.router = load_router(found(layer, {kRouter}).front());
    out.router_bias = load_vectors(biases(layer, {kRouter}));
    out.expert_in = load_if(layer, kExpertIn, form_);
    out.expert_out = load_if(layer, kExpertOut, form_);
    const std::vector<HostWeight> shared_gate = found(layer, {kSharedGate});
    if (!shared_gate.empty()) out.shared_gate = load_router(shared_gate.front());
    out.choice_bias = load_vectors(found(layer, {kRouterChoice}));
    out.expert_scale = load_vectors(found(layer, {kExpertScale}));
    out.expert_norm = load_norm(layer, kExpertNorm);
    out.expert_post_norm = load_norm(layer, kExpertPostNorm);
    out.shared_post_norm = load_norm(layer, kSharedPostNorm);
    // The router reads rows that are scaled by 1 / sqrt(hidden), too.
    out.router_scale = load_scaled(found(layer, {kRouterScale}), 1.0F / std::sqrt(static_cast<float>(spec_.hidden)));
    std::vector<HostWeight> gate_up_bias;
    std::vector<HostWeight> down_bias;
    for (int expert = 0; by_role_.contains({layer, kDown, false, expert}); ++expert) {
      const auto keep = [&](std::unique_ptr<Weight> weight) {
        return out.expert_parts.emplace_back(std::move(weight)).get();
      };
      ExpertWeights one;
      const bool plain = !by_role_.contains({layer, kGate, false, expert});
      Stack gate_up = load_stack(found(layer, {kGate, kUp}, expert));
      if (!plain) one.gate = keep(std::move(gate_up.front()));
      if (plain || gate_up.size() > 1) one.up = keep(std::move(gate_up.back()));
      one.down = keep(load(found(layer, {kDown}, expert), form_));
      out.experts.push_back(one);
      for (const TensorRole role : {kGate, kUp}) add({layer, role, true, expert}, gate_up_bias);
      add({layer, kDown, true, expert}, down_bias);
    }
    out.expert_gate_up_bias = load_vectors(gate_up_bias);
    out.expert_down_bias = load_vectors(down_bias);
  }

  void load_layer_input(int layer, LayerWeights& out) {
    using enum TensorRole;
    out.layer_gate = load_if(layer, kLayerGate, form_);
    out.layer_out = load_if(layer, kLayerOut, form_);
    out.layer_post_norm = load_norm(layer, kLayerPostNorm);
    const std::vector<HostWeight> scale = found(layer, {kLayerScale});
    if (scale.empty()) return;
    out.scale = read_vector(scale.front()).front();
    done_with(scale.front());
  }

  bool has(int layer, TensorRole role) const { return by_role_.contains({layer, role, false, kNoExpert}); }
  std::unique_ptr<Weight> load_if(int layer, TensorRole role, WeightQuantization form) {
    return has(layer, role) ? load(found(layer, {role}), form) : nullptr;
  }

  std::vector<HostWeight> found(int layer, std::initializer_list<TensorRole> roles, int expert = kNoExpert) const {
    std::vector<HostWeight> out;
    for (const TensorRole role : roles) add({layer, role, false, expert}, out);
    return out;
  }
  std::vector<HostWeight> biases(int layer, std::initializer_list<TensorRole> roles) const {
    std::vector<HostWeight> out;
    for (const TensorRole role : roles) add({layer, role, true, kNoExpert}, out);
    return out;
  }
  void add(const Key& key, std::vector<HostWeight>& to) const {
    const auto found = by_role_.find(key);
    if (found == by_role_.end()) return;
    const TensorSpec& tensor = *found->second;
    to.push_back(tensor.vector() ? weights_.vector(tensor.name, tensor.row_count())
                                 : weights_.matrix(tensor.name, tensor.row_count(), tensor.cols));
  }

  void done_with(const HostWeight& weight) const { weights_.done_with(weight); }

  // A norm's weight and, where it has one, its bias behind it.
  Buffer load_norm(int layer, TensorRole role) {
    const auto weight = by_role_.find({layer, role, false, kNoExpert});
    if (weight == by_role_.end()) return {};
    std::vector<HostWeight> stored;
    add(weight->first, stored);
    add({layer, role, true, kNoExpert}, stored);
    const float offset = weights_.is_gguf() ? 0.0F : weight->second->offset;
    return load_vectors(stored, offset);
  }

  // The same, or the weights of one head behind those of another, where each has its own.
  Buffer load_head_norm(int layer, TensorRole role) {
    std::vector<HostWeight> own;
    for (int head = 0; by_role_.contains({layer, role, false, head}); ++head) add({layer, role, false, head}, own);
    return own.empty() ? load_norm(layer, role) : load_vectors(own);
  }

  Stack load_stack(const std::vector<HostWeight>& stacked) {
    Stack loaded;
    for (auto begin = stacked.begin(); begin != stacked.end();) {
      const auto end = std::find_if(begin, stacked.end(), [&](const auto& one) { return one.dtype != begin->dtype; });
      loaded.push_back(load({begin, end}, form_));
      begin = end;
    }
    return loaded;
  }

  std::unique_ptr<Weight> load(std::vector<HostWeight> stacked, WeightQuantization form) {
    for (HostWeight& weight : stacked) {
      weight.form = form;
      if (form == WeightQuantization::kAsStored) continue;
      const auto outputs = static_cast<std::uint64_t>(weight.rows);  // a scale each
      bytes_ += outputs * (static_cast<std::uint64_t>(weight.cols) + sizeof(float));
      bytes_ -= outputs * row_bytes(weight.dtype, weight.cols);
    }
    std::unique_ptr<Weight> loaded = backend_.load(stacked);
    for (const HostWeight& weight : stacked) done_with(weight);
    return loaded;
  }

  // One-row tensors one after the other, as floats: norms and biases. None: no buffer.
  Buffer load_vectors(const std::vector<HostWeight>& stacked, float offset = 0.0F) {
    if (stacked.empty()) return {};
    std::vector<float> values;
    for (const HostWeight& weight : stacked) {
      for (const float value : read_vector(weight)) values.push_back(value + offset);
      done_with(weight);
    }
    return upload(values);
  }

  Buffer load_scaled(const std::vector<HostWeight>& stored, float factor) {
    if (stored.empty()) return {};
    std::vector<float> values = read_vector(stored.front());
    for (float& value : values) value *= factor;
    done_with(stored.front());
    return upload(values);
  }

  Buffer load_position_bias(int layer) {
    const AttentionSpec& attention = spec_.attention(layer);
    if (attention.bias.kind == PositionBiasSpec::Kind::kNone) return {};
    if (attention.bias.kind == PositionBiasSpec::Kind::kAlibi) {
      std::vector<float> slopes = alibi_slopes(attention.heads);
      for (float& slope : slopes) slope *= attention.bias.slope_scale;
      return upload(slopes);
    }
    if (attention.bias.kind == PositionBiasSpec::Kind::kNear) {
      return upload(bias_of_window(attention.bias, attention.heads));
    }
    int from = layer;  // T5's lies in the first layer alone, for all
    while (!has(from, TensorRole::kRelativeBias)) --from;
    const HostWeight table = found(from, {TensorRole::kRelativeBias}).front();
    std::vector<float> by_bucket(static_cast<size_t>(table.rows) * static_cast<size_t>(table.cols));
    for (int r = 0; r < table.rows; ++r) read_kept_row(table, r, &by_bucket[static_cast<size_t>(r * table.cols)]);
    weights_.done_with(table);
    return upload(bias_by_distance(attention.bias, by_bucket, attention.heads));
  }

  Buffer upload(const std::vector<float>& values) {
    Buffer buffer = backend_.allocate(values.size() * sizeof(float));
    backend_.upload(buffer.as<std::byte>(), std::as_bytes(std::span(values)));
    return buffer;
  }

  const ModelSpec& spec_;
  std::vector<TensorSpec> tensors_;
  std::map<Key, const TensorSpec*> by_role_;
  const TensorSource& weights_;
  Backend& backend_;
  WeightQuantization form_;
  std::uint64_t bytes_;
};

}  // namespace

std::vector<std::span<const std::byte>> DecoderWeights::memory() const {
  std::vector<std::span<const std::byte>> out{head().memory()};
  for (const LayerWeights& layer : layers) {
    for (const Stack* stack : {&layer.qkv, &layer.latent, &layer.recurrent.in, &layer.gate_up}) {
      for (const auto& weight : *stack) out.push_back(weight->memory());
    }
    for (const Weight* weight :
         {layer.q_a.get(), layer.q_b.get(), layer.out.get(), layer.recurrent.gate.get(), layer.recurrent.decay.get(),
          layer.recurrent.out.get(), layer.expert_in.get(), layer.expert_out.get()}) {
      if (weight != nullptr) out.push_back(weight->memory());
    }
    if (layer.down) out.push_back(layer.down->memory());
    // Of experts a step reads those that its rows go to: what one row reads of them stands for that.
    for (int i = 0; i < layer.used_experts; ++i) {
      const ExpertWeights& one = layer.experts[static_cast<size_t>(i)];
      for (const Weight* weight : {one.gate, one.up, one.down}) {
        if (weight != nullptr) out.push_back(weight->memory());
      }
    }
  }
  return out;
}

DecoderWeights load_decoder_weights(const ModelSpec& spec, const TensorSource& weights, Backend& backend,
                                    const DecoderLoad& how) {
  Loader loader(spec, weights, backend, how.form);
  DecoderWeights out;
  loader.load_ends(how.shared, out);
  for (int i = 0; i < spec.layer_count(); ++i) {
    if (how.progress) how.progress(i, spec.layer_count());
    out.layers.push_back(loader.load_layer(i));
    out.layers.back().used_experts = spec.layers[static_cast<size_t>(i)].mlp.moe.used;
  }
  if (how.progress) how.progress(spec.layer_count(), spec.layer_count());
  out.bytes = loader.bytes();
  return out;
}

}  // namespace kvasir
