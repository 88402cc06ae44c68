// The matrices that kernels of 64 rows a warpgroup take boxes from: all of the cache, or of widened blocks.
#pragma once

#include <cuda.h>

#include "backend/cuda/boxed_maps.cuh"
#include "backend/cuda/wide_rows.cuh"

namespace kvasir::cuda {

struct WideMaps {
  CUtensorMap k;                        // [128-byte rows][32-byte rows of them][16]
  CUtensorMap v;                        // [64 numbers of a token's][tokens][64]
  const BlockScales* scales = nullptr;  // [blocks][KV heads], of widened blocks that have them
};

// `scales`: see WideBlocks.
inline WideMaps make_wide_maps(const KvView& view, Number number, const float* scales = nullptr) {
  constexpr std::int64_t kFar = 0x7fffffff;
  const int dim = view.layout.shape.k_dim;
  WideMaps maps;
  maps.k = make_tensor_map_3d(
      {view.arena, {kBlockOfTile, 4, kFar}, {32, kRowBytes}, {kBlockOfTile, 4, dim / 4}, number, BoxSwizzle::k32});
  maps.v = map_of_halved(view, number);
  maps.scales = reinterpret_cast<const BlockScales*>(scales);
  return maps;
}

}  // namespace kvasir::cuda
