// Tensor maps for wgmma: of the whole cache arena, or of dequantized blocks.
#pragma once

#include <cuda.h>

#include "backend/cuda/attention/decode/tma_maps.cuh"
#include "backend/cuda/attention/prefill/wgmma_rows.cuh"

namespace kvasir::cuda {

struct WgmmaMaps {
  CUtensorMap k;                        // [128-byte rows][32-byte rows of them][16]
  CUtensorMap v;                        // [halves of a token][tokens][64 numbers]
  const BlockScales* scales = nullptr;  // [blocks][KV heads], of dequantized blocks with scales
};

// `scales`: see DequantJob.
inline WgmmaMaps make_wgmma_maps(const KvView& view, Number number, const float* scales = nullptr) {
  constexpr std::int64_t kFar = 0x7fffffff;
  const int dim = view.layout.shape.k_dim;
  WgmmaMaps maps;
  maps.k = make_tensor_map_3d(
      {view.arena, {kBlockOfTile, 4, kFar}, {32, kRowBytes}, {kBlockOfTile, 4, dim / 4}, number, TmaSwizzle::k32});
  maps.v = tma_map_of_halves(view, number);
  maps.scales = reinterpret_cast<const BlockScales*>(scales);
  return maps;
}

}  // namespace kvasir::cuda
