// Matrices that are all of the cache, or of widened blocks, for boxes that are K, or V, of one block and head. The
// arena has an end that nothing here knows: no box lies behind it.
#pragma once

#include <cuda.h>

#include "backend/cuda/boxed_places.cuh"
#include "backend/cuda/tensor_map.h"
#include "layout/kv_view.h"

namespace kvasir::cuda {

// K, or V, as it lies.
inline CUtensorMap map_of_boxes(const KvView& view, Number number) {
  const int box_rows = kBlockOfTile * view.layout.shape.k_dim * 2 / kRowBytes;
  return make_tensor_map({view.arena, kRowBytes / 2, 0x7fffffff, kRowBytes / 2, box_rows, number});
}

// Values as HalvedPlaces has them.
inline CUtensorMap map_of_halved(const KvView& view, Number number) {
  const int dim = view.layout.shape.v_dim;
  return make_tensor_map_3d({view.arena,
                             {kRowBytes / 2, 0x7fffffff, dim * 2 / kRowBytes + 1},
                             {dim * 2, kRowBytes},
                             {kRowBytes / 2, kBlockOfTile, dim * 2 / kRowBytes},
                             number,
                             BoxSwizzle::k128});
}
}  // namespace kvasir::cuda
