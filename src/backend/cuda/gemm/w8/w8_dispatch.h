// Chooses how a GEMM with 8-bit weights runs. All ways have the same bits (w8_gemm.h).
//
// Few rows use W8SkinnyGemm, which reads a byte a weight. For many, a slab of outputs is dequantized to bf16 in a
// workspace that all weights share, and multiplied there: a byte read, two written and two read, which is little
// beside multiplying by many rows. The boundary is measured when a shape is first met, as in autotuner.h. Devices
// without W8SkinnyGemm always dequantize.
#pragma once

#include <compare>
#include <map>
#include <variant>
#include <vector>

#include "backend/cuda/gemm/autotuner.h"
#include "backend/cuda/gemm/w8/w8_skinny_gemm.h"
#include "backend/cuda/runtime/device_memory.h"

namespace kvasir::cuda {

// skinny_gemm.h is no candidate: it loads weights before pdl_wait(), when they are not dequantized yet.
using DequantChoice = std::variant<ByMma, cublasLtMatmulAlgo_t>;
using W8Choice = std::variant<SkinnyShape, DequantChoice>;

class W8Dispatch {
 public:
  // `autotuner` outlives it.
  W8Dispatch(cudaStream_t stream, GemmAutotuner& plain);

  // Allocates the slab. Called before the first GEMM and before any capture, since its address must not change.
  void prepare();

  // See GemmAutotuner.
  bool knows(const W8GemmArgs& gemm) const;
  W8Choice choose(const W8GemmArgs& gemm);
  void run(const W8GemmArgs& gemm, const W8Choice& choice) const;

  const W8SkinnyGemm& w8_skinny() const { return w8_skinny_; }

 private:
  struct Key {
    int outputs = 0;
    int inputs = 0;
    int bucket = 0;
    WeightQuantization form = WeightQuantization::kInt8;
    auto operator<=>(const Key&) const = default;
  };

  W8Choice own_choice(int rows) const;
  std::vector<W8Choice> candidates(const W8GemmArgs& gemm);
  W8Choice measure(const W8GemmArgs& gemm);
  DequantChoice choose_dequant(const W8GemmArgs& gemm);
  GemmArgs dequantize(const W8GemmArgs& gemm, int first_output) const;
  void run_dequant(const W8GemmArgs& gemm, const DequantChoice& choice) const;

  cudaStream_t stream_;
  GemmAutotuner& autotuner_;
  W8SkinnyGemm w8_skinny_;
  DeviceMemory slab_;  // dequantized outputs, bf16
  std::map<Key, W8Choice> choices_;
};

}  // namespace kvasir::cuda
