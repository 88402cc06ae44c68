#include "backend/cpu/cpu_matmul.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <algorithm>

#include "base/check.h"

namespace kvasir::cpu {
namespace {

// Inputs that a pass over the rows covers. What a tile pays for coming and going shrinks with it; the rows of a batch
// of 512 still lie in the caches.
constexpr int kInputBlock = 2048;
// Panels that one thread takes at a time when there are many rows: the rows are read from the L2 that many times
// less.
constexpr int kPanelsPerItem = 8;

// Dot products of bf16 take numbers too small to be normal for zero. So do the kernels that stand in for them, while
// this lives.
class TinyIsZero {
 public:
#if defined(__SSE__)
  TinyIsZero() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushToZero | kDenormalsAreZero); }
  ~TinyIsZero() { _mm_setcsr(before_); }

 private:
  static constexpr unsigned kFlushToZero = 0x8000;
  static constexpr unsigned kDenormalsAreZero = 0x0040;
  unsigned before_;
#endif
};

}  // namespace

void Matmul::run(const PanelWeight& weight, Matrix x, Matrix out) {
  CHECK(x.cols == weight.inputs() && out.cols == weight.outputs() && x.rows == out.rows);
  if (x.rows == 0) return;
  const MatmulKernel& kernel = kernel_for(weight);
  if (x.rows == 1 && kernel.form == RowForm::kF32)
    return run_thin(weight, reinterpret_cast<const std::byte*>(x.data), out);
  x_.pack(x, kernel, pool_);
  if (x.rows == x_.rows()) return run_thin(weight, x_.at(0, 0), out);
  run_blocked(weight, out);
}

// One tile of rows: the weights are read once and decide the time. Threads take groups of panels.
void Matmul::run_thin(const PanelWeight& weight, const std::byte* x, Matrix out) {
  const int at_once = kernel_for(weight).panels_at_once[out.rows];
  const std::int64_t items = (weight.panels() + at_once - 1) / at_once;
  pool_.parallel_for(items, [&](std::int64_t item, int) {
    const TinyIsZero guard;
    MatmulTile tile;
    tile.x = x;
    tile.x_stride = out.rows;
    tile.inputs = weight.inputs();
    tile.rows = out.rows;
    tile.out = out.data;
    tile.out_stride = out.stride;
    tile.weights = weight.at(0, 0);
    const int first = static_cast<int>(item) * at_once;
    panels(weight, tile, first, std::min(at_once, weight.panels() - first));
  });
}

// Many rows: the arithmetic decides. A thread takes a few panels, and goes through the inputs in blocks, and through
// all rows for each.
void Matmul::run_blocked(const PanelWeight& weight, Matrix out) {
  const int inputs = weight.inputs();
  const int tile_rows = x_.rows();
  const int fair_share = weight.panels() / (4 * pool_.threads());
  const int at_once = kernel_for(weight).panels_at_once[tile_rows];
  const int per_item = std::max(std::clamp(fair_share, 1, kPanelsPerItem) / at_once, 1) * at_once;
  const std::int64_t items = (weight.panels() + per_item - 1) / per_item;
  pool_.parallel_for(items, [&](std::int64_t item, int) {
    const TinyIsZero guard;
    const int first = static_cast<int>(item) * per_item;
    const int last = std::min(first + per_item, weight.panels());
    for (int k = 0; k < inputs; k += kInputBlock) {
      for (int panel = first; panel < last; panel += at_once) {
        for (int row = 0; row < out.rows; row += tile_rows) {
          MatmulTile tile;
          tile.x = x_.at(row, k);
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
  const int at_once = kernel_for(weight).panels_at_once[tile.rows];
  const std::byte* weights = tile.weights;
  float* out = tile.out;
  tile.panel_bytes = weight.panel_bytes();
  for (int panel = first; panel < first + count; panel += tile.panels) {
    tile.panels = first + count - panel >= at_once ? at_once : 1;
    tile.weights = weights + panel * tile.panel_bytes;
    tile.out = out + static_cast<std::ptrdiff_t>(panel) * kLanes;
    tile.columns = weight.outputs() - panel * kLanes;
    kernel_for(weight).tile(tile);
  }
}

}  // namespace kvasir::cpu
