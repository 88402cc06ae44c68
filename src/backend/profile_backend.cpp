#include "backend/profile_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "backend/lower.h"

namespace kvasir {
namespace {

double bytes_of(Matrix x) { return static_cast<double>(sizeof(float)) * x.rows * x.cols; }

// The keys and values that the batch's queries see, once for each sequence: what reading them without sharing costs.
double cached_bytes(const AttentionBatch& batch) {
  const KvLayout& layout = batch.view.layout;
  const double token_bytes = static_cast<double>(layout.layer_bytes()) / layout.block_tokens;
  double tokens = 0;
  for (const SequenceView& sequence : batch.sequences) {
    const Position end = sequence.start + sequence.rows;
    const Retention& kept = batch.view.retention;
    const Position begin = kept.window_begin(sequence.start);
    tokens += static_cast<double>(end - begin + std::min<Position>(kept.sinks, begin));
  }
  return tokens * token_bytes;
}

std::string shape_of(const Weight& weight) { return fmt::format("{} x {}", weight.outputs(), weight.inputs()); }
double bytes_of(const Weight& weight) { return static_cast<double>(weight.memory().size()); }

// What an op is called, and what it is there to read.
struct OpCost {
  std::string name;
  double bytes = 0;
};

OpCost cost_of(const CopyOp& op) { return {"copy", static_cast<double>(op.bytes)}; }
OpCost cost_of(const EmbedOp& op) { return {"embed", bytes_of(op.out)}; }
OpCost cost_of(const NormOp& op) {
  return {op.rule.kind == NormRule::Kind::kRms ? "rms_norm" : "layer_norm", bytes_of(op.x)};
}
OpCost cost_of(const MatmulOp& op) { return {"matmul " + shape_of(*op.weight), bytes_of(*op.weight)}; }
OpCost cost_of(const RopeOp& op) { return {"rope", bytes_of(op.x)}; }
OpCost cost_of(const ProjectOp& op) { return {"project", bytes_of(op.x)}; }
OpCost cost_of(const KvWriteOp& op) { return {"kv_write", bytes_of(op.k) + bytes_of(op.v)}; }
OpCost cost_of(const AttentionOp& op) { return {"attention", cached_bytes(op.batch)}; }
OpCost cost_of(const MergeAttentionOp& op) {
  return {"merge attention", bytes_of(op.into.out) + bytes_of(op.from.out)};
}
OpCost cost_of(const WatchAttentionOp& op) {
  AttentionBatch one = op.batch;
  one.sequences = op.batch.sequences.subspan(static_cast<size_t>(op.watch.sequence), 1);
  return {"watch attention", cached_bytes(one)};
}
OpCost cost_of(const KvMoveOp& op) {
  const KvLayout& layout = op.view.layout;
  const double row = static_cast<double>(layout.head_bytes()) / layout.block_tokens;
  return {"kv_move", row * static_cast<double>(op.moves.size())};
}
OpCost cost_of(const SwigluOp& op) { return {"swiglu", bytes_of(op.gate) + bytes_of(op.up)}; }
OpCost cost_of(const ActivationOp& op) { return {"activation", bytes_of(op.x) + bytes_of(op.up)}; }
OpCost cost_of(const ScaleOp& op) { return {"scale", bytes_of(op.x)}; }
OpCost cost_of(const SigmoidGateOp& op) { return {"sigmoid gate", bytes_of(op.x) + bytes_of(op.gate)}; }
OpCost cost_of(const QueryScaleOp& op) { return {"query scale", bytes_of(op.x)}; }
OpCost cost_of(const ExpertsOp& op) {
  double bytes = 0;  // as if each row had experts of its own
  for (const ExpertWeights& one : op.experts) {
    for (const Weight* weight : {one.gate, one.up, one.down}) bytes += weight != nullptr ? bytes_of(*weight) : 0;
  }
  const double used = static_cast<double>(op.rule.used) * op.x.rows / static_cast<double>(op.experts.size());
  return {"experts", bytes * std::min(used, 1.0)};
}
OpCost cost_of(const AddOp& op) { return {"add", bytes_of(op.x) + bytes_of(op.y)}; }
double state_bytes(const StateView& state, double floats, SequenceViews sequences) {
  const double parts = floats / static_cast<double>(state.shape.floats());
  return parts * static_cast<double>(state.block_bytes()) / state.layers * static_cast<double>(sequences.size());
}
OpCost cost_of(const CausalConvOp& op) {
  const auto floats = static_cast<double>(op.state.shape.conv_floats());
  return {"convolution", bytes_of(op.x) + state_bytes(op.state, floats, op.sequences)};
}
OpCost cost_of(const DecayOp& op) { return {"decay", bytes_of(op.x)}; }
OpCost cost_of(const RecurrenceOp& op) {
  const auto floats = static_cast<double>(op.state.shape.matrix_floats());
  return {"recurrence", bytes_of(op.v) + state_bytes(op.state, floats, op.sequences)};
}
OpCost cost_of(const StateRoundOp& op) {
  const StateShape& shape = op.state.shape;
  const bool inputs = op.part == StateRoundOp::Part::kConvInputs;
  const auto floats = static_cast<double>(inputs ? shape.conv_floats() : shape.matrix_floats());
  return {"state rounding", state_bytes(op.state, floats, op.sequences)};
}
double bytes_of(const StateCodes& codes) {
  return static_cast<double>(kvasir::state_bytes(codes.shape, codes.layers, codes.format) +
                             kvasir::state_bytes(codes.shape, codes.layers, StateFormat::kF32));
}
OpCost cost_of(const StateEncodeOp& op) { return {"state encoding", bytes_of(op.codes)}; }
OpCost cost_of(const StateDecodeOp& op) { return {"state decoding", bytes_of(op.codes)}; }
OpCost cost_of(const AddNormOp& op) { return {"add and rms_norm", bytes_of(op.x) + bytes_of(op.y)}; }
OpCost cost_of(const GatedMatmulOp& op) { return {"gated matmul " + shape_of(*op.weight), bytes_of(*op.weight)}; }
OpCost cost_of(const RopeKvWriteOp& op) {
  return {"rope and kv_write", bytes_of(op.rows.q) + bytes_of(op.rows.k) + bytes_of(op.rows.v)};
}

}  // namespace

template <class Call>
void ProfileBackend::timed(const std::string& name, double bytes, const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  auto op = std::ranges::find(ops_, name, &OpProfile::name);
  if (op == ops_.end()) op = ops_.insert(ops_.end(), OpProfile{name, 0, 0, 0});
  ++op->calls;
  op->seconds += seconds;
  op->bytes += bytes;
}

void ProfileBackend::forget() { ops_.clear(); }

void ProfileBackend::run(const Op& op) {
  const auto time = [this]<class T>(const T& one) {
    if constexpr (requires { cost_of(one); }) {
      const OpCost cost = cost_of(one);
      timed(cost.name, cost.bytes, [&] { ForwardingBackend::run(one); });
    } else {
      lower(one, *this);  // several products in one: each is of interest by itself
    }
  };
  std::visit(time, op);
}

SampleTicket ProfileBackend::sample(Matrix logits, std::span<const SampleRule> rules) {
  SampleTicket ticket = kNoSample;
  timed("draw", bytes_of(logits), [&] { ticket = ForwardingBackend::sample(logits, rules); });
  return ticket;
}

}  // namespace kvasir
