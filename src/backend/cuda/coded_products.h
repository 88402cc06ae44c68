// Which way a product with weights in 8 bits goes. Both have the same bits (coded_product.h).
//
// Few rows go through CodeStream, which reads a byte a weight. For many, the codes of a slab of outputs are widened
// into memory that all weights share, and multiplied there as any bf16 weights are: a byte read, two written and two
// read again, which is little beside multiplying them by many rows. Where the one ends and the other begins is
// measured when a shape is first met, as product_tuner.h does; on devices without CodeStream codes are always
// widened.
#pragma once

#include <compare>
#include <map>
#include <variant>
#include <vector>

#include "backend/cuda/code_stream.h"
#include "backend/cuda/device_memory.h"
#include "backend/cuda/product_tuner.h"

namespace kvasir::cuda {

// By cuBLASLt or mma.sync: the kernels of stream_product.h read weights before those ahead of them have written them.
using WideChoice = std::variant<ByMma, cublasLtMatmulAlgo_t>;
using CodedChoice = std::variant<StreamShape, WideChoice>;

class CodedProducts {
 public:
  // `plain` outlives it.
  CodedProducts(cudaStream_t stream, ProductTuner& plain);

  // Before the first product, and before anything is captured in a graph: the memory stays where it is.
  void prepare();

  // See ProductTuner.
  bool knows(const CodedProduct& product) const;
  CodedChoice choose(const CodedProduct& product);
  void run(const CodedProduct& product, const CodedChoice& choice) const;

  const CodeStream& code_stream() const { return code_stream_; }

 private:
  struct Key {
    int outputs = 0;
    int inputs = 0;
    int bucket = 0;
    WeightForm form = WeightForm::kInt8;
    auto operator<=>(const Key&) const = default;
  };

  CodedChoice own_choice(int rows) const;
  std::vector<CodedChoice> candidates(const CodedProduct& product);
  CodedChoice measure(const CodedProduct& product);
  WideChoice choose_wide(const CodedProduct& product);
  Product widen(const CodedProduct& product, int first_output) const;
  void run_wide(const CodedProduct& product, const WideChoice& choice) const;

  cudaStream_t stream_;
  ProductTuner& plain_;
  CodeStream code_stream_;
  DeviceMemory slab_;  // a slab's outputs as bf16
  std::map<Key, CodedChoice> choices_;
};

}  // namespace kvasir::cuda
