#include "backend/ref/ref_recurrent.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace kvasir {
namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// One row of one head: S and the row's output.
void recur(const RecurrenceOp& op, int row, int head, float* s) {
  const int k_dim = op.state.shape.k_dim;
  const int v_dim = op.state.shape.v_dim;
  const int k_head = head / (op.state.shape.heads / op.k_heads());
  const float* q = op.q.row(row) + static_cast<std::ptrdiff_t>(k_head) * k_dim;
  const float* k = op.k.row(row) + static_cast<std::ptrdiff_t>(k_head) * k_dim;
  const float* decay = op.decay.row(row) + static_cast<std::ptrdiff_t>(head) * (op.decays_by_row() ? k_dim : 1);
  const double strength = op.strength.row(row)[head];
  for (int c = 0; c < v_dim; ++c) {
    const double v = op.v.row(row)[head * v_dim + c];
    double seen = 0;
    for (int i = 0; i < k_dim; ++i) {
      float& at = s[i * v_dim + c];
      at *= decay[op.decays_by_row() ? i : 0];
      seen += static_cast<double>(at) * k[i];
    }
    const double written = op.rule == RecurrenceOp::Rule::kDelta ? sigmoid(strength) * (v - seen) : strength * v;
    double out = op.skip == nullptr ? 0.0 : op.skip[head] * v;
    for (int i = 0; i < k_dim; ++i) {
      float& at = s[i * v_dim + c];
      at = static_cast<float>(at + k[i] * written);
      out += static_cast<double>(at) * q[i];
    }
    op.out.row(row)[head * v_dim + c] = static_cast<float>(out);
  }
}

}  // namespace

void ref_conv(const CausalConvOp& op) {
  const int channels = op.state.shape.conv_channels;
  const int before = op.state.shape.conv_inputs;
  for (const SequenceView& sequence : op.sequences) {
    float* kept = op.state.conv_inputs(sequence.blocks[0]);
    if (sequence.start == 0) std::fill_n(kept, op.state.shape.conv_floats(), 0.0F);
    for (int c = 0; c < channels; ++c) {
      std::vector<float> inputs;
      for (int j = 0; j < before; ++j) inputs.push_back(kept[j * channels + c]);
      for (int i = 0; i < sequence.rows; ++i) {
        const int row = sequence.first_row + i;
        inputs.push_back(op.x.row(row)[c]);
        double sum = op.bias == nullptr ? 0.0 : op.bias[c];
        for (int j = 0; j <= before; ++j) {
          sum += static_cast<double>(op.weight[j * channels + c]) * inputs[static_cast<size_t>(i + j)];
        }
        op.out.row(row)[c] = static_cast<float>(op.bend == CausalConvOp::Bend::kSilu ? sum * sigmoid(sum) : sum);
      }
      for (int j = 0; j < before; ++j) kept[j * channels + c] = inputs[static_cast<size_t>(sequence.rows + j)];
    }
  }
}

void ref_decay(const DecayOp& op) {
  const int each = op.x.cols / op.heads;
  for (int r = 0; r < op.x.rows; ++r) {
    for (int c = 0; c < op.x.cols; ++c) {
      const double x = static_cast<double>(op.x.row(r)[c]) + op.bias[c];
      const double soft = std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
      const double step = std::clamp<double>(soft, op.least, op.most);
      if (op.step.data != nullptr) op.step.row(r)[c] = static_cast<float>(step);
      op.decay.row(r)[c] = static_cast<float>(std::exp(op.rate[c / each] * step));
    }
  }
}

void ref_recurrence(const RecurrenceOp& op) {
  const StateShape& shape = op.state.shape;
  for (const SequenceView& sequence : op.sequences) {
    for (int head = 0; head < shape.heads; ++head) {
      float* s = op.state.matrix(sequence.blocks[0], head);
      if (sequence.start == 0) std::fill_n(s, static_cast<std::int64_t>(shape.k_dim) * shape.v_dim, 0.0F);
      for (int i = 0; i < sequence.rows; ++i) recur(op, sequence.first_row + i, head, s);
    }
  }
}

void ref_round_states(const StateRoundOp& op) {
  const StateShape& shape = op.state.shape;
  for (const SequenceView& sequence : op.sequences) {
    if (op.part == StateRoundOp::Part::kConvInputs) {
      round_conv_inputs(op.format, shape, op.state.conv_inputs(sequence.blocks[0]));
      continue;
    }
    for (int head = 0; head < shape.heads; ++head) {
      round_matrix(op.format, shape, op.state.matrix(sequence.blocks[0], head));
    }
  }
}

}  // namespace kvasir
