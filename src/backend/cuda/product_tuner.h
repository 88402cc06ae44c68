// Which kernel does a product: all candidates give the same bits, the fastest is taken.
//
// Candidates are the own kernels and those algorithms of cuBLASLt that were seen, on random rows and the weights at
// hand, to give exactly the own kernels' bits at several numbers of rows. That is measured when a shape is first met,
// for all numbers of rows up to the same power of two; a stream that is being captured measures nothing and takes an
// own kernel. So a choice may differ from run to run, and never shows in the results.
#pragma once

#include <cuda_runtime_api.h>

#include <compare>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "backend/cuda/lt_product.h"
#include "backend/cuda/product.h"
#include "backend/cuda/stream_product.h"

namespace kvasir::cuda {

struct ByMma {};
using Choice = std::variant<ByMma, StreamShape, cublasLtMatmulAlgo_t>;

class ProductTuner {
 public:
  explicit ProductTuner(cudaStream_t stream) : stream_(stream) {}

  // Of one product: more are done in parts, so that measuring takes a bounded amount of memory.
  static constexpr int kMostRows = 2048;

  // The most rows that are treated like `rows`.
  static int bucket_of(int rows);

  // Whether choose() will leave product.x alone.
  bool knows(const Product& product) const;

  // Before product.x is written: it holds bucket_of(rows) rows and is overwritten where something must be measured.
  Choice choose(const Product& product);

  void run(const Product& product, const Choice& choice) const;

  const LtProduct& lt() const { return lt_; }
  const StreamProduct& stream_product() const { return stream_product_; }

 private:
  struct Key {
    int outputs = 0;
    int inputs = 0;
    int bucket = 0;
    Number number = Number::kBF16;
    bool gates = false;
    auto operator<=>(const Key&) const = default;
  };

  static Key key_of(const Product& product);
  Choice own_choice(int rows) const;
  std::vector<cublasLtMatmulAlgo_t> lt_candidates(const Product& product) const;
  std::vector<Choice> own_candidates(const Product& product) const;
  std::optional<Choice> measure(const Product& product);

  cudaStream_t stream_;
  LtProduct lt_;
  StreamProduct stream_product_;
  std::map<Key, Choice> choices_;
};

}  // namespace kvasir::cuda
