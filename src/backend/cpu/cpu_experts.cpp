#include "backend/cpu/cpu_experts.h"

#include <algorithm>

#include "base/check.h"

namespace kvasir::cpu {
namespace {

// Rows of experts that are one batch, unless a single one has more: what lies between their products stays in the
// caches.
constexpr int kRowsAtOnce = 256;

// A step of as many rows as the largest so far allocates nothing.
Matrix grown(Buffer& buffer, int rows, int cols) {
  const size_t bytes = sizeof(float) * static_cast<size_t>(rows) * static_cast<size_t>(cols);
  if (buffer.bytes() < bytes) buffer = allocate_host(bytes);
  return {buffer.as<float>(), rows, cols, cols};
}

Matrix part_of(Matrix all, int first, int rows) { return {all.row(first), rows, all.cols, all.stride}; }

}  // namespace

// A few rows are cheaper to do than to hand out.
template <class Body>
void Experts::each_row(int rows, const Body& body) const {
  constexpr int kWorthSharing = 8;
  constexpr int kRowsPerItem = 4;
  if (rows <= kWorthSharing) {
    for (int r = 0; r < rows; ++r) body(r);
    return;
  }
  pool_.parallel_for((rows + kRowsPerItem - 1) / kRowsPerItem, [&](std::int64_t item, int) {
    const int first = static_cast<int>(item) * kRowsPerItem;
    for (int r = first; r < std::min(first + kRowsPerItem, rows); ++r) body(r);
  });
}

void Experts::choose(const ExpertsOp& op) {
  const auto used = static_cast<size_t>(op.rule.used);
  routes_.resize(static_cast<size_t>(op.x.rows) * used);
  each_row(op.x.rows, [&](int r) {
    route({op.logits.row(r), static_cast<size_t>(op.logits.cols)}, op.rule,
          std::span(routes_).subspan(static_cast<size_t>(r) * used, used));
  });
  first_.assign(op.experts.size() + 1, 0);
  for (const RoutedExpert& one : routes_) ++first_[static_cast<size_t>(one.expert) + 1];
  for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
  place_.resize(routes_.size());
  from_.resize(routes_.size());
  weight_.resize(routes_.size());
  std::vector<int> next(first_.begin(), first_.end() - 1);
  for (size_t i = 0; i < routes_.size(); ++i) {
    place_[i] = next[static_cast<size_t>(routes_[i].expert)]++;
    from_[static_cast<size_t>(place_[i])] = static_cast<int>(i / used);
    weight_[static_cast<size_t>(place_[i])] = routes_[i].weight;
  }
}

// The rows that an expert reads; `before` are those of the other experts of its batch.
SomeRows Experts::inputs_of(const ExpertsOp& op, int expert, int before) {
  const auto first = static_cast<size_t>(first_of(expert));
  const int rows = rows_of(expert);
  if (op.rule.weighs == RouterRule::Weighs::kOutputs) {
    return {op.x, std::span<const int>(from_).subspan(first, static_cast<size_t>(rows))};
  }
  const Matrix x = part_of({x_.as<float>(), 0, op.x.cols, op.x.cols}, before, rows);
  each_row(rows, [&](int i) {
    const float* row = op.x.row(from_[first + static_cast<size_t>(i)]);
    const float weight = weight_[first + static_cast<size_t>(i)];
    for (int c = 0; c < x.cols; ++c) x.row(i)[c] = row[c] * weight;
  });
  return {x, {}};
}

// gate_up = the gates and ups of the experts [first, last) for their rows
void Experts::project(const ExpertsOp& op, int first, int last, Matrix gate_up) {
  products_.clear();
  int before = 0;
  for (int expert = first; expert < last; ++expert) {
    const int rows = rows_of(expert);
    if (rows == 0) continue;
    const ExpertWeights& weights = op.experts[static_cast<size_t>(expert)];
    const SomeRows x = inputs_of(op, expert, before);
    const Matrix out = part_of(gate_up, before, rows);
    const int width = weights.width();
    if (weights.plain()) {
      products_.push_back({&mine(*weights.up), x, out});
    } else if (weights.up == nullptr) {
      products_.push_back({&mine(*weights.gate), x, out});
    } else {
      products_.push_back({&mine(*weights.gate), x, out.columns(0, width)});
      products_.push_back({&mine(*weights.up), x, out.columns(width, width)});
    }
    before += rows;
  }
  matmul_.run(products_);
}

// The gates of an expert become what its last product reads.
void Experts::bend(const ExpertsOp& op, int expert, Matrix gate_up) const {
  const ExpertWeights& weights = op.experts[static_cast<size_t>(expert)];
  const int width = weights.width();
  const float* bias = op.gate_up_bias_of(expert);
  each_row(gate_up.rows, [&](int r) {
    float* gate = gate_up.row(r);
    const float* up = weights.plain() ? nullptr : gate + width;
    if (bias != nullptr) kernels_.add(gate, bias, gate_up.cols);
    if (op.activation == Activation::kSwigluOai) {
      kernels_.swiglu_oai(gate, up, op.limit, width, gate);
    } else if (op.activation == Activation::kSilu && up != nullptr) {
      kernels_.swiglu(gate, up, width, gate);
    } else {
      kernels_.activate(op.activation, gate, up, width, gate);
    }
  });
}

void Experts::run_some(const ExpertsOp& op, int first, int last) {
  const int all = first_of(last) - first_of(first);
  const ExpertWeights& like = op.experts[static_cast<size_t>(first)];
  if (op.rule.weighs == RouterRule::Weighs::kInputs) grown(x_, all, op.x.cols);
  const Matrix gate_up = grown(gate_up_, all, like.projected_width());
  project(op, first, last, gate_up);
  const Matrix y{y_.as<float>(), static_cast<int>(routes_.size()), op.x.cols, op.x.cols};
  products_.clear();
  for (int expert = first; expert < last; ++expert) {
    const int rows = rows_of(expert);
    if (rows == 0) continue;
    const Matrix own = part_of(gate_up, first_of(expert) - first_of(first), rows);
    bend(op, expert, own);
    const ExpertWeights& weights = op.experts[static_cast<size_t>(expert)];
    products_.push_back(
        {&mine(*weights.down), {own.columns(0, weights.width()), {}}, part_of(y, first_of(expert), rows)});
  }
  matmul_.run(products_);
}

void Experts::sum_up(const ExpertsOp& op, int row) const {
  const int cols = op.out.cols;
  float* out = op.out.row(row);
  std::fill_n(out, cols, 0.0F);
  for (int k = 0; k < op.rule.used; ++k) {
    const auto i = static_cast<size_t>(row) * static_cast<size_t>(op.rule.used) + static_cast<size_t>(k);
    const float weight = op.rule.weighs == RouterRule::Weighs::kInputs ? 1.0F : routes_[i].weight;
    auto* y = const_cast<float*>(y_.as<float>()) + static_cast<std::ptrdiff_t>(place_[i]) * cols;
    const float* bias = op.down_bias_of(routes_[i].expert);
    if (bias != nullptr) kernels_.add(y, bias, cols);
    kernels_.add_scaled(out, y, weight, cols);
  }
}

void Experts::run(const ExpertsOp& op) {
  const int experts = static_cast<int>(op.experts.size());
  CHECK(op.logits.rows == op.x.rows && op.logits.cols == experts);
  choose(op);
  grown(y_, static_cast<int>(routes_.size()), op.x.cols);
  for (int first = 0; first < experts;) {
    int last = first + 1;
    while (last < experts && first_of(last + 1) - first_of(first) <= kRowsAtOnce) ++last;
    if (first_of(last) > first_of(first)) run_some(op, first, last);
    first = last;
  }
  each_row(op.out.rows, [&](int r) { sum_up(op, r); });
}

}  // namespace kvasir::cpu
