// Register tiles of the matrix product. Lane = output: no sum ever crosses lanes, so neither the vector width nor the
// number of rows can change a bit.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/matmul_kernels.cpp"
#include <hwy/foreach_target.h>
// After foreach_target, which re-includes this file once per target.
#include <hwy/highway.h>

#include <cstring>

#include "backend/cpu/kernels.h"
#include "backend/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir::cpu::HWY_NAMESPACE {

// How many panels a tile of R rows reads at once: as many as accumulators fit into registers, since each panel is a
// stream of its own and many streams read memory faster than one.
constexpr int panels_for(int rows) {
  if (kParts == 1) return rows <= 2 ? 8 : rows == 3 ? 6 : rows <= 6 ? 4 : rows <= 8 ? 3 : 2;
  if (kParts == 2) return rows == 1 ? 4 : rows == 2 ? 2 : 1;
  return 1;
}
inline constexpr int kRowTile = kParts == 1 ? 12 : kParts == 2 ? 6 : 4;

HWY_INLINE Lanes load_some(const float* from, int columns) {
  if (columns >= kLanes) return load(from);
  HWY_ALIGN float padded[kLanes] = {};
  std::memcpy(padded, from, static_cast<size_t>(columns) * sizeof(float));
  return load(padded);
}

HWY_INLINE void store_some(const Lanes& lanes, float* to, int columns) {
  if (columns >= kLanes) {
    store(lanes, to);
    return;
  }
  HWY_ALIGN float padded[kLanes];
  store(lanes, padded);
  std::memcpy(to, padded, static_cast<size_t>(columns) * sizeof(float));
}

template <class T, int R, int P>
void tile_of(const MatmulTile& t) {
  Lanes sums[R][P];
  for (int r = 0; r < R; ++r) {
    for (int p = 0; p < P; ++p) {
      const float* out = t.out + r * t.out_stride + p * kLanes;
      sums[r][p] = t.resume ? load_some(out, t.columns - p * kLanes) : broadcast(0.0F);
    }
  }
  const T* weights = static_cast<const T*>(t.weights);
  const float* x = t.x;
  for (int k = 0; k < t.inputs; ++k, weights += kLanes, x += t.x_stride) {
    Lanes w[P];
    for (int p = 0; p < P; ++p) w[p] = load(weights + p * t.panel_stride);
    for (int r = 0; r < R; ++r) {
      const Lanes value = broadcast(x[r]);
      for (int p = 0; p < P; ++p) sums[r][p] = fma(value, w[p], sums[r][p]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int p = 0; p < P; ++p) {
      store_some(sums[r][p], t.out + r * t.out_stride + p * kLanes, t.columns - p * kLanes);
    }
  }
}

template <class T, int R>
void tile_of_rows(const MatmulTile& t) {
  if constexpr (R <= kRowTile) {
    if (t.panels == 1) {
      tile_of<T, R, 1>(t);
    } else {
      tile_of<T, R, panels_for(R)>(t);
    }
  }
}

template <class T>
void tile(const MatmulTile& t) {
  switch (t.rows) {
    case 1:
      return tile_of_rows<T, 1>(t);
    case 2:
      return tile_of_rows<T, 2>(t);
    case 3:
      return tile_of_rows<T, 3>(t);
    case 4:
      return tile_of_rows<T, 4>(t);
    case 5:
      return tile_of_rows<T, 5>(t);
    case 6:
      return tile_of_rows<T, 6>(t);
    case 7:
      return tile_of_rows<T, 7>(t);
    case 8:
      return tile_of_rows<T, 8>(t);
    case 9:
      return tile_of_rows<T, 9>(t);
    case 10:
      return tile_of_rows<T, 10>(t);
    case 11:
      return tile_of_rows<T, 11>(t);
    case 12:
      return tile_of_rows<T, 12>(t);
  }
}

MatmulKernels matmul_table() {
  MatmulKernels table;
  table.row_tile = kRowTile;
  for (int rows = 1; rows <= kRowTile; ++rows) table.panels_at_once[rows] = panels_for(rows);
  table.tile[static_cast<int>(DType::kF32)] = &tile<float>;
  table.tile[static_cast<int>(DType::kF16)] = &tile<hwy::float16_t>;
  table.tile[static_cast<int>(DType::kBF16)] = &tile<hwy::bfloat16_t>;
  return table;
}

}  // namespace kvasir::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/targets.h"

namespace kvasir::cpu {

MatmulKernels matmul_kernels(Isa isa) { KVASIR_CHOOSE(isa, matmul_table); }

}  // namespace kvasir::cpu
#endif
