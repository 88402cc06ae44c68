#include "backend/cuda/product_tuner.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "backend/cuda/compare_outputs.h"
#include "backend/cuda/convert_rows.h"
#include "backend/cuda/mma_product.h"

namespace kvasir::cuda {
namespace {

constexpr int kSuggestions = 8;
constexpr int kComparedRows = 64;  // from the top, and as many from the bottom
constexpr int kOwnRows = 256;      // beyond, the own kernels, which read weights once for 64 rows, are no candidates
constexpr int kRepetitions = 5;
constexpr size_t kFlushBytes = size_t{96} << 20;  // more than any second-level cache

// Rows of a product whose outputs go elsewhere.
Product rows_of(Product product, int first, int count, float* out) {
  product.x = static_cast<const std::byte*>(product.x) + first * product.ld_x * bytes_of(product.number);
  product.rows = count;
  product.out = out;
  product.ld_out = product.outputs;
  product.bias = nullptr;
  return product;
}

class Events {
 public:
  Events() {
    check(cudaEventCreate(&start_), "creating an event");
    check(cudaEventCreate(&stop_), "creating an event");
  }
  ~Events() {
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  template <class Work>
  float milliseconds(cudaStream_t stream, const Work& work) {
    check(cudaEventRecord(start_, stream), "timing a product");
    work();
    check(cudaEventRecord(stop_, stream), "timing a product");
    check(cudaEventSynchronize(stop_), "timing a product");
    float out = 0;
    check(cudaEventElapsedTime(&out, start_, stop_), "timing a product");
    return out;
  }

 private:
  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_ = nullptr;
};

// One shape's candidates, compared and timed on random rows in product.x.
class Measurement {
 public:
  Measurement(const ProductTuner& tuner, const Product& product, cudaStream_t stream)
      : tuner_(tuner),
        product_(rows_of(product, 0, ProductTuner::bucket_of(product.rows), nullptr)),
        stream_(stream),
        out_(static_cast<size_t>(product_.rows) * outputs() * 4),
        expected_(static_cast<size_t>(kComparedRows) * outputs() * 4),
        flush_(kFlushBytes),
        tally_(sizeof(Tally)) {
    product_.out = reinterpret_cast<float*>(out_.data());
    fill_random({const_cast<void*>(product_.x), product_.ld_x, product_.rows, product_.inputs, product_.number}, 1.0F,
                1, stream);
  }

  // Whether the algorithm has the own kernels' bits, whatever the number of rows in the bucket. `seen` becomes true
  // where there was something to compare: weights that are all zero tell nothing.
  bool canonical(const cublasLtMatmulAlgo_t& algorithm, bool& seen) {
    const int most = product_.rows;
    for (const int rows : {most, most / 2 + 1, most * 3 / 4, most - 1}) {
      if (rows <= most / 2 || rows < 1) continue;
      Product part = rows_of(product_, 0, rows, product_.out);
      check(cudaMemsetAsync(part.out, 0xff, static_cast<size_t>(rows) * outputs() * 4, stream_), "poisoning outputs");
      if (!tuner_.lt().multiply(part, algorithm, stream_)) return false;
      const int count = std::min(rows, kComparedRows);
      for (const int first : {0, rows - count}) {
        const Tally tally = compare(first, count);
        if (tally.different != 0) return false;
        seen = seen || tally.nonzero * 2 > static_cast<size_t>(count) * outputs();
        if (first == rows - count) break;
      }
    }
    return true;
  }

  // Of the fastest of a few runs, with nothing in the caches.
  float milliseconds(const Choice& choice) {
    float best = 1e9F;
    tuner_.run(product_, choice);
    for (int i = 0; i < kRepetitions; ++i) {
      check(cudaMemsetAsync(flush_.data(), i, flush_.size(), stream_), "flushing the cache");
      best = std::min(best, events_.milliseconds(stream_, [&] { tuner_.run(product_, choice); }));
    }
    return best;
  }

 private:
  size_t outputs() const { return static_cast<size_t>(product_.outputs); }

  Tally compare(int first, int count) {
    auto* expected = reinterpret_cast<float*>(expected_.data());
    multiply_mma(rows_of(product_, first, count, expected), stream_);
    const Matrix a{expected, count, product_.outputs, product_.outputs};
    const Matrix b{product_.out + first * product_.ld_out, count, product_.outputs, product_.ld_out};
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
  DeviceMemory expected_;
  DeviceMemory flush_;
  DeviceMemory tally_;
  Events events_;
};

}  // namespace

int ProductTuner::bucket_of(int rows) {
  int bucket = 1;
  while (bucket < rows) bucket *= 2;
  return bucket;
}

Choice ProductTuner::own_choice(int rows) const {
  if (!stream_product_.available()) return ByMma{};
  return StreamShape{32, rows <= 8 ? 1 : rows <= 32 ? 2 : 4};
}

std::optional<Choice> ProductTuner::measure(const Product& product) {
  Measurement measurement(*this, product, stream_);
  std::vector<Choice> candidates;
  if (product.rows <= kOwnRows || !lt_.available()) candidates.emplace_back(ByMma{});
  if (stream_product_.available() && (product.rows <= kOwnRows || !lt_.available())) {
    for (const int tile : {16, 32, 48, 64}) {
      for (const int cluster : {1, 2, 4}) candidates.emplace_back(StreamShape{tile, cluster});
    }
  }
  bool seen = !lt_.available();
  if (lt_.available()) {
    Product most = rows_of(product, 0, bucket_of(product.rows), product.out);
    for (const cublasLtMatmulAlgo_t& algorithm : lt_.suggestions(most, SumSplits::kNever, kSuggestions)) {
      if (measurement.canonical(algorithm, seen)) candidates.emplace_back(algorithm);
    }
  }
  if (!seen) return std::nullopt;
  Choice best = own_choice(product.rows);
  float best_time = std::numeric_limits<float>::infinity();
  for (const Choice& candidate : candidates) {
    const float time = measurement.milliseconds(candidate);
    if (time >= best_time) continue;
    best = candidate;
    best_time = time;
  }
  return best;
}

Choice ProductTuner::choose(const Product& product) {
  const Key key{product.outputs, product.inputs, bucket_of(product.rows), product.number};
  if (const auto found = choices_.find(key); found != choices_.end()) return found->second;
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream_, &capture), "asking whether the stream is being captured");
  if (capture != cudaStreamCaptureStatusNone) return own_choice(product.rows);
  std::optional<Choice> measured;
  try {
    measured = measure(product);
  } catch (const Error&) {
    // No memory left to measure in: the own kernel needs none. If it is something worse, that will say so.
  }
  if (!measured) return own_choice(product.rows);
  return choices_.emplace(key, *measured).first->second;
}

void ProductTuner::run(const Product& product, const Choice& choice) const {
  if (const auto* shape = std::get_if<StreamShape>(&choice))
    return stream_product_.multiply(product, *shape, stream_);
  if (const auto* algorithm = std::get_if<cublasLtMatmulAlgo_t>(&choice)) {
    if (LtProduct::fits(product) && lt_.multiply(product, *algorithm, stream_)) {
      if (product.bias != nullptr) {
        add_bias(product.bias, {product.out, product.rows, product.outputs, product.ld_out}, stream_);
      }
      return;
    }
    return run(product, own_choice(product.rows));
  }
  multiply_mma(product, stream_);
}

}  // namespace kvasir::cuda
