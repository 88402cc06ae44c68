#include "backend/cpu/cpu_matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/error.h"

namespace kvasir::cpu {
namespace {

// Inputs that a pass over the rows covers: two panels of weights and a tile of rows then stay in the L1 cache, and
// all rows of a batch of 512 in the L2.
constexpr int kInputBlock = 256;
// Panels that one thread takes at a time when there are many rows: the rows are read from the L2 that many times
// less.
constexpr int kPanelsPerItem = 8;

const std::byte* row_of(std::span<const HostWeight> stacked, int row) {
  for (const HostWeight& weight : stacked) {
    if (row < weight.rows) {
      return weight.bytes.data() + static_cast<size_t>(row) * row_bytes(weight.dtype, weight.cols);
    }
    row -= weight.rows;
  }
  return nullptr;
}

// Transposes up to 16 rows into [inputs][16]. The rows may be unaligned in their file.
template <class T>
void pack_panel(const std::byte* const (&rows)[kLanes], int inputs, std::byte* to) {
  T* out = reinterpret_cast<T*>(to);
  constexpr int kChunk = 64;
  T line[kLanes][kChunk] = {};
  for (int first = 0; first < inputs; first += kChunk) {
    const int n = std::min(kChunk, inputs - first);
    for (int r = 0; r < kLanes; ++r) {
      if (rows[r] == nullptr) continue;
      std::memcpy(line[r], rows[r] + static_cast<size_t>(first) * sizeof(T), static_cast<size_t>(n) * sizeof(T));
    }
    for (int i = 0; i < n; ++i) {
      for (int r = 0; r < kLanes; ++r) *out++ = line[r][i];
    }
  }
}

}  // namespace

std::unique_ptr<PanelWeight> Matmul::pack(std::span<const HostWeight> stacked) {
  int outputs = 0;
  for (const HostWeight& weight : stacked) {
    if (is_quantized(weight.dtype)) {
      fail_input(fmt::format("the cpu backend has no kernels for {} weights", name_of(weight.dtype)), "",
                 "use weights of type f32, f16 or bf16, or the ref backend");
    }
    CHECK(weight.cols == stacked.front().cols && weight.dtype == stacked.front().dtype);
    outputs += weight.rows;
  }
  auto packed = std::make_unique<PanelWeight>(outputs, stacked.front().cols);
  packed->dtype = stacked.front().dtype;
  const auto elements = static_cast<size_t>(packed->panels() * packed->panel_elements());
  packed->panels_memory = allocate_host(elements * block_bytes(packed->dtype));
  pool_.parallel_for(packed->panels(), [&](std::int64_t panel, int) {
    const std::byte* rows[kLanes];
    for (int r = 0; r < kLanes; ++r) rows[r] = row_of(stacked, static_cast<int>(panel) * kLanes + r);
    std::byte* to = packed->at(static_cast<int>(panel), 0);
    if (packed->dtype == DType::kF32) {
      pack_panel<std::uint32_t>(rows, packed->inputs(), to);
    } else {
      pack_panel<std::uint16_t>(rows, packed->inputs(), to);
    }
  });
  return packed;
}

void Matmul::run(const PanelWeight& weight, Matrix x, Matrix out) {
  CHECK(x.cols == weight.inputs() && out.cols == weight.outputs() && x.rows == out.rows);
  if (x.rows == 0) return;
  if (x.rows == 1) return run_thin(weight, x.data, 1, out);
  const int tile_rows = pack_rows(x);
  if (x.rows == tile_rows) return run_thin(weight, packed_.as<float>(), x.rows, out);
  run_blocked(weight, tile_rows, out);
}

// x becomes tiles of [inputs][rows], as few as can be and all of a size, the last aside; returns that size. The tile
// is stored by input: the kernel then reads its rows' next numbers side by side, where whole rows a power of two
// apart would fight for the same lines of the cache.
int Matmul::pack_rows(Matrix x) {
  const int tiles = (x.rows + kernels_.row_tile - 1) / kernels_.row_tile;
  const int tile_rows = (x.rows + tiles - 1) / tiles;
  const size_t bytes =
      sizeof(float) * static_cast<size_t>(tiles) * static_cast<size_t>(tile_rows) * static_cast<size_t>(x.cols);
  if (packed_.bytes() < bytes) packed_ = allocate_host(bytes);
  float* packed = packed_.as<float>();
  pool_.parallel_for(tiles, [&](std::int64_t tile, int) {
    float* to = packed + tile * tile_rows * x.cols;
    const int first = static_cast<int>(tile) * tile_rows;
    const int rows = std::min(tile_rows, x.rows - first);
    for (int r = 0; r < rows; ++r) {
      const float* from = x.row(first + r);
      for (int k = 0; k < x.cols; ++k) to[static_cast<std::ptrdiff_t>(k) * tile_rows + r] = from[k];
    }
  });
  return tile_rows;
}

// One tile of rows: the weights are read once and decide the time. Threads take groups of panels.
void Matmul::run_thin(const PanelWeight& weight, const float* x, int rows, Matrix out) {
  const int at_once = kernels_.panels_at_once[rows];
  const std::int64_t items = (weight.panels() + at_once - 1) / at_once;
  pool_.parallel_for(items, [&](std::int64_t item, int) {
    MatmulTile tile;
    tile.x = x;
    tile.x_stride = rows;
    tile.inputs = weight.inputs();
    tile.rows = rows;
    tile.out = out.data;
    tile.out_stride = out.stride;
    tile.weights = weight.at(0, 0);
    const int first = static_cast<int>(item) * at_once;
    panels(weight, tile, first, std::min(at_once, weight.panels() - first));
  });
}

// Many rows: the arithmetic decides. A thread takes a few panels, and goes through the inputs in blocks, and through
// all rows for each.
void Matmul::run_blocked(const PanelWeight& weight, int tile_rows, Matrix out) {
  const int inputs = weight.inputs();
  const int fair_share = weight.panels() / (4 * pool_.threads());
  const int at_once = kernels_.panels_at_once[tile_rows];
  const int per_item = std::max(std::clamp(fair_share, 1, kPanelsPerItem) / at_once, 1) * at_once;
  const std::int64_t items = (weight.panels() + per_item - 1) / per_item;
  pool_.parallel_for(items, [&](std::int64_t item, int) {
    const int first = static_cast<int>(item) * per_item;
    const int last = std::min(first + per_item, weight.panels());
    for (int k = 0; k < inputs; k += kInputBlock) {
      for (int panel = first; panel < last; panel += at_once) {
        for (int row = 0; row < out.rows; row += tile_rows) {
          MatmulTile tile;
          tile.x = packed_.as<float>() + static_cast<std::ptrdiff_t>(row) * inputs +
                   static_cast<std::ptrdiff_t>(k) * tile_rows;
          tile.x_stride = tile_rows;
          tile.inputs = std::min(kInputBlock, inputs - k);
          tile.rows = std::min(tile_rows, out.rows - row);
          tile.out = out.row(row);
          tile.out_stride = out.stride;
          tile.resume = k > 0;
          tile.weights = weight.at(0, k);
          panels(weight, tile, panel, std::min(at_once, last - panel));
        }
      }
    }
  });
}

// Runs `tile`, set up for panel 0, over `count` panels from `first` on: as many at once as the kernel takes.
void Matmul::panels(const PanelWeight& weight, MatmulTile tile, int first, int count) const {
  const int at_once = kernels_.panels_at_once[tile.rows];
  const auto* weights = static_cast<const std::byte*>(tile.weights);
  float* out = tile.out;
  tile.panel_stride = weight.panel_elements();
  const std::int64_t panel_bytes = weight.panel_elements() * static_cast<std::int64_t>(block_bytes(weight.dtype));
  for (int panel = first; panel < first + count; panel += tile.panels) {
    tile.panels = first + count - panel >= at_once ? at_once : 1;
    tile.weights = weights + panel * panel_bytes;
    tile.out = out + static_cast<std::ptrdiff_t>(panel) * kLanes;
    tile.columns = weight.outputs() - panel * kLanes;
    kernels_.tile[static_cast<int>(weight.dtype)](tile);
  }
}

}  // namespace kvasir::cpu
