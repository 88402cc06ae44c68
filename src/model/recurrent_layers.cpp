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

}  // namespace

RecurrentLayers::Parts RecurrentLayers::parts_of(const RecurrentSpec& spec, Matrix in) {
  Parts parts;
  int first = 0;
  const auto next = [&](int width) {
    const Matrix part = in.columns(first, width);
    first += width;
    return part;
  };
  parts.mixed = in.columns(0, spec.conv_channels());
  parts.q = next(spec.k_width());
  parts.k = next(spec.k_width());
  parts.v = next(spec.v_width());
  parts.gate = next(spec.v_width());
  parts.strength = next(spec.heads);
  parts.decay = next(spec.heads);
  return parts;
}

void RecurrentLayers::run(int layer, const Batch& batch, const KvStorage& storage, Matrix x, Matrix out) {
  const RecurrentWeights& weights = weights_.layers[static_cast<size_t>(layer)].recurrent;
  const RecurrentSpec& spec = spec_.layers[static_cast<size_t>(layer)].recurrent;
  const Matrix in = as_matrix(space_.recurrent_in, x.rows, spec.in_width());
  int first = 0;
  for (const auto& weight : weights.in) {
    backend_.run(MatmulOp{weight.get(), x, nullptr, in.columns(first, weight->outputs())});
    first += weight->outputs();
  }
  const Parts p = parts_of(spec, in);
  each_group(layer, batch, storage, [&](const StateView& state, SequenceViews sequences) {
    backend_.run(CausalConvOp{p.mixed, weights.conv.as<float>(), nullptr, CausalConvOp::Bend::kSilu, state, sequences,
                              p.mixed});
  });
  const float eps = kUnitEps / static_cast<float>(spec.k_dim);
  backend_.run(NormOp{p.q, {weights.q_unit.as<float>(), eps}, p.q, spec.k_heads});
  backend_.run(NormOp{p.k, {weights.k_unit.as<float>(), eps}, p.k, spec.k_heads});
  backend_.run(
      DecayOp{p.decay, weights.step_bias.as<float>(), weights.rate.as<float>(), spec.heads, Matrix{}, p.decay});
  each_group(layer, batch, storage, [&](const StateView& state, SequenceViews sequences) {
    backend_.run(
        RecurrenceOp{RecurrenceOp::Rule::kDelta, p.q, p.k, p.v, p.decay, p.strength, nullptr, state, sequences, p.v});
  });
  backend_.run(NormOp{p.v, {weights.norm.as<float>(), static_cast<float>(spec_.norm_eps)}, p.v, spec.heads});
  backend_.run(ActivationOp{Activation::kSilu, p.gate, p.v, p.v});
  backend_.run(MatmulOp{weights.out.get(), p.v, nullptr, out});
}

}  // namespace kvasir
