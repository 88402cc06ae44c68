#include "backend/cuda/experts/cuda_experts.h"

#include <algorithm>

#include "backend/cuda/gemm/cuda_weight.h"
#include "base/check.h"

namespace kvasir::cuda {
namespace {

constexpr size_t kMostBytes = size_t{256} << 20;  // of a pass's workspace
constexpr int kManyPairs = 16;                    // an expert, on average: from here on tiles are large

// A row of the widest number that any GEMM takes.
std::int64_t row_bytes(int cols) { return std::int64_t{padded(cols)} * bytes_of(Number::kF32); }

size_t bytes_of_pair(const ExpertsOp& op) {
  const int width = op.experts.front().width();
  return static_cast<size_t>(row_bytes(op.x.cols) + row_bytes(width)) +
         sizeof(float) * static_cast<size_t>(2 * width + op.out.cols) + 4 * sizeof(int) + sizeof(ExpertTile);
}

// Takes pieces of a workspace, or, of none, counts their bytes.
class Pieces {
 public:
  explicit Pieces(std::byte* at) : at_(at) {}
  template <class T>
  T* take(size_t count) {
    constexpr size_t kAlignment = 256;
    std::byte* out = at_ == nullptr ? nullptr : at_ + used_;
    used_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return reinterpret_cast<T*>(out);
  }
  size_t used() const { return used_; }

 private:
  std::byte* at_;
  size_t used_ = 0;
};

}  // namespace

void CudaExperts::add_role(Role& role, std::span<const ExpertWeights> experts, const Weight* ExpertWeights::*of,
                           std::vector<ExpertMatrix>& to) {
  role.first = to.size();
  for (const ExpertWeights& expert : experts) {
    if (expert.*of == nullptr) continue;
    const auto& weight = static_cast<const CudaWeight&>(*(expert.*of));
    const bool codes = weight.form() != WeightQuantization::kAsStored;
    to.push_back({weight.data(), codes ? weight.scales() : nullptr, weight.number(), weight.form()});
    const Kind kind{weight.number(), weight.form()};
    if (std::ranges::find(role.kinds, kind) == role.kinds.end()) role.kinds.push_back(kind);
  }
}

// Uploaded when a layer is first met, or another one lies where it was.
const CudaExperts::Table& CudaExperts::table_of(const ExpertsOp& op) {
  Table made;
  add_role(made.gate, op.experts, &ExpertWeights::gate, made.host);
  add_role(made.up, op.experts, &ExpertWeights::up, made.host);
  add_role(made.down, op.experts, &ExpertWeights::down, made.host);
  const size_t roles = made.up.kinds.empty() || made.gate.kinds.empty() ? 2 : 3;
  CHECK(made.host.size() == roles * op.experts.size());
  Table& known = tables_[op.experts.data()];
  if (known.host == made.host) return known;
  const size_t bytes = made.host.size() * sizeof(ExpertMatrix);
  made.device.grow_to(bytes);
  check(cudaMemcpyAsync(made.device.data(), made.host.data(), bytes, cudaMemcpyHostToDevice, stream_),
        "sending addresses of experts");
  check(cudaStreamSynchronize(stream_), "sending addresses of experts");
  return known = std::move(made);
}

CudaExperts::Space CudaExperts::space_for(const ExpertsOp& op, int rows) {
  Space out;
  RoutedPairs& pairs = out.pairs;
  pairs.used = op.rule.used;
  pairs.pairs = rows * pairs.used;
  pairs.experts = static_cast<int>(op.experts.size());
  pairs.rows_of_tile = pairs.pairs >= kManyPairs * pairs.experts ? kManyRows : kFewRows;
  const auto count = static_cast<size_t>(pairs.pairs);
  const auto width = static_cast<size_t>(op.experts.front().width());
  const auto take_all = [&](Pieces pieces) {
    pairs.expert_of = pieces.take<int>(count);
    pairs.weight_of = pieces.take<float>(count);
    pairs.place_of = pieces.take<int>(count);
    pairs.pair_at = pieces.take<int>(count);
    pairs.tiles = pieces.take<ExpertTile>(static_cast<size_t>(pairs.most_tiles()));
    pairs.tile_count = pieces.take<int>(1);
    out.x = pieces.take<std::byte>(count * static_cast<size_t>(row_bytes(op.x.cols)));
    out.gate_up = pieces.take<float>(count * 2 * width);
    out.activated = pieces.take<std::byte>(count * static_cast<size_t>(row_bytes(static_cast<int>(width))));
    out.y = pieces.take<float>(count * static_cast<size_t>(op.out.cols));
    return pieces.used();
  };
  workspace_.grow_to(take_all(Pieces(nullptr)));
  take_all(Pieces(workspace_.data()));
  return out;
}

void CudaExperts::multiply(ExpertGemm gemm, const Role& role) {
  for (const auto& [number, form] : role.kinds) {
    gemm.number = number;
    gemm.form = form;
    multiply_expert_rows(gemm, stream_);
  }
}

// Rows are gathered once more for ups that are apart: they may be of another type. Plain experts have ups alone.
void CudaExperts::multiply_gates(const ExpertsOp& op, const Table& table, const Space& space, Matrix x) {
  const int width = op.experts.front().width();
  const bool plain = op.experts.front().plain();
  const Role& first = plain ? table.up : table.gate;
  const bool apart = !plain && !table.up.kinds.empty();
  ExpertRows rows{space.pairs, table.of(first), space.x, row_bytes(x.cols), padded(x.cols)};
  ExpertGemm gemm;
  gemm.pairs = space.pairs;
  gemm.matrices = rows.matrices;
  gemm.x = rows.to;
  gemm.row_bytes = rows.row_bytes;
  gemm.inputs = rows.ld;
  const int projected = op.experts.front().projected_width();
  gemm.outputs = apart ? width : projected;
  gemm.bias = op.gate_up_bias;
  gemm.bias_step = projected;
  gemm.out = space.gate_up;
  gemm.ld_out = projected;
  gather_expert_rows(rows, x, op.rule.weighs, stream_);
  multiply(gemm, first);
  if (!apart) return;
  rows.matrices = table.of(table.up);
  gather_expert_rows(rows, x, op.rule.weighs, stream_);
  gemm.matrices = rows.matrices;
  if (gemm.bias != nullptr) gemm.bias += width;
  gemm.out += width;
  multiply(gemm, table.up);
}

void CudaExperts::run_rows(const ExpertsOp& op, const Table& table, int first, int rows) {
  const auto part = [&](const Matrix& of) { return Matrix{of.row(first), rows, of.cols, of.stride}; };
  const Space space = space_for(op, rows);
  route_rows(part(op.logits), op.rule, space.pairs, stream_);
  group_pairs(space.pairs, stream_);
  multiply_gates(op, table, space, part(op.x));
  const int width = op.experts.front().width();
  const ExpertRows activated{space.pairs, table.of(table.down), space.activated, row_bytes(width), padded(width)};
  activate_expert_rows(
      activated, {space.gate_up, width, op.experts.front().projected_width(), op.activation, op.limit}, stream_);
  ExpertGemm down;
  down.pairs = space.pairs;
  down.matrices = activated.matrices;
  down.x = activated.to;
  down.row_bytes = activated.row_bytes;
  down.inputs = activated.ld;
  down.outputs = op.out.cols;
  down.bias = op.down_bias;
  down.bias_step = op.out.cols;
  down.out = space.y;
  down.ld_out = op.out.cols;
  multiply(down, table.down);
  sum_expert_rows(space.pairs, space.y, op.rule.weighs, part(op.out), stream_);
}

// Passes bound the workspace.
void CudaExperts::run(const ExpertsOp& op) {
  CHECK(op.logits.rows == op.x.rows && op.logits.cols == static_cast<int>(op.experts.size()));
  CHECK(op.rule.used <= op.logits.cols);
  if (op.x.rows == 0) return;
  const Table& table = table_of(op);
  const size_t bytes_of_row = bytes_of_pair(op) * static_cast<size_t>(op.rule.used);
  const int most = static_cast<int>(std::max<size_t>(1, kMostBytes / bytes_of_row));
  for (int first = 0; first < op.x.rows; first += most) {
    run_rows(op, table, first, std::min(most, op.x.rows - first));
  }
}

}  // namespace kvasir::cuda
