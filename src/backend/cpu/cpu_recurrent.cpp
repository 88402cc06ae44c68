#include "backend/cpu/cpu_recurrent.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace kvasir::cpu {
namespace {

constexpr std::int64_t kMostPartsAtOnce = 16;

constexpr std::int64_t parts_of(std::int64_t count) { return (count + kLanes - 1) / kLanes; }

Matrix rows_of(Matrix all, const SequenceView& sequence) {
  all.data = all.row(sequence.first_row);
  all.rows = sequence.rows;
  return all;
}

}  // namespace

// Calls body(sequence, part) for `parts` of each sequence. Threads take neighbours: a part is little work where rows
// are few, and parts of a row share pages.
template <class Body>
void Recurrent::each_part(SequenceViews sequences, std::int64_t parts, const Body& body) {
  const std::int64_t all = std::ssize(sequences) * parts;
  const std::int64_t each = std::clamp<std::int64_t>(all / (4 * pool_.threads()), 1, kMostPartsAtOnce);
  pool_.parallel_for((all + each - 1) / each, [&](std::int64_t item, int) {
    for (std::int64_t i = item * each; i < std::min((item + 1) * each, all); ++i) {
      body(sequences[static_cast<size_t>(i / parts)], static_cast<int>(i % parts));
    }
  });
}

void Recurrent::run(const CausalConvOp& op) {
  const StateShape& shape = op.state.shape;
  CHECK(shape.conv_inputs < kMostConvWeights);
  each_part(op.sequences, parts_of(shape.conv_channels), [&](const SequenceView& sequence, int part) {
    const int first = part * kLanes;
    ConvTask task;
    task.x = op.x.row(sequence.first_row) + first;
    task.x_stride = op.x.stride;
    task.weight = op.weight + first;
    if (op.bias != nullptr) task.bias = op.bias + first;
    task.kept = op.state.conv_inputs(sequence.blocks[0]) + first;
    task.channels = shape.conv_channels;
    task.out = op.out.row(sequence.first_row) + first;
    task.out_stride = op.out.stride;
    task.before = shape.conv_inputs;
    task.columns = std::min(kLanes, shape.conv_channels - first);
    task.rows = sequence.rows;
    task.fresh = sequence.start == 0;
    task.bend = op.bend;
    kernels_.convolve(task);
  });
}

// A few numbers a head, or as many as a key has.
void Recurrent::run(const DecayOp& op) {
  const int each = op.x.cols / op.heads;
  pool_.parallel_for(op.x.rows, [&](std::int64_t row, int) {
    const int r = static_cast<int>(row);
    for (int c = 0; c < op.x.cols; ++c) {
      const float x = op.x.row(r)[c] + op.bias[c];
      const float soft = std::max(x, 0.0F) + std::log1p(std::exp(-std::abs(x)));
      const float step = std::clamp(soft, op.least, op.most);
      if (op.step.data != nullptr) op.step.row(r)[c] = step;
      op.decay.row(r)[c] = std::exp(op.rate[c / each] * step);
    }
  });
}

void Recurrent::run(const RecurrenceOp& op) {
  const StateShape& shape = op.state.shape;
  CHECK(shape.k_dim <= kMostStateRows);
  const int group = shape.heads / op.k_heads();
  const auto parts = static_cast<int>(parts_of(shape.v_dim));
  each_part(op.sequences, shape.heads * parts, [&](const SequenceView& sequence, int part) {
    const int head = part / parts;
    const int first = part % parts * kLanes;
    const int columns = std::min(kLanes, shape.v_dim - first);
    const int own = op.decays_by_row() ? shape.k_dim : 1;
    RecurrenceTask task;
    task.rule = op.rule;
    task.q = rows_of(op.q, sequence).columns(head / group * shape.k_dim, shape.k_dim);
    task.k = rows_of(op.k, sequence).columns(head / group * shape.k_dim, shape.k_dim);
    task.v = rows_of(op.v, sequence).columns(head * shape.v_dim + first, columns);
    task.decay = rows_of(op.decay, sequence).columns(head * own, own);
    task.strength = rows_of(op.strength, sequence).columns(head, 1);
    if (op.skip != nullptr) task.skip = op.skip[head];
    task.s = op.state.matrix(sequence.blocks[0], head) + first;
    task.s_stride = shape.v_dim;
    task.out = rows_of(op.out, sequence).columns(head * shape.v_dim + first, columns);
    task.fresh = sequence.start == 0;
    kernels_.recur(task);
  });
}

void Recurrent::run(const StateRoundOp& op) {
  const StateShape& shape = op.state.shape;
  const bool inputs = op.part == StateRoundOp::Part::kConvInputs;
  const int parts = inputs ? 1 : shape.heads;
  pool_.parallel_for(std::ssize(op.sequences) * parts, [&](std::int64_t item, int) {
    const BlockId block = op.sequences[static_cast<size_t>(item / parts)].blocks[0];
    if (inputs) return round_conv_inputs(op.format, shape, op.state.conv_inputs(block));
    round_matrix(op.format, shape, op.state.matrix(block, static_cast<int>(item % parts)));
  });
}

// Layers are independent of each other.
void Recurrent::run(const StateEncodeOp& op) {
  const auto& [format, shape, layers] = op.codes;
  const std::int64_t bytes = state_bytes(shape, 1, format);
  pool_.parallel_for(layers, [&, &format = format, &shape = shape](std::int64_t layer, int) {
    encode_state(format, shape, 1, op.from + layer * shape.floats(), op.to + layer * bytes);
  });
}

void Recurrent::run(const StateDecodeOp& op) {
  const auto& [format, shape, layers] = op.codes;
  const std::int64_t bytes = state_bytes(shape, 1, format);
  pool_.parallel_for(layers, [&, &format = format, &shape = shape](std::int64_t layer, int) {
    decode_state(format, shape, 1, op.from + layer * bytes, op.to + layer * shape.floats());
  });
}

}  // namespace kvasir::cpu
