// GEMMs of few rows on Hopper at the speed of the memory, with the bits of gemm.h.
//
// Persistent CTAs stream tiles of weights through shared memory by TMA. One warpgroup multiplies them by wgmma: up to
// 64 rows are m64, a tile's outputs are n. The first stages of weights are loaded before pdl_wait().
#pragma once

#include <cuda_runtime_api.h>

#include <array>

#include "backend/cuda/gemm/gemm.h"

namespace kvasir::cuda {

// Wider tiles read each row less often. 128 SMs with two tiles of 112 cover the 28,672 gate and up outputs of an 8B
// model.
inline constexpr int kWideTile = 112;
inline constexpr int kSkinnyTiles[] = {16, 32, 48, 64, kWideTile};

// Which shape is fastest depends on the GEMM: the autotuner measures.
struct SkinnyShape {
  int tile = 32;    // outputs of a CTA's tile: one of kSkinnyTiles
  int cluster = 1;  // CTAs that share each row they read: 1, 2 or 4
  int boxes = 2;    // of 64 k in a stage: 2, or 4 unless the tile is kWideTile
};
bool is_skinny_shape(SkinnyShape shape);  // whether there is a kernel for it

class SkinnyGemm {
 public:
  // Queries the device in use.
  SkinnyGemm();

  // Whether the device is Hopper.
  bool available() const { return available_; }

  // How many CTAs (one an SM), or clusters of a size, run at once.
  int ctas_at_once() const { return clusters_[1]; }
  int clusters_at_once(int size) const { return clusters_[static_cast<size_t>(size)]; }
  int shared_bytes() const { return shared_bytes_; }  // for a CTA's stages

  // Whether enough stages of that shape fit into shared memory.
  bool can_do(const GemmArgs& gemm, SkinnyShape shape) const;

  // REQUIRES: can_do(), and gemm.number is kBF16 or kF16. More than 64 rows take several passes over the weights.
  void multiply(const GemmArgs& gemm, SkinnyShape shape, cudaStream_t stream) const;

 private:
  bool available_ = false;
  int shared_bytes_ = 0;  // of a CTA, without the kernel's static part
  // By cluster size: how many run at once.
  std::array<int, 5> clusters_{};
};

}  // namespace kvasir::cuda
