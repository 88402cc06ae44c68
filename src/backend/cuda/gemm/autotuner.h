// Chooses the kernel of a GEMM: all candidates have the same bits, and the fastest is taken.
//
// Candidates are our kernels and those algorithms of cuBLASLt that gave exactly our bits on random rows and these
// weights, at several row counts. They are measured when a shape is first met, for all row counts up to the same
// power of two. While a stream is captured nothing is measured, and our kernel runs. So choices may differ between
// runs, and results never do.
#pragma once

#include <cuda_runtime_api.h>

#include <compare>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "backend/cuda/gemm/cublaslt_gemm.h"
#include "backend/cuda/gemm/gemm.h"
#include "backend/cuda/gemm/skinny_gemm.h"

namespace kvasir::cuda {

struct ByMma {};
using Choice = std::variant<ByMma, SkinnyShape, cublasLtMatmulAlgo_t>;

class GemmAutotuner {
 public:
  explicit GemmAutotuner(cudaStream_t stream) : stream_(stream) {}

  // A GEMM of more rows is done in parts, which bounds the memory for measuring.
  static constexpr int kMostRows = 2048;

  // The most rows that share a choice with `rows`.
  static int bucket_of(int rows);

  // Whether choose() will leave gemm.x alone.
  bool knows(const GemmArgs& gemm) const;

  // Called before gemm.x is written: measuring overwrites its bucket_of(rows) rows.
  Choice choose(const GemmArgs& gemm);

  void run(const GemmArgs& gemm, const Choice& choice) const;

  const CublasLtGemm& cublaslt() const { return cublaslt_; }
  const SkinnyGemm& skinny() const { return skinny_; }

 private:
  struct Key {
    int outputs = 0;
    int inputs = 0;
    int bucket = 0;
    Number number = Number::kBF16;
    bool swiglu = false;
    auto operator<=>(const Key&) const = default;
  };

  static Key key_of(const GemmArgs& gemm);
  Choice own_choice(int rows) const;
  std::vector<cublasLtMatmulAlgo_t> cublaslt_candidates(const GemmArgs& gemm) const;
  std::vector<Choice> own_candidates(const GemmArgs& gemm) const;
  std::optional<Choice> measure(const GemmArgs& gemm);

  cudaStream_t stream_;
  CublasLtGemm cublaslt_;
  SkinnyGemm skinny_;
  std::map<Key, Choice> choices_;
};

}  // namespace kvasir::cuda
