#include "model/recurrent_layers.h"

namespace kvasir {
namespace {

constexpr float kUnitEps = 1e-6F;  // of the squares' sum, in every family

// What the sequences of each group with this layer's states are given.
template <class Body>
void each_group(int layer, const Batch& batch, const KvStorage& storage, const Body& body) {
  for (size_t group = 0; group < batch.sequences.size(); ++group) {
    const std::span<const SequenceView> sequences = batch.sequences[group];
    if (sequences.empty() || !storage.caches(group, layer) || !storage.keeps_state(group)) continue;
    body(storage.state_view(group, layer), SequenceViews(sequences));
  }
}

// One part of a row behind another.
class Columns {
 public:
  explicit Columns(Matrix all) : all_(all) {}
  Matrix next(int width) {
    const Matrix part = all_.columns(first_, width);
    first_ += width;
    return part;
  }

 private:
  Matrix all_;
  int first_ = 0;
};

}  // namespace

void RecurrentLayers::run(int layer, const Batch& batch, const KvStorage& storage, Matrix x, Matrix out) {
  const RecurrentSpec& spec = spec_.layers[static_cast<size_t>(layer)].recurrent;
  const RecurrentWeights& weights = weights_.layers[static_cast<size_t>(layer)].recurrent;
  const Matrix in = as_matrix(space_.recurrent_in, x.rows, spec.row_width());
  int first = 0;
  for (const auto& weight : weights.in) {
    backend_.run(MatmulOp{weight.get(), x, nullptr, in.columns(first, weight->outputs())});
    first += weight->outputs();
  }
  const Call call{layer, batch, storage, spec, weights, in};
  const Matrix made = spec.kind == RecurrentSpec::Kind::kDeltaNet ? delta_net(call)
                      : spec.kind == RecurrentSpec::Kind::kMamba2 ? mamba(call)
                                                                  : short_conv(call);
  backend_.run(MatmulOp{weights.out.get(), made, nullptr, out});
}

void RecurrentLayers::convolve(const Call& call, Matrix x, CausalConvOp::Bend bend) {
  each_group(call.layer, call.batch, call.storage, [&](const StateView& state, SequenceViews sequences) {
    backend_.run(CausalConvOp{x, call.weights.conv.as<float>(), call.weights.conv_bias.as<float>(), bend, state,
                              sequences, x});
  });
}

void RecurrentLayers::recur(const Call& call, const RecurrenceOp& like) {
  each_group(call.layer, call.batch, call.storage, [&](const StateView& state, SequenceViews sequences) {
    RecurrenceOp op = like;
    op.state = state;
    op.sequences = sequences;
    backend_.run(op);
  });
}

Matrix RecurrentLayers::delta_net(const Call& call) {
  const RecurrentSpec& spec = call.spec;
  const RecurrentWeights& weights = call.weights;
  convolve(call, call.in.columns(0, spec.conv_channels()), CausalConvOp::Bend::kSilu);
  Columns columns(call.in);
  const Matrix q = columns.next(spec.k_width());
  const Matrix k = columns.next(spec.k_width());
  const Matrix v = columns.next(spec.v_width());
  const Matrix gate = columns.next(spec.v_width());
  const Matrix strength = columns.next(spec.heads);
  const Matrix decay = columns.next(spec.heads);
  const float eps = kUnitEps / static_cast<float>(spec.k_dim);
  backend_.run(NormOp{q, {weights.q_unit.as<float>(), eps}, q, spec.k_heads});
  backend_.run(NormOp{k, {weights.k_unit.as<float>(), eps}, k, spec.k_heads});
  backend_.run(DecayOp{decay, weights.step_bias.as<float>(), weights.rate.as<float>(), spec.heads, Matrix{}, decay});
  recur(call, {RecurrenceOp::Rule::kDelta, q, k, v, decay, strength, nullptr, {}, {}, v});
  backend_.run(NormOp{v, {weights.norm.as<float>(), static_cast<float>(spec_.norm_eps)}, v, spec.heads});
  backend_.run(ActivationOp{Activation::kSilu, gate, v, v});
  return v;
}

Matrix RecurrentLayers::mamba(const Call& call) {
  const RecurrentSpec& spec = call.spec;
  const RecurrentWeights& weights = call.weights;
  convolve(call, call.in.columns(0, spec.conv_channels()), CausalConvOp::Bend::kSilu);
  Columns columns(call.in);
  const Matrix v = columns.next(spec.v_width());
  const Matrix k = columns.next(spec.k_width());
  const Matrix q = columns.next(spec.k_width());
  const Matrix gate = columns.next(spec.v_width());
  const Matrix decay = columns.next(spec.heads);
  const Matrix step = columns.next(spec.heads);
  backend_.run(DecayOp{decay, weights.step_bias.as<float>(), weights.rate.as<float>(), spec.heads, step, decay});
  recur(call, {RecurrenceOp::Rule::kAdd, q, k, v, decay, step, weights.skip.as<float>(), {}, {}, v});
  backend_.run(ActivationOp{Activation::kSilu, gate, v, v});
  backend_.run(NormOp{v, {weights.norm.as<float>(), static_cast<float>(spec_.norm_eps)}, v});
  return v;
}

Matrix RecurrentLayers::short_conv(const Call& call) {
  Columns columns(call.in);
  const Matrix before = columns.next(call.spec.v_width());
  const Matrix v = columns.next(call.spec.v_width());
  const Matrix behind = columns.next(call.spec.v_width());
  backend_.run(ActivationOp{Activation::kIdentity, before, v, v});
  convolve(call, v, CausalConvOp::Bend::kNone);
  backend_.run(ActivationOp{Activation::kIdentity, behind, v, v});
  return v;
}

}  // namespace kvasir
