#include "backend/cuda/coded_products.h"

#include <algorithm>
#include <limits>

#include "backend/cuda/code_layout.h"
#include "backend/cuda/code_rows.h"
#include "backend/cuda/compare_outputs.h"
#include "backend/cuda/convert_rows.h"
#include "backend/cuda/mma_product.h"
#include "backend/cuda/replay_time.h"
#include "base/check.h"

namespace kvasir::cuda {
namespace {

constexpr size_t kSlabBytes = size_t{128} << 20;
constexpr int kSlabStep = 64;                       // outputs
constexpr int kStreamedRows = 512;                  // beyond, passes over the codes are no candidates
constexpr int kWidenedRows = 64;                    // up to these, widening is none
constexpr size_t kSmallBytes = size_t{1} << 20;     // of codes that are not worth measuring
constexpr size_t kProducts = 6;                     // that are timed together
constexpr size_t kCachedBytes = size_t{128} << 20;  // more than any second-level cache

CodedWeights weights_of(const CodedProduct& product) {
  return {product.of.w, product.scales, product.of.inputs, product.form};
}

// Outputs that are widened at once. All slabs of a product have as many: the last one begins inside the one before.
int slab_outputs(const Product& product) {
  const int most = static_cast<int>(kSlabBytes / (static_cast<size_t>(product.ld_x) * 2)) / kSlabStep * kSlabStep;
  CHECK(most > 0);
  if (product.outputs <= most) return product.outputs;
  const int slabs = (product.outputs + most - 1) / most;
  const int outputs = (product.outputs + slabs - 1) / slabs;
  return (outputs + kSlabStep - 1) / kSlabStep * kSlabStep;
}

// A product's candidates, timed on random rows in product.x, behind the kernel that makes them.
class Timing {
 public:
  Timing(const CodedProducts& products, const CodedProduct& product, cudaStream_t stream)
      : products_(products),
        product_(product),
        stream_(stream),
        out_(static_cast<size_t>(product.of.rows) * static_cast<size_t>(product.of.outputs) * 4),
        rows_(static_cast<size_t>(product.of.rows) * static_cast<size_t>(product.of.inputs) * 4) {
    product_.of.out = reinterpret_cast<float*>(out_.data());
    product_.of.ld_out = product.of.outputs;
    product_.of.bias = nullptr;
    const int inputs = product.of.inputs;
    fill_random({rows_.data(), inputs, product.of.rows, inputs, Number::kF32}, 1.0F, 2, stream);
    const size_t bytes = code_bytes(product.of.outputs, inputs);
    const size_t copies = std::min(kProducts, kCachedBytes / bytes + 1);
    for (size_t i = 1; i < copies; ++i) {
      codes_.emplace_back(bytes);
      check(cudaMemcpyAsync(codes_.back().data(), product.of.w, bytes, cudaMemcpyDeviceToDevice, stream),
            "copying weights");
    }
  }

  float milliseconds(const CodedChoice& choice) const {
    return replay_time(stream_, [&] {
      for (size_t i = 0; i < kProducts; ++i) {
        CodedProduct product = product_;
        if (const size_t copy = i % (codes_.size() + 1); copy > 0) product.of.w = codes_[copy - 1].data();
        const Matrix rows{reinterpret_cast<float*>(rows_.data()), product.of.rows, product.of.inputs,
                          product.of.inputs};
        convert_rows(rows, product.of.number, const_cast<void*>(product.of.x), product.of.ld_x, stream_);
        products_.run(product, choice);
      }
    });
  }

 private:
  const CodedProducts& products_;
  CodedProduct product_;
  cudaStream_t stream_;
  DeviceMemory out_;
  DeviceMemory rows_;                // float32
  std::vector<DeviceMemory> codes_;  // copies
};

bool is_small(const CodedProduct& product) { return code_bytes(product.of.outputs, product.of.inputs) < kSmallBytes; }

}  // namespace

CodedProducts::CodedProducts(cudaStream_t stream, ProductTuner& plain)
    : stream_(stream), plain_(plain), code_stream_(plain.stream_product()) {}

void CodedProducts::prepare() {
  if (slab_.size() == 0) slab_ = DeviceMemory(kSlabBytes);
}

CodedChoice CodedProducts::own_choice(int rows) const {
  if (!code_stream_.available()) return WideChoice{ByMma{}};
  return StreamShape{32, rows <= 16 ? 1 : 2, 2};
}

// As bf16 weights, whose product leaves its sums where this one's go.
Product CodedProducts::widen(const CodedProduct& product, int first_output) const {
  Product wide = product.of;
  wide.outputs = slab_outputs(product.of);
  wide.w = slab_.data();
  wide.ld_w = wide.ld_x;
  wide.bias = nullptr;
  wide.out = product.of.out + first_output;
  widen_codes(weights_of(product), {slab_.data(), wide.ld_w, first_output, wide.outputs}, stream_);
  return wide;
}

void CodedProducts::run_wide(const CodedProduct& product, const WideChoice& choice) const {
  const int step = slab_outputs(product.of);
  for (int at = 0; at < product.of.outputs; at += step) {
    const int first = std::min(at, product.of.outputs - step);
    const Product wide = widen(product, first);
    const auto* algorithm = std::get_if<cublasLtMatmulAlgo_t>(&choice);
    if (algorithm == nullptr || !LtProduct::fits(wide) || !plain_.lt().multiply(wide, *algorithm, stream_)) {
      multiply_mma(wide, stream_);
    }
    const float* bias = product.of.bias == nullptr ? nullptr : product.of.bias + first;
    scale_outputs(product.scales + first, bias, {wide.out, wide.rows, wide.outputs, wide.ld_out}, stream_);
  }
}

void CodedProducts::run(const CodedProduct& product, const CodedChoice& choice) const {
  if (const auto* shape = std::get_if<StreamShape>(&choice)) return code_stream_.multiply(product, *shape, stream_);
  run_wide(product, std::get<WideChoice>(choice));
}

WideChoice CodedProducts::choose_wide(const CodedProduct& product) {
  const Choice choice = plain_.choose(widen(product, 0));
  if (const auto* algorithm = std::get_if<cublasLtMatmulAlgo_t>(&choice)) return *algorithm;
  return ByMma{};
}

std::vector<CodedChoice> CodedProducts::candidates(const CodedProduct& product) {
  std::vector<CodedChoice> out;
  const bool streams = code_stream_.available();
  if (!streams || product.of.rows > kWidenedRows) out.emplace_back(choose_wide(product));
  if (!streams || product.of.rows > kStreamedRows) return out;
  for (const int tile : kCodeTiles) {
    if (tile < 32 && product.of.rows > 16) continue;
    // Tiles for too few processors look good here, where the next product begins on the others.
    if (tile > 16 && product.of.outputs / tile < plain_.stream_product().blocks_at_once() * 7 / 8) continue;
    for (const int boxes : {2, 4}) {
      for (const int cluster : {1, 2, 4}) {
        if (cluster == 4 && product.of.rows <= 16) continue;
        const StreamShape shape{tile, cluster, boxes};
        if (code_stream_.can_do(product.of, shape)) out.emplace_back(shape);
      }
    }
  }
  return out;
}

CodedChoice CodedProducts::measure(const CodedProduct& product) {
  CodedProduct most = product;
  most.of.rows = ProductTuner::bucket_of(product.of.rows);
  const std::vector<CodedChoice> all = candidates(most);
  if (all.size() == 1) return all.front();
  const Timing timing(*this, most, stream_);
  CodedChoice best = own_choice(product.of.rows);
  float best_time = std::numeric_limits<float>::infinity();
  for (const CodedChoice& candidate : all) {
    const float time = timing.milliseconds(candidate);
    if (time >= best_time) continue;
    best = candidate;
    best_time = time;
  }
  return best;
}

bool CodedProducts::knows(const CodedProduct& product) const {
  const Product& of = product.of;
  return is_small(product) ||
         choices_.contains({of.outputs, of.inputs, ProductTuner::bucket_of(of.rows), product.form});
}

CodedChoice CodedProducts::choose(const CodedProduct& product) {
  const Product& of = product.of;
  CHECK(of.rows <= ProductTuner::kMostRows && slab_.size() != 0);
  if (is_small(product)) return own_choice(of.rows);
  const Key key{of.outputs, of.inputs, ProductTuner::bucket_of(of.rows), product.form};
  if (const auto found = choices_.find(key); found != choices_.end()) return found->second;
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream_, &capture), "asking whether the stream is being captured");
  if (capture != cudaStreamCaptureStatusNone) return own_choice(of.rows);
  try {
    return choices_.emplace(key, measure(product)).first->second;
  } catch (const Error&) {
    // No memory left to measure in: the own kernels need none. If it is something worse, that will say so.
    return choices_.emplace(key, own_choice(of.rows)).first->second;
  }
}

}  // namespace kvasir::cuda
