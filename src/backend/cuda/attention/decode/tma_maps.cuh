// Tensor maps of the whole cache arena, or of dequantized blocks. A box is K, or V, of one block and head. The maps
// do not know where the arena ends; no box reaches past it.
#pragma once

#include <cuda.h>

#include "backend/cuda/arch/tensor_map.h"
#include "backend/cuda/attention/decode/tma_addresses.cuh"
#include "layout/kv_view.h"

namespace kvasir::cuda {

// Boxes of K, or V, as it lies.
inline CUtensorMap tma_map_of_blocks(const KvView& view, Number number) {
  const int box_rows = kBlockOfTile * view.layout.shape.k_dim * 2 / kRowBytes;
  return make_tensor_map({view.arena, kRowBytes / 2, 0x7fffffff, kRowBytes / 2, box_rows, number});
}

// Boxes of V for HalvedSmemLayout.
inline CUtensorMap tma_map_of_halves(const KvView& view, Number number) {
  const int dim = view.layout.shape.v_dim;
  return make_tensor_map_3d({view.arena,
                             {kRowBytes / 2, 0x7fffffff, dim * 2 / kRowBytes + 1},
                             {dim * 2, kRowBytes},
                             {kRowBytes / 2, kBlockOfTile, dim * 2 / kRowBytes},
                             number,
                             TmaSwizzle::k128});
}
}  // namespace kvasir::cuda
