#include "backend/cuda/op_launcher.h"

#include "backend/cuda/attention/attention_kernels.h"
#include "backend/cuda/ops/elementwise.h"
#include "backend/cuda/ops/pointwise.h"
#include "backend/cuda/recurrent/recurrent.h"
#include "backend/cuda/runtime/cuda_check.h"
#include "backend/cuda/sample/sample_rows.h"
#include "backend/lower.h"
#include "base/check.h"

namespace kvasir::cuda {
namespace {

NormRows norm_rows(const NormRule& rule, Matrix x, Matrix out) { return {x, rule.weight, rule.bias, rule.eps, out}; }

// Whether one kernel adds rows and normalizes them.
bool can_fuse(const NormRule& rule, int cols) {
  return rule.kind == NormRule::Kind::kRms && rule.bias == nullptr && fits_add_rms_norm(cols);
}

}  // namespace

void OpLauncher::launch(const EmbedRowsOp& op) const {
  matmul.forget_rows();
  matmul.embed(*op.table, op.tokens, op.out);
}

void OpLauncher::launch(const CopyOp& op) const {
  matmul.forget_rows();
  check(cudaMemcpyAsync(op.to, op.from, op.bytes, cudaMemcpyDeviceToDevice, stream), "copying");
}

void OpLauncher::launch(const NormOp& op) const {
  matmul.forget_rows();
  NormRows rows = norm_rows(op.rule, op.x, op.out);
  if (op.weights == NormOp::Weights::kOfEachPart) rows.weights_step = op.width();
  normalize(op.rule.kind, rows, op.heads, stream);
}

// The norm goes into the next GEMM's input as well, if a GEMM of such rows is known.
void OpLauncher::launch(const AddNormOp& op) const {
  if (!can_fuse(op.rule, op.x.cols)) return lower(op, backend);
  matmul.forget_rows();
  add_rms_norm(op.y, norm_rows(op.rule, op.x, op.out), matmul.gemm_input_for(op.out), stream);
}

void OpLauncher::launch(const MatmulOp& op) const { matmul.multiply(*op.weight, op.x, op.bias, op.out); }

void OpLauncher::launch(const GatedMatmulOp& op) const {
  matmul.multiply_swiglu(*op.weight, op.gate, op.up, op.bias, op.out);
}

// Adds, and normalizes into a GEMM's input alone.
void OpLauncher::norm_into(const NormedRows& rows, GemmInput input) const {
  add_rms_norm(rows.y, norm_rows(rows.norm, rows.x, {nullptr, rows.x.rows, rows.x.cols}), input, stream);
}

void OpLauncher::launch(const NormMatmulOp& op) const {
  if (!can_fuse(op.rows.norm, op.rows.x.cols) || !CudaMatmul::can_fill(*op.weight, op.out.rows)) {
    return lower(op, backend);
  }
  matmul.multiply(
      *op.weight, [&](GemmInput input) { norm_into(op.rows, input); }, op.bias, op.out);
}

void OpLauncher::launch(const FeedForwardOp& op) const {
  if (can_fuse(op.rows.norm, op.rows.x.cols) && CudaMatmul::can_fuse_swiglu(op.mlp, op.out.rows)) {
    const auto fill = [&](GemmInput input) { norm_into(op.rows, input); };
    return matmul.multiply_swiglu(op.mlp, fill, op.gate_up, op.out);
  }
  lower(op, backend);
}

void OpLauncher::launch(const RopeOp& op) const {
  matmul.forget_rows();
  rope(op.x, op.heads, op.table, stream);
}

NewRows OpLauncher::new_rows(Matrix k, Matrix v, const KvView& view, std::span<const SequenceView> sequences) const {
  const DeviceSequences& on_device = tables.find(sequences, view.layout.block_tokens);
  return {k, v, view, on_device.at, static_cast<int>(sequences.size()), on_device.rows};
}

void OpLauncher::launch(const KvWriteOp& op) const {
  write_rows(new_rows(op.k, op.v, op.view, op.sequences), stream);
}

void OpLauncher::launch(const RopeKvWriteOp& op) const {
  matmul.forget_rows();
  rope_and_write_rows(op.rows, new_rows(op.rows.k, op.rows.v, op.view, op.sequences), stream);
}

void OpLauncher::launch(const AttentionOp& op) const {
  matmul.forget_rows();
  const bool fills = CudaAttention::fills_rows(op.batch, op.out);
  attention.attend(op.batch, op.out, fills ? matmul.gemm_input_for(op.out) : GemmInput{});
}

void OpLauncher::launch(const SwigluOp& op) const {
  matmul.forget_rows();
  swiglu(op.gate, op.up, op.out, stream);
}

void OpLauncher::launch(const AddOp& op) const {
  matmul.forget_rows();
  add(op.x, op.y, stream);
}

void OpLauncher::launch(const SampleOp& op) const { sample_rows(op.rows, stream); }

void OpLauncher::launch(const ActivationOp& op) const {
  matmul.forget_rows();
  activate(op, stream);
}

void OpLauncher::launch(const ScaleOp& op) const {
  matmul.forget_rows();
  scale(op, stream);
}

void OpLauncher::launch(const QueryScaleOp& op) const {
  matmul.forget_rows();
  scale_queries(op, stream);
}

void OpLauncher::launch(const SigmoidGateOp& op) const {
  matmul.forget_rows();
  sigmoid_gate(op, stream);
}

const SequenceView* OpLauncher::with_states(std::span<const SequenceView> sequences) const {
  for (const SequenceView& sequence : sequences) CHECK(sequence.block_count == 1);
  return tables.find(sequences, 0).at;
}

void OpLauncher::launch(const CausalConvOp& op) const {
  matmul.forget_rows();
  convolve(op, with_states(op.sequences), stream);
}

void OpLauncher::launch(const DecayOp& op) const {
  matmul.forget_rows();
  decay(op, stream);
}

void OpLauncher::launch(const RecurrenceOp& op) const {
  matmul.forget_rows();
  recur(op, with_states(op.sequences), stream);
}

void OpLauncher::launch(const ExpertsOp& op) const {
  matmul.forget_rows();
  experts.run(op);
}

void OpLauncher::launch(const ProjectedRows& op) const {
  matmul.forget_rows();
  project(op, stream);
}

void OpLauncher::launch(const MergeAttentionOp& op) const {
  const DeviceSequences& on_device = tables.find(op.sequences, 0);
  merge_rows({op.into.out, op.from.out, op.into.states, op.from.states, op.into.heads, on_device.at}, on_device.rows,
             stream);
}

void OpLauncher::launch(const WatchAttentionOp& op) const { attention.watch(op.batch, op.watch); }

void OpLauncher::launch(const KvMoveOp& op) const {
  move_rows(send_moves(op.view, op.blocks, op.moves, staging), stream);
}

}  // namespace kvasir::cuda
