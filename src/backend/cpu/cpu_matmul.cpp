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
constexpr int kPanelsPerItem = 16;
// Tiles of rows for which panels are spread. Fewer ask for the next panels while they go through these: the first of
// them would wait.
constexpr int kWorthSpreading = 8;
constexpr std::int64_t kCacheLine = 64;

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

// Where rows [row, end) have the outputs of `count` panels, into the cache: the next tile begins or ends there.
void ask_for_outputs(Matrix out, int row, int end, int panel, int count) {
  for (; row < end; ++row) {
    for (int i = 0; i < count; ++i) __builtin_prefetch(out.row(row) + (panel + i) * kLanes, 1);
  }
}

}  // namespace

void Matmul::run(const PanelWeight& weight, Matrix x, Matrix out) {
  const Product one{&weight, {x, {}}, out};
  run({&one, 1});
}

void Matmul::run(std::span<const Product> products) {
  cuts_.clear();
  used_tiles_ = 0;
  for (const Product& product : products) {
    if (product.out.rows > 0) cut(product);
  }
  if (cuts_.empty()) return;
  pack_rows();
  pool_.parallel_for(cuts_.back().first_item + cuts_.back().items(), [&](std::int64_t item, int thread) {
    const TinyIsZero guard;
    const auto behind = std::ranges::upper_bound(cuts_, item, {}, &Cut::first_item);
    compute(*(behind - 1), item - (behind - 1)->first_item, thread);
  });
}

void Matmul::cut(const Product& product) {
  const PanelWeight& weight = *product.weight;
  CHECK(product.rows.x.cols == weight.inputs() && product.out.cols == weight.outputs());
  CHECK(product.rows.count() == product.out.rows);
  const MatmulKernel& kernel = kernel_for(weight);
  Cut cut{&product, tiles_for(product)};
  const RowTiles& rows = tiles_[static_cast<size_t>(cut.tiles)];
  const int at_once = kernel.panels_at_once[rows.rows()];
  cut.panels_per_item = at_once;
  if (rows.tiles() > 1) {
    const int fair_share = weight.panels() / (4 * pool_.threads());
    cut.panels_per_item = std::max(std::clamp(fair_share, 1, kPanelsPerItem) / at_once, 1) * at_once;
    make_room_to_spread(kernel, at_once);
  }
  if (!cuts_.empty()) cut.first_item = cuts_.back().first_item + cuts_.back().items();
  cuts_.push_back(cut);
}

// Where the product's rows are, or will be.
int Matmul::tiles_for(const Product& product) {
  const MatmulKernel& kernel = kernel_for(*product.weight);
  if (used_tiles_ > 0 && tiles_[static_cast<size_t>(used_tiles_ - 1)].holds(product.rows, kernel)) {
    return used_tiles_ - 1;
  }
  if (used_tiles_ == static_cast<int>(tiles_.size())) tiles_.emplace_back(row_kernels_);
  tiles_[static_cast<size_t>(used_tiles_)].plan(product.rows, kernel);
  return used_tiles_++;
}

void Matmul::pack_rows() {
  const std::span<RowTiles> all = std::span(tiles_).first(static_cast<size_t>(used_tiles_));
  const auto room = [](const RowTiles& one) { return (one.bytes() + kCacheLine - 1) / kCacheLine * kCacheLine; };
  std::int64_t bytes = 0;
  std::int64_t items = 0;
  for (const RowTiles& one : all) {
    bytes += room(one);
    items += one.items();
  }
  if (rows_.bytes() < static_cast<size_t>(bytes)) rows_ = allocate_host(static_cast<size_t>(bytes));
  std::byte* at = rows_.as<std::byte>();
  for (RowTiles& one : all) {
    one.place(at);
    at += room(one);
  }
  pool_.parallel_for(items, [&](std::int64_t item, int) {
    size_t i = 0;
    for (; item >= all[i].items(); ++i) item -= all[i].items();
    all[i].pack(item);
  });
}

void Matmul::compute(const Cut& cut, std::int64_t item, int thread) const {
  const PanelWeight& weight = *cut.product->weight;
  const RowTiles& rows = tiles_[static_cast<size_t>(cut.tiles)];
  const int first = static_cast<int>(item) * cut.panels_per_item;
  const int last = std::min(first + cut.panels_per_item, weight.panels());
  if (rows.tiles() > 1) return run_blocked(cut, first, last, thread);
  run_thin(*cut.product, rows, panels_at(weight, first, last - first, 0));
}

// One tile of rows: the weights are read once and decide the time.
void Matmul::run_thin(const Product& product, const RowTiles& rows, Panels panels) const {
  MatmulTile tile;
  tile.x = rows.at(0, 0);
  tile.x_stride = product.out.rows;
  tile.inputs = product.weight->inputs();
  tile.rows = product.out.rows;
  tile.out = product.out.data + (product.out.cols - panels.columns);
  tile.out_stride = product.out.stride;
  run_panels(panels, tile, kernel_for(*product.weight));
}

// Many rows: the arithmetic decides. A thread takes a few panels, and goes through the inputs in blocks, and through
// all rows for each.
void Matmul::run_blocked(const Cut& cut, int first, int last, int thread) const {
  const PanelWeight& weight = *cut.product->weight;
  const MatmulKernel& kernel = kernel_for(weight);
  const RowTiles& rows = tiles_[static_cast<size_t>(cut.tiles)];
  const Matrix out = cut.product->out;
  const int inputs = weight.inputs();
  const int tile_rows = rows.rows();
  const int tiles = static_cast<int>(rows.tiles());
  const int at_once = kernel.panels_at_once[tile_rows];
  for (int k = 0; k < inputs; k += kInputBlock) {
    MatmulTile tile;
    tile.inputs = std::min(kInputBlock, inputs - k);
    tile.x_stride = tile_rows;
    tile.out_stride = out.stride;
    tile.resume = k > 0;
    for (int panel = first; panel < last; panel += at_once) {
      Panels panels = panels_at(weight, panel, std::min(at_once, last - panel), k);
      if (tiles >= kWorthSpreading) panels = spread(kernel, panels, tile.inputs, thread);
      const bool asks = is_int8(kernel.form) && tiles < kWorthSpreading && panel + at_once < last;
      const auto block = static_cast<int>(weight.at(0, k + tile.inputs) - weight.at(0, k));
      tile.ahead_step = asks ? block / (tile.inputs / kInt8Block * tiles) + 1 : 0;
      tile.ahead = panels.first + at_once * panels.bytes;
      for (int row = 0; row < out.rows; row += tile_rows) {
        tile.x = rows.at(row, k);
        tile.rows = std::min(tile_rows, out.rows - row);
        tile.out = out.row(row) + static_cast<std::ptrdiff_t>(panel) * kLanes;
        ask_for_outputs(out, row + tile_rows, std::min(row + 2 * tile_rows, out.rows), panel, panels.count);
        run_panels(panels, tile, kernel);
        tile.ahead += tile.inputs / kInt8Block * tile.ahead_step;
      }
    }
  }
}

Matmul::Panels Matmul::panels_at(const PanelWeight& weight, int first, int count, int input) const {
  const std::int64_t bytes = weight.panel_bytes();
  return {weight.at(0, input) + first * bytes, bytes, kernel_for(weight).tile, count,
          weight.outputs() - first * kLanes};
}

void Matmul::make_room_to_spread(const MatmulKernel& kernel, int panels) {
  if (kernel.spread.spread == nullptr) return;
  spread_bytes_ = std::max(spread_bytes_, panels * kernel.spread.groups.bytes_for(kInputBlock));
  const auto bytes = static_cast<size_t>(pool_.threads() * spread_bytes_);
  if (spread_.bytes() < bytes) spread_ = allocate_host(bytes);
}

Matmul::Panels Matmul::spread(const MatmulKernel& kernel, const Panels& panels, int inputs, int thread) const {
  if (kernel.spread.spread == nullptr) return panels;
  std::byte* to = spread_.as<std::byte>() + thread * spread_bytes_;
  const std::int64_t bytes = kernel.spread.groups.bytes_for(inputs);
  for (int i = 0; i < panels.count; ++i)
    kernel.spread.spread(panels.first + i * panels.bytes, inputs, to + i * bytes);
  return {to, bytes, kernel.spread.tile, panels.count, panels.columns};
}

// Runs `tile`, set up for the first one, over all panels: as many at once as the kernel takes.
void Matmul::run_panels(const Panels& panels, MatmulTile tile, const MatmulKernel& kernel) {
  const int at_once = kernel.panels_at_once[tile.rows];
  float* out = tile.out;
  tile.panel_bytes = panels.bytes;
  for (int panel = 0; panel < panels.count; panel += tile.panels) {
    tile.panels = panels.count - panel >= at_once ? at_once : 1;
    tile.weights = panels.first + panel * panels.bytes;
    tile.out = out + static_cast<std::ptrdiff_t>(panel) * kLanes;
    tile.columns = panels.columns - panel * kLanes;
    panels.tile(tile);
  }
}

}  // namespace kvasir::cpu
