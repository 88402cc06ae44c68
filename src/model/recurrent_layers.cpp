#include "model/recurrent_layers.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace kvasir {
namespace {

constexpr float kUnitEps = 1e-6F;  // of the squares' sum, in every family

struct LayerStates {
  StateView view;
  StateFormat format = StateFormat::kF32;
};

// What the sequences of each group with this layer's states are given.
template <class Body>
void each_group(int layer, const Batch& batch, const KvStorage& storage, const Body& body) {
  for (size_t group = 0; group < batch.sequences.size(); ++group) {
    const std::span<const SequenceView> sequences = batch.sequences[group];
    if (sequences.empty() || !storage.caches(group, layer) || !storage.writes_state(group)) continue;
    body({storage.state_view(group, layer), storage.state_format(group)}, sequences);
  }
}

// Rows of sequences in parts that end where states are rounded, or with the rows: the part of each with this number,
// of those that have so many. False: none has.
bool part_of(std::span<const SequenceView> sequences, Position number, std::vector<SequenceView>& rows) {
  rows.clear();
  for (SequenceView view : sequences) {
    const Position first = kStateStep - view.start % kStateStep;
    const Position from = number == 0 ? 0 : first + (number - 1) * kStateStep;
    if (from >= view.rows) continue;
    const Position count = number == 0 ? first : kStateStep;
    view.start += from;
    view.first_row += static_cast<int>(from);
    view.rows = static_cast<int>(std::min<Position>(count, view.rows - from));
    rows.push_back(view);
  }
  return !rows.empty();
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
  const Matrix made = mixed({layer, batch, storage, spec, weights, in});
  backend_.run(MatmulOp{weights.out.get(), made, nullptr, out});
  if (spec.out_scale != 1.0F) backend_.run(ScaleOp{out, spec.out_scale});
}

Matrix RecurrentLayers::mixed(const Call& call) {
  switch (call.spec.kind) {
    case RecurrentSpec::Kind::kDeltaNet:
      return delta_net(call);
    case RecurrentSpec::Kind::kMamba2:
      return mamba(call);
    case RecurrentSpec::Kind::kKda:
      return kda(call);
    case RecurrentSpec::Kind::kShortConv:
    case RecurrentSpec::Kind::kNone:
      break;
  }
  return short_conv(call);
}

// In parts that end where states are rounded, if they are: the rows behind such a place are made of the rounded
// state.
template <class Run>
void RecurrentLayers::update_states(const Call& call, StateRoundOp::Part part, const Run& run) {
  each_group(call.layer, call.batch, call.storage, [&](const LayerStates& states, SequenceViews sequences) {
    if (states.format == StateFormat::kF32) return run(states.view, sequences);
    std::vector<SequenceView> rows;
    std::vector<SequenceView> ended;
    for (Position number = 0; part_of(sequences, number, rows); ++number) {
      run(states.view, SequenceViews(rows));
      ended.clear();
      std::ranges::copy_if(rows, std::back_inserter(ended),
                           [](const SequenceView& view) { return (view.start + view.rows) % kStateStep == 0; });
      if (!ended.empty()) backend_.run(StateRoundOp{states.format, part, states.view, SequenceViews(ended)});
    }
  });
}

void RecurrentLayers::convolve(const Call& call, Matrix x, CausalConvOp::Bend bend) {
  const auto run = [&](const StateView& state, SequenceViews sequences) {
    backend_.run(CausalConvOp{x, call.weights.conv.as<float>(), call.weights.conv_bias.as<float>(), bend, state,
                              sequences, x});
  };
  update_states(call, StateRoundOp::Part::kConvInputs, run);
}

void RecurrentLayers::recur(const Call& call, const RecurrenceOp& like) {
  const auto run = [&](const StateView& state, SequenceViews sequences) {
    RecurrenceOp op = like;
    op.state = state;
    op.sequences = sequences;
    backend_.run(op);
  };
  update_states(call, StateRoundOp::Part::kMatrices, run);
}

// Queries or keys, each as long as it is to be; where heads are tiled, once more for each tile, in `tiles`.
Matrix RecurrentLayers::of_units(const RecurrentSpec& spec, Matrix x, const Buffer& unit, Matrix tiles) {
  const NormRule rule{unit.as<float>(), kUnitEps / static_cast<float>(spec.k_dim)};
  if (!spec.tiled()) {
    backend_.run(NormOp{x, rule, x, spec.k_heads});
    return x;
  }
  for (int first = 0; first < tiles.cols; first += x.cols) {
    backend_.run(NormOp{x, rule, tiles.columns(first, x.cols), spec.k_heads});
  }
  return tiles;
}

Matrix RecurrentLayers::delta_net(const Call& call) {
  const RecurrentSpec& spec = call.spec;
  const RecurrentWeights& weights = call.weights;
  convolve(call, call.in.columns(0, spec.conv_channels()), CausalConvOp::Bend::kSilu);
  Columns columns(call.in);
  Matrix q = columns.next(spec.k_width());
  Matrix k = columns.next(spec.k_width());
  const Matrix v = columns.next(spec.v_width());
  const Matrix gate = columns.next(spec.v_width());
  const Matrix strength = columns.next(spec.heads);
  const Matrix decay = columns.next(spec.heads);
  const Matrix tiles = columns.next(spec.tiled() ? 2 * spec.heads * spec.k_dim : 0);
  q = of_units(spec, q, weights.q_unit, tiles.columns(0, tiles.cols / 2));
  k = of_units(spec, k, weights.k_unit, tiles.columns(tiles.cols / 2, tiles.cols / 2));
  backend_.run(DecayOp{decay, weights.step_bias.as<float>(), weights.rate.as<float>(), spec.heads, Matrix{}, decay});
  recur(call, {RecurrenceOp::Rule::kDelta, q, k, v, decay, strength, nullptr, {}, {}, v});
  backend_.run(NormOp{v, {weights.norm.as<float>(), static_cast<float>(spec_.norm_eps)}, v, spec.heads});
  backend_.run(ActivationOp{Activation::kSilu, gate, v, v});
  return v;
}

Matrix RecurrentLayers::kda(const Call& call) {
  const RecurrentSpec& spec = call.spec;
  const RecurrentWeights& weights = call.weights;
  convolve(call, call.in.columns(0, spec.conv_channels()), CausalConvOp::Bend::kSilu);
  Columns columns(call.in);
  const Matrix q = columns.next(spec.k_width());
  const Matrix k = columns.next(spec.k_width());
  const Matrix v = columns.next(spec.v_width());
  const Matrix gate_in = columns.next(spec.gate_rank);
  const Matrix decay_in = columns.next(spec.gate_rank);
  const Matrix strength = columns.next(spec.heads);
  const Matrix gate = columns.next(spec.v_width());
  const Matrix decay = columns.next(spec.heads * spec.k_dim);
  backend_.run(MatmulOp{weights.gate.get(), gate_in, nullptr, gate});
  backend_.run(MatmulOp{weights.decay.get(), decay_in, nullptr, decay});
  of_units(spec, q, weights.q_unit, {});
  of_units(spec, k, weights.k_unit, {});
  backend_.run(DecayOp{decay, weights.step_bias.as<float>(), weights.rate.as<float>(), spec.heads, Matrix{}, decay});
  recur(call, {RecurrenceOp::Rule::kDelta, q, k, v, decay, strength, nullptr, {}, {}, v});
  backend_.run(NormOp{v, {weights.norm.as<float>(), static_cast<float>(spec_.norm_eps)}, v, spec.heads});
  backend_.run(SigmoidGateOp{v, gate});
  return v;
}

// As they were projected: values, keys, queries, gates, steps.
void RecurrentLayers::scale_inputs(const Call& call) {
  const RecurrentSpec& spec = call.spec;
  const auto& [gates, values, keys, queries, steps] = spec.in_scales;
  Columns columns(call.in);
  const auto scale_next = [&](int width, float scale) {
    const Matrix part = columns.next(width);
    if (scale != 1.0F) backend_.run(ScaleOp{part, scale});
  };
  scale_next(spec.v_width(), values);
  scale_next(spec.k_width(), keys);
  scale_next(spec.k_width(), queries);
  scale_next(spec.v_width(), gates);
  scale_next(spec.heads, steps);
}

// v = norm(v) silu(gate), or norm(v silu(gate)), or that without a norm
void RecurrentLayers::gate_and_normalize(const Call& call, Matrix gate, Matrix v) {
  using Stage = RecurrentSpec::NormStage;
  const RecurrentSpec& spec = call.spec;
  const NormRule rule{call.weights.norm.as<float>(), static_cast<float>(spec_.norm_eps)};
  const NormOp norm{v, rule, v, spec.norm_groups, NormOp::Weights::kOfEachPart};
  if (spec.norm_stage == Stage::kBeforeGate) backend_.run(norm);
  backend_.run(ActivationOp{Activation::kSilu, gate, v, v});
  if (spec.norm_stage == Stage::kBehindGate) backend_.run(norm);
}

Matrix RecurrentLayers::mamba(const Call& call) {
  const RecurrentSpec& spec = call.spec;
  const RecurrentWeights& weights = call.weights;
  scale_inputs(call);
  convolve(call, call.in.columns(0, spec.conv_channels()), CausalConvOp::Bend::kSilu);
  Columns columns(call.in);
  const Matrix v = columns.next(spec.v_width());
  const Matrix k = columns.next(spec.k_width());
  const Matrix q = columns.next(spec.k_width());
  const Matrix gate = columns.next(spec.v_width());
  const Matrix decay = columns.next(spec.heads);
  const Matrix step = columns.next(spec.heads);
  backend_.run(DecayOp{decay, weights.step_bias.as<float>(), weights.rate.as<float>(), spec.heads, step, decay,
                       spec.least_step, spec.most_step});
  recur(call, {RecurrenceOp::Rule::kAdd, q, k, v, decay, step, weights.skip.as<float>(), {}, {}, v});
  gate_and_normalize(call, gate, v);
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
