#include "backend/cuda/gemm/w8/w8_dispatch.h"

#include <algorithm>
#include <limits>

#include "backend/cuda/gemm/compare_outputs.h"
#include "backend/cuda/gemm/mma_gemm.h"
#include "backend/cuda/gemm/w8/w8_dequantize.h"
#include "backend/cuda/gemm/w8/w8_layout.h"
#include "backend/cuda/ops/cast_rows.h"
#include "backend/cuda/runtime/replay_time.h"
#include "base/check.h"

namespace kvasir::cuda {
namespace {

constexpr size_t kSlabBytes = size_t{128} << 20;
constexpr int kSlabStep = 64;                       // outputs
constexpr int kSkinnyRows = 512;                    // beyond, passes over the codes are no candidates
constexpr int kDequantRows = 64;                    // up to these, dequantizing is no candidate
constexpr size_t kSmallBytes = size_t{1} << 20;     // of codes: below, measuring is not worth it
constexpr size_t kGemms = 6;                        // timed together
constexpr size_t kCachedBytes = size_t{128} << 20;  // more than any L2

W8Weights weights_of(const W8GemmArgs& gemm) { return {gemm.of.w, gemm.scales, gemm.of.inputs, gemm.form}; }

// Outputs of a slab. All slabs of a GEMM are equal; the last one overlaps the one before.
int slab_outputs(const GemmArgs& gemm) {
  const int most = static_cast<int>(kSlabBytes / (static_cast<size_t>(gemm.ld_x) * 2)) / kSlabStep * kSlabStep;
  CHECK(most > 0);
  if (gemm.outputs <= most) return gemm.outputs;
  const int slabs = (gemm.outputs + most - 1) / most;
  const int outputs = (gemm.outputs + slabs - 1) / slabs;
  return (outputs + kSlabStep - 1) / kSlabStep * kSlabStep;
}

// A GEMM's candidates, timed on random rows in gemm.x, after the cast.
class Timing {
 public:
  Timing(const W8Dispatch& dispatch, const W8GemmArgs& gemm, cudaStream_t stream)
      : dispatch_(dispatch),
        gemm_(gemm),
        stream_(stream),
        out_(static_cast<size_t>(gemm.of.rows) * static_cast<size_t>(gemm.of.outputs) * 4),
        rows_(static_cast<size_t>(gemm.of.rows) * static_cast<size_t>(gemm.of.inputs) * 4) {
    gemm_.of.out = reinterpret_cast<float*>(out_.data());
    gemm_.of.ld_out = gemm.of.outputs;
    gemm_.of.bias = nullptr;
    const int inputs = gemm.of.inputs;
    fill_random({rows_.data(), inputs, gemm.of.rows, inputs, Number::kF32}, 1.0F, 2, stream);
    const size_t bytes = w8_bytes(gemm.of.outputs, inputs);
    const size_t copies = std::min(kGemms, kCachedBytes / bytes + 1);
    for (size_t i = 1; i < copies; ++i) {
      codes_.emplace_back(bytes);
      check(cudaMemcpyAsync(codes_.back().data(), gemm.of.w, bytes, cudaMemcpyDeviceToDevice, stream),
            "copying weights");
    }
  }

  float milliseconds(const W8Choice& choice) const {
    return replay_time(stream_, [&] {
      for (size_t i = 0; i < kGemms; ++i) {
        W8GemmArgs gemm = gemm_;
        if (const size_t copy = i % (codes_.size() + 1); copy > 0) gemm.of.w = codes_[copy - 1].data();
        const Matrix rows{reinterpret_cast<float*>(rows_.data()), gemm.of.rows, gemm.of.inputs, gemm.of.inputs};
        convert_rows(rows, gemm.of.number, const_cast<void*>(gemm.of.x), gemm.of.ld_x, stream_);
        dispatch_.run(gemm, choice);
      }
    });
  }

 private:
  const W8Dispatch& dispatch_;
  W8GemmArgs gemm_;
  cudaStream_t stream_;
  DeviceMemory out_;
  DeviceMemory rows_;                // float32
  std::vector<DeviceMemory> codes_;  // copies
};

bool is_small(const W8GemmArgs& gemm) { return w8_bytes(gemm.of.outputs, gemm.of.inputs) < kSmallBytes; }

}  // namespace

W8Dispatch::W8Dispatch(cudaStream_t stream, GemmAutotuner& plain)
    : stream_(stream), autotuner_(plain), w8_skinny_(plain.skinny()) {}

void W8Dispatch::prepare() {
  if (slab_.size() == 0) slab_ = DeviceMemory(kSlabBytes);
}

W8Choice W8Dispatch::own_choice(int rows) const {
  if (!w8_skinny_.available()) return DequantChoice{ByMma{}};
  return SkinnyShape{32, rows <= 16 ? 1 : 2, 2};
}

// The GEMM over a slab of bf16 weights, with this one's outputs.
GemmArgs W8Dispatch::dequantize(const W8GemmArgs& gemm, int first_output) const {
  GemmArgs dequant = gemm.of;
  dequant.outputs = slab_outputs(gemm.of);
  dequant.w = slab_.data();
  dequant.ld_w = dequant.ld_x;
  dequant.bias = nullptr;
  dequant.out = gemm.of.out + first_output;
  dequantize_w8(weights_of(gemm), {slab_.data(), dequant.ld_w, first_output, dequant.outputs}, stream_);
  return dequant;
}

void W8Dispatch::run_dequant(const W8GemmArgs& gemm, const DequantChoice& choice) const {
  const int step = slab_outputs(gemm.of);
  for (int at = 0; at < gemm.of.outputs; at += step) {
    const int first = std::min(at, gemm.of.outputs - step);
    const GemmArgs dequant = dequantize(gemm, first);
    const auto* algorithm = std::get_if<cublasLtMatmulAlgo_t>(&choice);
    if (algorithm == nullptr || !CublasLtGemm::fits(dequant) ||
        !autotuner_.cublaslt().multiply(dequant, *algorithm, stream_)) {
      multiply_mma(dequant, stream_);
    }
    const float* bias = gemm.of.bias == nullptr ? nullptr : gemm.of.bias + first;
    scale_outputs(gemm.scales + first, bias, {dequant.out, dequant.rows, dequant.outputs, dequant.ld_out}, stream_);
  }
}

void W8Dispatch::run(const W8GemmArgs& gemm, const W8Choice& choice) const {
  if (const auto* shape = std::get_if<SkinnyShape>(&choice)) return w8_skinny_.multiply(gemm, *shape, stream_);
  run_dequant(gemm, std::get<DequantChoice>(choice));
}

DequantChoice W8Dispatch::choose_dequant(const W8GemmArgs& gemm) {
  const Choice choice = autotuner_.choose(dequantize(gemm, 0));
  if (const auto* algorithm = std::get_if<cublasLtMatmulAlgo_t>(&choice)) return *algorithm;
  return ByMma{};
}

std::vector<W8Choice> W8Dispatch::candidates(const W8GemmArgs& gemm) {
  std::vector<W8Choice> out;
  const bool streams = w8_skinny_.available();
  if (!streams || gemm.of.rows > kDequantRows) out.emplace_back(choose_dequant(gemm));
  if (!streams || gemm.of.rows > kSkinnyRows) return out;
  for (const int tile : kW8Tiles) {
    if (tile < 32 && gemm.of.rows > 16) continue;
    // Tiles for too few SMs look good here, since the next GEMM begins on the others.
    if (tile > 16 && gemm.of.outputs / tile < autotuner_.skinny().ctas_at_once() * 7 / 8) continue;
    for (const int boxes : {2, 4}) {
      for (const int cluster : {1, 2, 4}) {
        if (cluster == 4 && gemm.of.rows <= 16) continue;
        const SkinnyShape shape{tile, cluster, boxes};
        if (w8_skinny_.can_do(gemm.of, shape)) out.emplace_back(shape);
      }
    }
  }
  return out;
}

W8Choice W8Dispatch::measure(const W8GemmArgs& gemm) {
  W8GemmArgs most = gemm;
  most.of.rows = GemmAutotuner::bucket_of(gemm.of.rows);
  const std::vector<W8Choice> all = candidates(most);
  if (all.size() == 1) return all.front();
  const Timing timing(*this, most, stream_);
  W8Choice best = own_choice(gemm.of.rows);
  float best_time = std::numeric_limits<float>::infinity();
  for (const W8Choice& candidate : all) {
    const float time = timing.milliseconds(candidate);
    if (time >= best_time) continue;
    best = candidate;
    best_time = time;
  }
  return best;
}

bool W8Dispatch::knows(const W8GemmArgs& gemm) const {
  const GemmArgs& of = gemm.of;
  return is_small(gemm) || choices_.contains({of.outputs, of.inputs, GemmAutotuner::bucket_of(of.rows), gemm.form});
}

W8Choice W8Dispatch::choose(const W8GemmArgs& gemm) {
  const GemmArgs& of = gemm.of;
  CHECK(of.rows <= GemmAutotuner::kMostRows && slab_.size() != 0);
  if (is_small(gemm)) return own_choice(of.rows);
  const Key key{of.outputs, of.inputs, GemmAutotuner::bucket_of(of.rows), gemm.form};
  if (const auto found = choices_.find(key); found != choices_.end()) return found->second;
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream_, &capture), "asking whether the stream is being captured");
  if (capture != cudaStreamCaptureStatusNone) return own_choice(of.rows);
  try {
    return choices_.emplace(key, measure(gemm)).first->second;
  } catch (const Error&) {
    // No memory left to measure in: our kernels need none, and report anything worse themselves.
    return choices_.emplace(key, own_choice(of.rows)).first->second;
  }
}

}  // namespace kvasir::cuda
