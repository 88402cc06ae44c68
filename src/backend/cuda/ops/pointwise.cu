#include "backend/cuda/ops/pointwise.h"

#include "backend/cuda/ops/activation.cuh"
#include "backend/cuda/runtime/pdl_launch.h"

namespace kvasir::cuda {
namespace {

constexpr int kThreads = 256;

__device__ int column() { return static_cast<int>(blockIdx.y * kThreads + threadIdx.x); }
__device__ float* number(const Matrix& x, int column) { return x.data + blockIdx.x * x.stride + column; }

__global__ void activate_kernel(Activation activation, Matrix x, Matrix up, Matrix out, float limit) {
  pdl_trigger();
  pdl_wait();
  const int c = column();
  if (c >= out.cols) return;
  *number(out, c) = up.data == nullptr ? activated(activation, *number(x, c))
                                       : gated(activation, *number(x, c), *number(up, c), limit);
}

__global__ void scale_kernel(ScaleOp op) {
  pdl_trigger();
  pdl_wait();
  const int c = column();
  if (c >= op.x.cols) return;
  float x = __fmul_rn(*number(op.x, c), op.factor);
  if (op.softcap > 0) x = __fmul_rn(op.softcap, tanhf(__fdiv_rn(x, op.softcap)));
  if (op.limit > 0) x = x < -op.limit ? -op.limit : op.limit < x ? op.limit : x;
  *number(op.x, c) = x;
}

__global__ void gate_kernel(Matrix x, Matrix gate) {
  pdl_trigger();
  pdl_wait();
  const int c = column();
  if (c >= x.cols) return;
  *number(x, c) = sigmoid_times(*number(gate, gate.cols == 1 ? 0 : c), *number(x, c));
}

__global__ void scale_queries_kernel(Matrix x, RopeTable table) {
  pdl_trigger();
  pdl_wait();
  const int c = column();
  if (c >= x.cols) return;
  *number(x, c) = __fmul_rn(*number(x, c), table.scale_of(static_cast<int>(blockIdx.x)));
}

__global__ void decay_kernel(DecayOp op) {
  pdl_trigger();
  pdl_wait();
  const int c = column();
  if (c >= op.x.cols) return;
  const float x = __fadd_rn(*number(op.x, c), op.bias[c]);
  const float soft = __fadd_rn(x > 0.0F ? x : 0.0F, log1pf(expf(-fabsf(x))));
  const float step = soft < op.least ? op.least : op.most < soft ? op.most : soft;
  if (op.step.data != nullptr) *number(op.step, c) = step;
  *number(op.decay, c) = expf(__fmul_rn(op.rate[c / (op.x.cols / op.heads)], step));
}

// A grid of rows by columns, a thread a number.
LaunchShape over(const Matrix& x) {
  return {dim3(static_cast<unsigned>(x.rows), static_cast<unsigned>((x.cols + kThreads - 1) / kThreads)),
          dim3(kThreads)};
}

bool empty(const Matrix& x) { return x.rows == 0 || x.cols == 0; }

}  // namespace

void activate(const ActivationOp& op, cudaStream_t stream) {
  if (empty(op.out)) return;
  launch_pdl("activation", activate_kernel, over(op.out), stream, op.activation, op.x, op.up, op.out, op.limit);
}

void scale(const ScaleOp& op, cudaStream_t stream) {
  if (empty(op.x)) return;
  launch_pdl("scale", scale_kernel, over(op.x), stream, op);
}

void sigmoid_gate(const SigmoidGateOp& op, cudaStream_t stream) {
  if (empty(op.x)) return;
  launch_pdl("sigmoid gate", gate_kernel, over(op.x), stream, op.x, op.gate);
}

void scale_queries(const QueryScaleOp& op, cudaStream_t stream) {
  if (empty(op.x)) return;
  launch_pdl("query scale", scale_queries_kernel, over(op.x), stream, op.x, op.table);
}

void decay(const DecayOp& op, cudaStream_t stream) {
  if (empty(op.x)) return;
  launch_pdl("decay", decay_kernel, over(op.x), stream, op);
}

}  // namespace kvasir::cuda
