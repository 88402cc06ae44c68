#include "backend/cuda/gemm/autotuner.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "backend/cuda/gemm/compare_outputs.h"
#include "backend/cuda/gemm/mma_gemm.h"
#include "backend/cuda/ops/cast_rows.h"
#include "backend/cuda/ops/elementwise.h"
#include "backend/cuda/runtime/replay_time.h"
#include "base/check.h"

namespace kvasir::cuda {
namespace {

constexpr int kSuggestions = 12;
constexpr int kComparedRows = 64;  // from the top, and as many from the bottom
constexpr int kOwnRows = 128;      // beyond, our kernels, which read weights once for 64 rows, are no candidates
constexpr std::int64_t kSmallBytes = 2 << 20;       // of weights: below, measuring is not worth it
constexpr size_t kGemms = 6;                        // timed together
constexpr size_t kCachedBytes = size_t{128} << 20;  // more than any L2
// A model's GEMMs follow kernels that take longer than the cast that they follow here, and only our kernels load
// weights meanwhile. So they may be slower by this factor here and still be faster there.
constexpr float kHeadStart = 0.95F;

// Some rows of a GEMM, with their outputs elsewhere.
GemmArgs rows_of(GemmArgs gemm, int first, int count, void* out) {
  gemm.x = static_cast<const std::byte*>(gemm.x) + first * gemm.ld_x * bytes_of(gemm.number);
  gemm.rows = count;
  if (gemm.has_swiglu()) {
    gemm.gate_up_out = out;
  } else {
    gemm.out = static_cast<float*>(out);
  }
  gemm.ld_out = gemm.outputs;
  gemm.bias = nullptr;
  return gemm;
}

// A shape's candidates, compared and timed on random rows in gemm.x.
class Measurement {
 public:
  Measurement(const GemmAutotuner& autotuner, const GemmArgs& gemm, cudaStream_t stream)
      : autotuner_(autotuner),
        gemm_(rows_of(gemm, 0, GemmAutotuner::bucket_of(gemm.rows), nullptr)),
        stream_(stream),
        out_(static_cast<size_t>(gemm_.rows) * row_bytes()),
        swiglu_rows_(gemm.has_swiglu() ? static_cast<size_t>(gemm_.rows * gemm.ld_swiglu * bytes_of(Number::kBF16))
                                       : 0),
        expected_(static_cast<size_t>(kComparedRows) * row_bytes()),
        tally_(sizeof(Tally)) {
    gemm_ = rows_of(gemm_, 0, gemm_.rows, out_.data());
    if (gemm.has_swiglu()) gemm_.swiglu_out = swiglu_rows_.data();
    fill_random({const_cast<void*>(gemm_.x), gemm_.ld_x, gemm_.rows, gemm_.inputs, gemm_.number}, 1.0F, 1, stream);
  }

  // Called after the last canonical() and before milliseconds(): copies weights until L2 cannot hold them, and makes
  // float32 rows.
  void prepare_timing() {
    const auto bytes = static_cast<size_t>(gemm_.outputs * gemm_.ld_w * bytes_of(gemm_.number));
    const size_t copies = std::min(kGemms, kCachedBytes / bytes + 1);
    for (size_t i = 1; i < copies; ++i) {
      weights_.emplace_back(bytes);
      check(cudaMemcpyAsync(weights_.back().data(), gemm_.w, bytes, cudaMemcpyDeviceToDevice, stream_),
            "copying weights");
    }
    if (gemm_.rows > kOwnRows) return;  // casting takes little time beside multiplying
    rows_ = DeviceMemory(static_cast<size_t>(gemm_.rows) * static_cast<size_t>(gemm_.inputs) * 4);
    fill_random({rows_.data(), gemm_.inputs, gemm_.rows, gemm_.inputs, Number::kF32}, 1.0F, 2, stream_);
  }

  // Whether the algorithm has our bits at any row count of the bucket. `seen` becomes true if there was something to
  // compare: all-zero weights prove nothing.
  bool canonical(const cublasLtMatmulAlgo_t& algorithm, bool& seen) {
    const int most = gemm_.rows;
    for (const int rows : {most, most / 2 + 1, most * 3 / 4, most - 1}) {
      if (rows <= most / 2 || rows < 1) continue;
      const GemmArgs part = rows_of(gemm_, 0, rows, out_.data());
      check(cudaMemsetAsync(out_.data(), 0xff, static_cast<size_t>(rows) * row_bytes(), stream_),
            "poisoning outputs");
      if (!autotuner_.cublaslt().multiply(part, algorithm, stream_)) return false;
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

  // Times a few GEMMs in a row, each with its cast and another copy of the weights.
  float milliseconds(const Choice& choice) {
    return replay_time(stream_, [&] {
      for (size_t i = 0; i < kGemms; ++i) {
        GemmArgs gemm = gemm_;
        if (const size_t copy = i % (weights_.size() + 1); copy > 0) gemm.w = weights_[copy - 1].data();
        if (rows_.size() != 0) {
          const Matrix rows{reinterpret_cast<float*>(rows_.data()), gemm.rows, gemm.inputs, gemm.inputs};
          convert_rows(rows, gemm.number, const_cast<void*>(gemm.x), gemm.ld_x, stream_);
        }
        autotuner_.run(gemm, choice);
      }
    });
  }

 private:
  // Words of a row of outputs; two rounded outputs are one word.
  int words() const { return gemm_.has_swiglu() ? gemm_.outputs / 2 : gemm_.outputs; }
  size_t row_bytes() const { return static_cast<size_t>(words()) * 4; }

  Tally compare(int first, int count) {
    auto* expected = reinterpret_cast<float*>(expected_.data());
    multiply_mma(rows_of(gemm_, first, count, expected), stream_);
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

  const GemmAutotuner& autotuner_;
  GemmArgs gemm_;
  cudaStream_t stream_;
  DeviceMemory out_;
  DeviceMemory swiglu_rows_;
  DeviceMemory expected_;
  DeviceMemory tally_;
  std::vector<DeviceMemory> weights_;  // copies
  DeviceMemory rows_;                  // float32
};

}  // namespace

int GemmAutotuner::bucket_of(int rows) {
  int bucket = 1;
  while (bucket < rows) bucket *= 2;
  return bucket;
}

Choice GemmAutotuner::own_choice(int rows) const {
  if (!skinny_.available()) return ByMma{};
  return SkinnyShape{32, rows <= 16 ? 1 : 2, 2};
}

// Shapes that were fastest for some GEMM on an H200.
std::vector<Choice> GemmAutotuner::own_candidates(const GemmArgs& gemm) const {
  std::vector<Choice> out;
  if (cublaslt_.available() && gemm.rows > kOwnRows) return out;
  if (!skinny_.available()) return {ByMma{}};
  const auto add = [&](SkinnyShape shape) {
    if (is_skinny_shape(shape) && skinny_.can_do(gemm, shape)) out.emplace_back(shape);
  };
  for (const int tile : kSkinnyTiles) {
    if (tile < 64 && gemm.rows > 64) continue;  // each tile reads all rows again
    if (tile == kWideTile && gemm.rows < 16) continue;
    // Tiles for too few SMs look good here, since the next GEMM begins on the others.
    if (tile > 16 && gemm.outputs / tile < skinny_.ctas_at_once() * 7 / 8) continue;
    for (const int boxes : {2, 4}) {
      for (const int cluster : {1, 2}) add({tile, cluster, boxes});
    }
  }
  return out;
}

// Suggestions without split-K. For many rows those with split-K allowed too: some of them do not split either.
std::vector<cublasLtMatmulAlgo_t> GemmAutotuner::cublaslt_candidates(const GemmArgs& gemm) const {
  std::vector<cublasLtMatmulAlgo_t> out = cublaslt_.suggestions(gemm, SumSplits::kNever, kSuggestions);
  if (gemm.rows <= kOwnRows) return out;
  for (const cublasLtMatmulAlgo_t& one : cublaslt_.suggestions(gemm, SumSplits::kAllowed, kSuggestions)) {
    const auto same = [&](const cublasLtMatmulAlgo_t& other) { return std::memcmp(&one, &other, sizeof one) == 0; };
    if (std::ranges::none_of(out, same)) out.push_back(one);
  }
  return out;
}

std::optional<Choice> GemmAutotuner::measure(const GemmArgs& gemm) {
  Measurement measurement(*this, gemm, stream_);
  const GemmArgs most = rows_of(gemm, 0, bucket_of(gemm.rows), nullptr);
  std::vector<Choice> candidates = own_candidates(most);
  bool seen = !cublaslt_.available();
  if (cublaslt_.available()) {
    for (const cublasLtMatmulAlgo_t& algorithm : cublaslt_candidates(most)) {
      if (measurement.canonical(algorithm, seen)) candidates.emplace_back(algorithm);
    }
  }
  if (!seen) return std::nullopt;
  measurement.prepare_timing();
  Choice best = own_choice(gemm.rows);
  float best_time = std::numeric_limits<float>::infinity();
  for (const Choice& candidate : candidates) {
    float time = measurement.milliseconds(candidate);
    if (std::holds_alternative<SkinnyShape>(candidate)) time *= kHeadStart;
    if (time >= best_time) continue;
    best = candidate;
    best_time = time;
  }
  return best;
}

namespace {

bool is_small(const GemmArgs& gemm) { return gemm.outputs * gemm.ld_w * bytes_of(gemm.number) < kSmallBytes; }

}  // namespace

GemmAutotuner::Key GemmAutotuner::key_of(const GemmArgs& gemm) {
  return {gemm.outputs, gemm.inputs, bucket_of(gemm.rows), gemm.number, gemm.has_swiglu()};
}

bool GemmAutotuner::knows(const GemmArgs& gemm) const { return is_small(gemm) || choices_.contains(key_of(gemm)); }

Choice GemmAutotuner::choose(const GemmArgs& gemm) {
  CHECK(gemm.rows <= kMostRows);
  if (is_small(gemm)) return own_choice(gemm.rows);
  const Key key = key_of(gemm);
  if (const auto found = choices_.find(key); found != choices_.end()) return found->second;
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream_, &capture), "asking whether the stream is being captured");
  if (capture != cudaStreamCaptureStatusNone) return own_choice(gemm.rows);
  try {
    const std::optional<Choice> measured = measure(gemm);
    return measured ? choices_.emplace(key, *measured).first->second : own_choice(gemm.rows);
  } catch (const Error&) {
    // No memory left to measure in: our kernel needs none, and reports anything worse itself.
    return choices_.emplace(key, own_choice(gemm.rows)).first->second;
  }
}

void GemmAutotuner::run(const GemmArgs& gemm, const Choice& choice) const {
  if (const auto* shape = std::get_if<SkinnyShape>(&choice)) return skinny_.multiply(gemm, *shape, stream_);
  if (const auto* algorithm = std::get_if<cublasLtMatmulAlgo_t>(&choice)) {
    if (!CublasLtGemm::fits(gemm) || !cublaslt_.multiply(gemm, *algorithm, stream_)) {
      return run(gemm, own_choice(gemm.rows));
    }
    if (gemm.bias != nullptr) {
      add_bias(gemm.bias, {gemm.out, gemm.rows, gemm.outputs, gemm.ld_out}, stream_);
    }
  } else {
    multiply_mma(gemm, stream_);
  }
  if (gemm.has_swiglu()) swiglu_rounded(gemm, stream_);
}

}  // namespace kvasir::cuda
