#include "backend/host_experts.h"

#include <algorithm>

#include "base/check.h"

namespace kvasir {

// A step of as many rows as the largest so far allocates nothing.
Matrix HostExperts::grown(Buffer& buffer, int rows, int cols, Backend& on) {
  const size_t bytes = sizeof(float) * static_cast<size_t>(rows) * static_cast<size_t>(cols);
  if (buffer.bytes() < bytes) buffer = on.allocate(bytes);
  return {buffer.as<float>(), rows, cols, cols};
}

void HostExperts::choose(const ExpertsOp& op) {
  const auto used = static_cast<size_t>(op.rule.used);
  routes_.resize(static_cast<size_t>(op.x.rows) * used);
  for (int r = 0; r < op.x.rows; ++r) {
    route({op.logits.row(r), static_cast<size_t>(op.logits.cols)}, op.rule,
          std::span(routes_).subspan(static_cast<size_t>(r) * used, used));
  }
  first_.assign(op.experts.size() + 1, 0);
  for (const RoutedExpert& one : routes_) ++first_[static_cast<size_t>(one.expert) + 1];
  for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
  by_expert_.resize(routes_.size());
  place_.resize(routes_.size());
  std::vector<int> next(first_.begin(), first_.end() - 1);
  for (size_t i = 0; i < routes_.size(); ++i) {
    place_[i] = next[static_cast<size_t>(routes_[i].expert)]++;
    by_expert_[static_cast<size_t>(place_[i])] = static_cast<int>(i);
  }
}

void HostExperts::run_expert(const ExpertsOp& op, int expert, Backend& on) {
  const int first = first_[static_cast<size_t>(expert)];
  const int rows = first_[static_cast<size_t>(expert) + 1] - first;
  if (rows == 0) return;
  const ExpertWeights& weights = op.experts[static_cast<size_t>(expert)];
  const int width = weights.width();
  const Matrix x = grown(x_, rows, op.x.cols, on);
  for (int i = 0; i < rows; ++i) {
    const int at = by_expert_[static_cast<size_t>(first + i)];
    std::copy_n(op.x.row(at / op.rule.used), op.x.cols, x.row(i));
    if (op.rule.weighs != RouterRule::Weighs::kInputs) continue;
    const float weight = routes_[static_cast<size_t>(at)].weight;
    for (int c = 0; c < x.cols; ++c) x.row(i)[c] *= weight;
  }
  const Matrix gate_up = grown(gate_up_, rows, weights.projected_width(), on);
  const Matrix gate = gate_up.columns(0, width);
  const Matrix up = weights.plain() ? Matrix{} : gate_up.columns(width, width);
  const float* bias = op.gate_up_bias_of(expert);
  if (weights.plain()) {
    on.run(MatmulOp{weights.up, x, bias, gate});
  } else if (weights.up == nullptr) {
    on.run(MatmulOp{weights.gate, x, bias, gate_up});
  } else {
    on.run(MatmulOp{weights.gate, x, bias, gate});
    on.run(MatmulOp{weights.up, x, bias == nullptr ? nullptr : bias + width, up});
  }
  const Matrix y{y_.as<float>() + static_cast<std::ptrdiff_t>(first) * op.x.cols, rows, op.x.cols, op.x.cols};
  if (!weights.plain() && op.activation == Activation::kSilu) {
    return on.run(GatedMatmulOp{weights.down, gate, up, op.down_bias_of(expert), y});
  }
  on.run(ActivationOp{op.activation, gate, up, gate, op.limit});
  on.run(MatmulOp{weights.down, gate, op.down_bias_of(expert), y});
}

void HostExperts::sum_up(const ExpertsOp& op) const {
  const int cols = op.out.cols;
  for (int r = 0; r < op.out.rows; ++r) {
    float* out = op.out.row(r);
    std::fill_n(out, cols, 0.0F);
    for (int k = 0; k < op.rule.used; ++k) {
      const auto i = static_cast<size_t>(r) * static_cast<size_t>(op.rule.used) + static_cast<size_t>(k);
      const float weight = op.rule.weighs == RouterRule::Weighs::kInputs ? 1.0F : routes_[i].weight;
      const float* y = y_.as<float>() + static_cast<std::ptrdiff_t>(place_[i]) * cols;
      for (int c = 0; c < cols; ++c) out[c] += weight * y[c];
    }
  }
}

void HostExperts::run(const ExpertsOp& op, Backend& on) {
  CHECK(op.logits.rows == op.x.rows && op.logits.cols == static_cast<int>(op.experts.size()));
  choose(op);
  grown(y_, static_cast<int>(routes_.size()), op.x.cols, on);
  for (int expert = 0; expert < op.logits.cols; ++expert) run_expert(op, expert, on);
  sum_up(op);
}

}  // namespace kvasir
