#include "backend/cuda/product_tuner.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "backend/cuda/compare_outputs.h"
#include "backend/cuda/convert_rows.h"
#include "backend/cuda/mma_product.h"
#include "backend/cuda/replay_time.h"
#include "backend/cuda/row_ops.h"
#include "base/check.h"

namespace kvasir::cuda {
namespace {

constexpr int kSuggestions = 12;
constexpr int kComparedRows = 64;  // from the top, and as many from the bottom
constexpr int kOwnRows = 128;      // beyond, the own kernels, which read weights once for 64 rows, are no candidates
constexpr std::int64_t kSmallBytes = 2 << 20;       // of weights that are not worth measuring
constexpr size_t kProducts = 6;                     // that are timed together
constexpr size_t kCachedBytes = size_t{128} << 20;  // more than any second-level cache
// A model's products stand behind kernels that take longer than converting rows, as it is done here, and only the own
// kernels read weights in that time: they may be slower by so much here, and are faster there.
constexpr float kHeadStart = 0.95F;

// Rows of a product whose outputs, or those that are rounded, go elsewhere.
Product rows_of(Product product, int first, int count, void* out) {
  product.x = static_cast<const std::byte*>(product.x) + first * product.ld_x * bytes_of(product.number);
  product.rows = count;
  if (product.gates()) {
    product.rounded_out = out;
  } else {
    product.out = static_cast<float*>(out);
  }
  product.ld_out = product.outputs;
  product.bias = nullptr;
  return product;
}

// One shape's candidates, compared and timed on random rows in product.x.
class Measurement {
 public:
  Measurement(const ProductTuner& tuner, const Product& product, cudaStream_t stream)
      : tuner_(tuner),
        product_(rows_of(product, 0, ProductTuner::bucket_of(product.rows), nullptr)),
        stream_(stream),
        out_(static_cast<size_t>(product_.rows) * row_bytes()),
        gated_(product.gates() ? static_cast<size_t>(product_.rows * product.ld_gated * bytes_of(Number::kBF16)) : 0),
        expected_(static_cast<size_t>(kComparedRows) * row_bytes()),
        tally_(sizeof(Tally)) {
    product_ = rows_of(product_, 0, product_.rows, out_.data());
    if (product.gates()) product_.gated_out = gated_.data();
    fill_random({const_cast<void*>(product_.x), product_.ld_x, product_.rows, product_.inputs, product_.number}, 1.0F,
                1, stream);
  }

  // Before the first milliseconds(), after the last canonical(): copies of the weights, more than caches hold, and
  // rows as they come.
  void prepare_timing() {
    const auto bytes = static_cast<size_t>(product_.outputs * product_.ld_w * bytes_of(product_.number));
    const size_t copies = std::min(kProducts, kCachedBytes / bytes + 1);
    for (size_t i = 1; i < copies; ++i) {
      weights_.emplace_back(bytes);
      check(cudaMemcpyAsync(weights_.back().data(), product_.w, bytes, cudaMemcpyDeviceToDevice, stream_),
            "copying weights");
    }
    if (product_.rows > kOwnRows) return;  // converting them is little beside multiplying them
    rows_ = DeviceMemory(static_cast<size_t>(product_.rows) * static_cast<size_t>(product_.inputs) * 4);
    fill_random({rows_.data(), product_.inputs, product_.rows, product_.inputs, Number::kF32}, 1.0F, 2, stream_);
  }

  // Whether the algorithm has the own kernels' bits, whatever the number of rows in the bucket. `seen` becomes true
  // where there was something to compare: weights that are all zero tell nothing.
  bool canonical(const cublasLtMatmulAlgo_t& algorithm, bool& seen) {
    const int most = product_.rows;
    for (const int rows : {most, most / 2 + 1, most * 3 / 4, most - 1}) {
      if (rows <= most / 2 || rows < 1) continue;
      const Product part = rows_of(product_, 0, rows, out_.data());
      check(cudaMemsetAsync(out_.data(), 0xff, static_cast<size_t>(rows) * row_bytes(), stream_),
            "poisoning outputs");
      if (!tuner_.lt().multiply(part, algorithm, stream_)) return false;
      const int count = std::min(rows, kComparedRows);
      for (const int first : {0, rows - count}) {
        const Tally tally = compare(first, count);
        if (tally.different != 0) return false;
        seen = seen || tally.nonzero * 2 > static_cast<size_t>(count * words());
        if (first == rows - count) break;
      }
    }
    return true;
  }

  // Of a few products in a row, as a model has them: converting rows and multiplying them by one weight after the
  // other.
  float milliseconds(const Choice& choice) {
    return replay_time(stream_, [&] {
      for (size_t i = 0; i < kProducts; ++i) {
        Product product = product_;
        if (const size_t copy = i % (weights_.size() + 1); copy > 0) product.w = weights_[copy - 1].data();
        if (rows_.size() != 0) {
          const Matrix rows{reinterpret_cast<float*>(rows_.data()), product.rows, product.inputs, product.inputs};
          convert_rows(rows, product.number, const_cast<void*>(product.x), product.ld_x, stream_);
        }
        tuner_.run(product, choice);
      }
    });
  }

 private:
  // Of a row of outputs; of those that are rounded two are taken for one.
  int words() const { return product_.gates() ? product_.outputs / 2 : product_.outputs; }
  size_t row_bytes() const { return static_cast<size_t>(words()) * 4; }

  Tally compare(int first, int count) {
    auto* expected = reinterpret_cast<float*>(expected_.data());
    multiply_mma(rows_of(product_, first, count, expected), stream_);
    const Matrix a{expected, count, words(), words()};
    const Matrix b{reinterpret_cast<float*>(out_.data()) + static_cast<std::int64_t>(first) * words(), count, words(),
                   words()};
    auto* tally = reinterpret_cast<Tally*>(tally_.data());
    check(cudaMemsetAsync(tally, 0, sizeof(Tally), stream_), "comparing products");
    compare_outputs(a, b, tally, stream_);
    Tally out;
    check(cudaMemcpyAsync(&out, tally, sizeof out, cudaMemcpyDeviceToHost, stream_), "comparing products");
    check(cudaStreamSynchronize(stream_), "comparing products");
    return out;
  }

  const ProductTuner& tuner_;
  Product product_;
  cudaStream_t stream_;
  DeviceMemory out_;
  DeviceMemory gated_;
  DeviceMemory expected_;
  DeviceMemory tally_;
  std::vector<DeviceMemory> weights_;  // copies
  DeviceMemory rows_;                  // float32
};

}  // namespace

int ProductTuner::bucket_of(int rows) {
  int bucket = 1;
  while (bucket < rows) bucket *= 2;
  return bucket;
}

Choice ProductTuner::own_choice(int rows) const {
  if (!stream_product_.available()) return ByMma{};
  return StreamShape{32, rows <= 16 ? 1 : 2, 2};
}

// Those that were fastest for some shape on an H200.
std::vector<Choice> ProductTuner::own_candidates(const Product& product) const {
  std::vector<Choice> out;
  if (lt_.available() && product.rows > kOwnRows) return out;
  if (!stream_product_.available()) return {ByMma{}};
  const auto add = [&](StreamShape shape) {
    if (is_stream_shape(shape) && stream_product_.can_do(product, shape)) out.emplace_back(shape);
  };
  for (const int tile : kStreamTiles) {
    if (tile < 64 && product.rows > 64) continue;  // many rows are read again by every tile
    if (tile == kWideTile && product.rows < 16) continue;
    // Tiles for too few processors look good here, where the next product begins on the others.
    if (tile > 16 && product.outputs / tile < stream_product_.blocks_at_once() * 7 / 8) continue;
    for (const int boxes : {2, 4}) {
      for (const int cluster : {1, 2}) add({tile, cluster, boxes});
    }
  }
  return out;
}

// What the library suggests where sums are not split, and for many rows what it suggests at all: some of those that
// do not split them either are among these alone.
std::vector<cublasLtMatmulAlgo_t> ProductTuner::lt_candidates(const Product& product) const {
  std::vector<cublasLtMatmulAlgo_t> out = lt_.suggestions(product, SumSplits::kNever, kSuggestions);
  if (product.rows <= kOwnRows) return out;
  for (const cublasLtMatmulAlgo_t& one : lt_.suggestions(product, SumSplits::kAllowed, kSuggestions)) {
    const auto same = [&](const cublasLtMatmulAlgo_t& other) { return std::memcmp(&one, &other, sizeof one) == 0; };
    if (std::ranges::none_of(out, same)) out.push_back(one);
  }
  return out;
}

std::optional<Choice> ProductTuner::measure(const Product& product) {
  Measurement measurement(*this, product, stream_);
  const Product most = rows_of(product, 0, bucket_of(product.rows), nullptr);
  std::vector<Choice> candidates = own_candidates(most);
  bool seen = !lt_.available();
  if (lt_.available()) {
    for (const cublasLtMatmulAlgo_t& algorithm : lt_candidates(most)) {
      if (measurement.canonical(algorithm, seen)) candidates.emplace_back(algorithm);
    }
  }
  if (!seen) return std::nullopt;
  measurement.prepare_timing();
  Choice best = own_choice(product.rows);
  float best_time = std::numeric_limits<float>::infinity();
  for (const Choice& candidate : candidates) {
    float time = measurement.milliseconds(candidate);
    if (std::holds_alternative<StreamShape>(candidate)) time *= kHeadStart;
    if (time >= best_time) continue;
    best = candidate;
    best_time = time;
  }
  return best;
}

namespace {

bool is_small(const Product& product) {
  return product.outputs * product.ld_w * bytes_of(product.number) < kSmallBytes;
}

}  // namespace

ProductTuner::Key ProductTuner::key_of(const Product& product) {
  return {product.outputs, product.inputs, bucket_of(product.rows), product.number, product.gates()};
}

bool ProductTuner::knows(const Product& product) const {
  return is_small(product) || choices_.contains(key_of(product));
}

Choice ProductTuner::choose(const Product& product) {
  CHECK(product.rows <= kMostRows);
  if (is_small(product)) return own_choice(product.rows);
  const Key key = key_of(product);
  if (const auto found = choices_.find(key); found != choices_.end()) return found->second;
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream_, &capture), "asking whether the stream is being captured");
  if (capture != cudaStreamCaptureStatusNone) return own_choice(product.rows);
  try {
    const std::optional<Choice> measured = measure(product);
    return measured ? choices_.emplace(key, *measured).first->second : own_choice(product.rows);
  } catch (const Error&) {
    // No memory left to measure in: the own kernel needs none. If it is something worse, that will say so.
    return choices_.emplace(key, own_choice(product.rows)).first->second;
  }
}

void ProductTuner::run(const Product& product, const Choice& choice) const {
  if (const auto* shape = std::get_if<StreamShape>(&choice))
    return stream_product_.multiply(product, *shape, stream_);
  if (const auto* algorithm = std::get_if<cublasLtMatmulAlgo_t>(&choice)) {
    if (!LtProduct::fits(product) || !lt_.multiply(product, *algorithm, stream_)) {
      return run(product, own_choice(product.rows));
    }
    if (product.bias != nullptr) {
      add_bias(product.bias, {product.out, product.rows, product.outputs, product.ld_out}, stream_);
    }
  } else {
    multiply_mma(product, stream_);
  }
  if (product.gates()) gate_rounded(product, stream_);
}

}  // namespace kvasir::cuda
