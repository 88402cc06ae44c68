// Products of few rows with weights in 8 bits on Hopper: as stream_product.h, but codes are widened in registers.
//
// Up to 16 rows go through mma.sync, whose warps each have 8 outputs; more through wgmma, with the weights as the
// operand that may come from registers (code_consumers.cuh).
#pragma once

#include "backend/cuda/coded_product.h"
#include "backend/cuda/stream_product.h"

namespace kvasir::cuda {

inline constexpr int kCodeTiles[] = {16, 32, 48, 56, 64, 96, 112, 128};

// Whether there is a kernel for it with some number of rows: tiles are kCodeTiles, up to 64 with 16 rows at most.
bool is_code_shape(StreamShape shape);

class CodeStream {
 public:
  // On the same device.
  explicit CodeStream(const StreamProduct& like);

  bool available() const { return available_; }
  bool can_do(const Product& product, StreamShape shape) const;

  // can_do(). More than 128 rows are done in passes over the weights.
  void multiply(const CodedProduct& product, StreamShape shape, cudaStream_t stream) const;

 private:
  bool available_;
  int shared_bytes_;
  std::array<int, 5> clusters_{};  // by their size: how many the device runs at once
};

}  // namespace kvasir::cuda
