// Every address that an op names in its backend's memory, for backends of tests that move what lies there. One
// function an op: whoever adds one says here what it points to.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backend/ops.h"

namespace kvasir::testing {

// `move(pointer, count)` says where an op shall find `count` elements instead; a pointer to const is only read. A
// cache is asked for by move.arena(pointer): its blocks stay where they are, or move as one.
template <class Move>
class OpMemory {
 public:
  explicit OpMemory(Move& move) : move_(move) {}

  CopyOp operator()(CopyOp op) const {
    return {move_(op.to, static_cast<std::int64_t>(op.bytes)), move_(op.from, static_cast<std::int64_t>(op.bytes)),
            op.bytes};
  }
  EmbedOp operator()(const EmbedOp& op) const { return {op.table, op.tokens, of(op.out)}; }
  NormOp operator()(const NormOp& op) const {
    const int count = op.weights == NormOp::Weights::kShared ? op.width() : op.x.cols;
    return {of(op.x), of(op.rule, count), of(op.out), op.heads, op.weights};
  }
  MatmulOp operator()(const MatmulOp& op) const {
    return {op.weight, of(op.x), move_(op.bias, op.out.cols), of(op.out)};
  }
  RopeOp operator()(const RopeOp& op) const { return {of(op.x), op.heads, of(op.table, op.x.rows)}; }
  ProjectOp operator()(ProjectOp op) const {
    const PerHeadLinear& by = op.by;
    op.by.at = move_(by.at, (by.heads - 1) * by.head_stride + static_cast<std::int64_t>(by.inputs) * by.stride);
    op.x = of(op.x);
    op.out = of(op.out);
    return op;
  }
  KvWriteOp operator()(const KvWriteOp& op) const { return {of(op.k), of(op.v), of(op.view), op.sequences}; }
  AttentionOp operator()(const AttentionOp& op) const { return {of(op.batch), of(op.out)}; }
  MergeAttentionOp operator()(const MergeAttentionOp& op) const { return {of(op.into), of(op.from), op.sequences}; }
  WatchAttentionOp operator()(WatchAttentionOp op) const {
    op.watch.scores = move_(op.watch.scores, op.watch.stride * op.batch.view.layout.shape.heads);
    op.batch = of(op.batch);
    return op;
  }
  KvMoveOp operator()(const KvMoveOp& op) const { return {of(op.view), op.blocks, op.moves}; }
  SwigluOp operator()(const SwigluOp& op) const { return {of(op.gate), of(op.up), of(op.out)}; }
  ActivationOp operator()(const ActivationOp& op) const {
    return {op.activation, of(op.x), op.up.data == nullptr ? op.up : of(op.up), of(op.out), op.limit};
  }
  SigmoidGateOp operator()(const SigmoidGateOp& op) const { return {of(op.x), of(op.gate)}; }
  QueryScaleOp operator()(const QueryScaleOp& op) const { return {of(op.x), of(op.table, op.x.rows)}; }
  ScaleOp operator()(const ScaleOp& op) const { return {of(op.x), op.factor, op.softcap, op.limit}; }
  ExpertsOp operator()(ExpertsOp op) const {
    op.x = of(op.x);
    op.logits = of(op.logits);
    op.rule.choice_bias = move_(op.rule.choice_bias, op.logits.cols);
    op.gate_up_bias = move_(op.gate_up_bias, std::int64_t{op.logits.cols} * op.experts.front().projected_width());
    op.down_bias = move_(op.down_bias, std::int64_t{op.logits.cols} * op.out.cols);
    op.rule.expert_scale = move_(op.rule.expert_scale, op.logits.cols);
    op.out = of(op.out);
    return op;
  }
  AddOp operator()(const AddOp& op) const { return {of(op.x), of(op.y)}; }
  CausalConvOp operator()(CausalConvOp op) const {
    op.weight = move_(op.weight, std::int64_t{op.x.cols} * (op.state.shape.conv_inputs + 1));
    op.bias = move_(op.bias, op.x.cols);
    op.state = of(op.state);
    op.x = of(op.x);
    op.out = of(op.out);
    return op;
  }
  DecayOp operator()(DecayOp op) const {
    op.bias = move_(op.bias, op.x.cols);
    op.rate = move_(op.rate, op.heads);
    op.x = of(op.x);
    if (op.step.data != nullptr) op.step = of(op.step);
    op.decay = of(op.decay);
    return op;
  }
  RecurrenceOp operator()(RecurrenceOp op) const {
    for (Matrix* one : {&op.q, &op.k, &op.v, &op.decay, &op.strength, &op.out}) *one = of(*one);
    op.skip = move_(op.skip, op.state.shape.heads);
    op.state = of(op.state);
    return op;
  }
  StateRoundOp operator()(StateRoundOp op) const {
    op.state = of(op.state);
    return op;
  }
  StateEncodeOp operator()(StateEncodeOp op) const {
    op.from = in_cache(op.from);
    op.to = in_cache(op.to);
    return op;
  }
  StateDecodeOp operator()(StateDecodeOp op) const {
    op.from = in_cache(op.from);
    op.to = in_cache(op.to);
    return op;
  }
  AddNormOp operator()(const AddNormOp& op) const { return {of(op.x), of(op.y), of(op.rule, op.x.cols), of(op.out)}; }
  GatedMatmulOp operator()(const GatedMatmulOp& op) const {
    return {op.weight, of(op.gate), of(op.up), move_(op.bias, op.out.cols), of(op.out)};
  }
  NormMatmulOp operator()(const NormMatmulOp& op) const {
    return {of(op.rows), op.weight, move_(op.bias, op.out.cols), of(op.out)};
  }
  FeedForwardOp operator()(const FeedForwardOp& op) const {
    const GatedMlp mlp{op.mlp.gate_up, move_(op.mlp.gate_up_bias, op.gate_up.cols), op.mlp.down,
                       move_(op.mlp.down_bias, op.out.cols)};
    return {of(op.rows), mlp, of(op.gate_up), of(op.out)};
  }
  RopeKvWriteOp operator()(RopeKvWriteOp op) const {
    op.rows.table = of(op.rows.table, op.rows.q.rows);
    op.rows.q = of(op.rows.q);
    op.rows.k = of(op.rows.k);
    op.rows.v = of(op.rows.v);
    op.view = of(op.view);
    return op;
  }

 private:
  Matrix of(Matrix x) const {
    if (x.rows > 0) x.data = move_(x.data, (x.rows - 1) * x.stride + x.cols);
    return x;
  }
  NormRule of(NormRule rule, int count) const {
    rule.weight = move_(rule.weight, count);
    rule.bias = move_(rule.bias, count);
    return rule;
  }
  NormedRows of(const NormedRows& rows) const {
    return {of(rows.x), of(rows.y), of(rows.norm, rows.x.cols), of(rows.normed)};
  }
  RopeTable of(const RopeTable& table, int rows) const {
    const std::int32_t* rope_rows = move_(table.rope_rows, rows);
    const std::int64_t end = move_.angles(table, rows);
    const std::int64_t scales = table.pairs > 0 ? std::max<std::int64_t>(end / table.pairs, 1) : 1;
    return {move_(table.cos, end), move_(table.sin, end), table.pairs, rope_rows, move_(table.query_scale, scales)};
  }
  // A block's own bytes.
  template <class T>
  T* in_cache(T* block) const {
    auto* bytes = reinterpret_cast<std::byte*>(const_cast<std::remove_const_t<T>*>(block));
    return reinterpret_cast<T*>(move_.arena(bytes));
  }
  KvView of(KvView view) const {
    view.arena = move_.arena(view.arena);
    return view;
  }
  StateView of(StateView view) const {
    view.arena = move_.arena(view.arena);
    return view;
  }
  AttentionPart of(const AttentionPart& part) const {
    return {of(part.out), move_(part.states, static_cast<std::int64_t>(part.out.rows) * part.heads), part.heads};
  }
  AttentionBatch of(AttentionBatch batch) const {
    batch.states = move_(batch.states, static_cast<std::int64_t>(batch.q.rows) * batch.heads);
    batch.rule.sink_logits = move_(batch.rule.sink_logits, batch.heads);
    PositionBias& bias = batch.rule.bias;
    bias.slopes = move_(bias.slopes, batch.heads);
    bias.table = move_(bias.table, static_cast<std::int64_t>(batch.heads) * bias.width());
    batch.q = of(batch.q);
    batch.view = of(batch.view);
    return batch;
  }

  Move& move_;
};

}  // namespace kvasir::testing
