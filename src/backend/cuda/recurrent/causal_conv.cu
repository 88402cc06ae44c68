#include "backend/cuda/ops/activation.cuh"
#include "backend/cuda/recurrent/recurrent.h"
#include "backend/cuda/runtime/pdl_launch.h"
#include "base/check.h"

namespace kvasir::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kAhead = 16;  // rows whose inputs are loaded together
constexpr int kTaps = kMostConvWeights;

// A channel's weights: the last of kTaps, behind zeros that nothing is multiplied by.
struct Taps {
  float weight[kTaps];
  int first;
  float bias;
};

__device__ Taps taps_of(const CausalConvOp& op, int channel) {
  Taps out;
  out.first = kTaps - 1 - op.state.shape.conv_inputs;
#pragma unroll
  for (int t = 0; t < kTaps; ++t) {
    const int j = t - out.first;
    out.weight[t] = j < 0 ? 0.0F : op.weight[j * op.state.shape.conv_channels + channel];
  }
  out.bias = op.bias == nullptr ? 0.0F : op.bias[channel];
  return out;
}

// All inputs of the rows are loaded before the first output is stored, which may lie where they lay.
template <int kRows>
__device__ void convolve_rows(const Taps& taps, CausalConvOp::Bend bend, float (&before)[kTaps - 1], const float* x,
                              std::int64_t x_stride, float* out, std::int64_t out_stride) {
  float inputs[kTaps - 1 + kRows];
#pragma unroll
  for (int t = 0; t < kTaps - 1; ++t) inputs[t] = before[t];
#pragma unroll
  for (int r = 0; r < kRows; ++r) inputs[kTaps - 1 + r] = x[r * x_stride];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    float sum = taps.bias;
#pragma unroll
    for (int t = 0; t < kTaps; ++t) {
      if (t >= taps.first) sum = __fmaf_rn(taps.weight[t], inputs[r + t], sum);
    }
    out[r * out_stride] = bend == CausalConvOp::Bend::kSilu ? activated(Activation::kSilu, sum) : sum;
  }
#pragma unroll
  for (int t = 0; t < kTaps - 1; ++t) before[t] = inputs[kRows + t];
}

// A thread for each channel of each sequence, row after row.
__global__ void __launch_bounds__(kThreads) convolve_channels(const CausalConvOp op, const SequenceView* sequences) {
  pdl_trigger();
  const int channels = op.state.shape.conv_channels;
  const int channel = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  const SequenceView sequence = sequences[blockIdx.y];
  float* kept = op.state.conv_inputs(sequence.blocks[0]) + channel;
  Taps taps = {};
  if (channel < channels) taps = taps_of(op, channel);
  pdl_wait();
  if (channel >= channels) return;
  float before[kTaps - 1];  // the oldest first
#pragma unroll
  for (int t = 0; t < kTaps - 1; ++t) {
    const bool there = sequence.start > 0 && t >= taps.first;
    before[t] = there ? kept[static_cast<std::int64_t>(t - taps.first) * channels] : 0.0F;
  }
  const float* x = op.x.data + sequence.first_row * op.x.stride + channel;
  float* out = op.out.data + sequence.first_row * op.out.stride + channel;
  int row = 0;
  for (; row + kAhead <= sequence.rows; row += kAhead) {
    convolve_rows<kAhead>(taps, op.bend, before, x + row * op.x.stride, op.x.stride, out + row * op.out.stride,
                          op.out.stride);
  }
  for (; row < sequence.rows; ++row) {
    convolve_rows<1>(taps, op.bend, before, x + row * op.x.stride, op.x.stride, out + row * op.out.stride,
                     op.out.stride);
  }
#pragma unroll
  for (int t = 0; t < kTaps - 1; ++t) {
    if (t >= taps.first) kept[static_cast<std::int64_t>(t - taps.first) * channels] = before[t];
  }
}

}  // namespace

void convolve(const CausalConvOp& op, const SequenceView* sequences, cudaStream_t stream) {
  const StateShape& shape = op.state.shape;
  CHECK(shape.conv_inputs < kMostConvWeights);
  if (op.sequences.empty() || shape.conv_channels == 0) return;
  const dim3 grid(static_cast<unsigned>((shape.conv_channels + kThreads - 1) / kThreads),
                  static_cast<unsigned>(op.sequences.size()));
  launch_pdl("causal convolution", convolve_channels, {grid, dim3(kThreads)}, stream, op, sequences);
}

}  // namespace kvasir::cuda
