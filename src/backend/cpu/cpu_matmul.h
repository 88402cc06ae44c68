// The matrix product: cutting it into register tiles, and sharing those between threads.
#pragma once

#include <memory>
#include <span>

#include "backend/buffer.h"
#include "backend/cpu/cpu_weight.h"
#include "backend/cpu/kernels.h"
#include "base/thread_pool.h"

namespace kvasir::cpu {

class Matmul {
 public:
  Matmul(Isa isa, ThreadPool& pool) : kernels_(matmul_kernels(isa)), pool_(pool) {}

  std::unique_ptr<PanelWeight> pack(std::span<const HostWeight> stacked);
  void run(const PanelWeight& weight, Matrix x, Matrix out);

 private:
  void run_thin(const PanelWeight& weight, const float* x, int rows, Matrix out);
  void run_blocked(const PanelWeight& weight, int tile_rows, Matrix out);
  void panels(const PanelWeight& weight, MatmulTile tile, int first, int count) const;
  int pack_rows(Matrix x);

  MatmulKernels kernels_;
  ThreadPool& pool_;
  Buffer packed_;  // x as [tiles][inputs][rows of a tile]; grows to the largest batch and stays
};

}  // namespace kvasir::cpu
