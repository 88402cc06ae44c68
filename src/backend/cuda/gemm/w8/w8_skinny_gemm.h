// Skinny GEMMs with 8-bit weights on Hopper: as skinny_gemm.h, but weights are dequantized in registers.
//
// Up to 16 rows use mma.sync, 8 outputs a warp; more use wgmma, with weights as the operand in registers
// (w8_consumers.cuh).
#pragma once

#include "backend/cuda/gemm/skinny_gemm.h"
#include "backend/cuda/gemm/w8/w8_gemm.h"

namespace kvasir::cuda {

inline constexpr int kW8Tiles[] = {16, 32, 48, 56, 64, 96, 112, 128};

// Whether a kernel exists for it at some row count: tiles are kW8Tiles, up to 64 for at most 16 rows.
bool is_w8_shape(SkinnyShape shape);

class W8SkinnyGemm {
 public:
  // On the same device.
  explicit W8SkinnyGemm(const SkinnyGemm& like);

  bool available() const { return available_; }
  bool can_do(const GemmArgs& gemm, SkinnyShape shape) const;

  // REQUIRES: can_do(). More than 128 rows take several passes over the weights.
  void multiply(const W8GemmArgs& gemm, SkinnyShape shape, cudaStream_t stream) const;

 private:
  bool available_;
  int shared_bytes_;
  std::array<int, 5> clusters_{};  // by cluster size: how many run at once
};

}  // namespace kvasir::cuda
