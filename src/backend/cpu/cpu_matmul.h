// The matrix product: cutting it into register tiles, and sharing those between threads.
#pragma once

#include <span>
#include <vector>

#include "backend/buffer.h"
#include "backend/cpu/cpu_weight.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/row_tiles.h"
#include "base/thread_pool.h"

namespace kvasir::cpu {

// out = weight * rows.
struct Product {
  const PanelWeight* weight = nullptr;
  SomeRows rows;
  Matrix out;
};

class Matmul {
 public:
  Matmul(Isa isa, ActivationPrecision activations, ThreadPool& pool)
      : kernels_(matmul_kernels(isa, activations)), row_kernels_(row_kernels(isa)), pool_(pool) {}

  void run(const PanelWeight& weight, Matrix x, Matrix out);
  // None reads what another one writes. Threads share what there is to do of all of them: they wait for each other
  // once, and not behind each product. Neighbours that have the same rows take them over once.
  void run(std::span<const Product> products);

 private:
  // A product, cut into what a thread does at a time.
  struct Cut {
    const Product* product = nullptr;
    int tiles = 0;  // the place of its rows
    int panels_per_item = 0;
    std::int64_t first_item = 0;  // among those of all products

    std::int64_t items() const { return (product->weight->panels() + panels_per_item - 1) / panels_per_item; }
  };
  // Panels in memory, one behind the other, and the kernel that reads them there.
  struct Panels {
    const std::byte* first = nullptr;
    std::int64_t bytes = 0;
    void (*tile)(const MatmulTile&) = nullptr;
    int count = 0;
    int columns = 0;  // valid outputs from the first on
  };

  const MatmulKernel& kernel_for(const PanelWeight& weight) const {
    return kernels_[static_cast<size_t>(weight.dtype)];
  }
  void cut(const Product& product);
  int tiles_for(const Product& product);
  void pack_rows();
  void compute(const Cut& cut, std::int64_t item, int thread) const;
  void run_thin(const Product& product, const RowTiles& rows, Panels panels) const;
  void run_blocked(const Cut& cut, int first, int last, int thread) const;
  Panels panels_at(const PanelWeight& weight, int first, int count, int input) const;
  void make_room_to_spread(const MatmulKernel& kernel, int panels);
  // The same, spread in the thread's room, where there is a kernel for that.
  Panels spread(const MatmulKernel& kernel, const Panels& panels, int inputs, int thread) const;
  static void run_panels(const Panels& panels, MatmulTile tile, const MatmulKernel& kernel);

  MatmulKernels kernels_;
  RowKernels row_kernels_;
  ThreadPool& pool_;
  // Of the products at hand; what they hold grows to the largest batch and stays.
  std::vector<Cut> cuts_;
  std::vector<RowTiles> tiles_;
  int used_tiles_ = 0;
  Buffer rows_;
  Buffer spread_;  // [threads][spread_bytes_]: panels of a block of inputs, as many as a tile takes at once
  std::int64_t spread_bytes_ = 0;
};

}  // namespace kvasir::cpu
