// The matrix product: cutting it into register tiles, and sharing those between threads.
#pragma once

#include "backend/cpu/cpu_weight.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/row_tiles.h"
#include "base/thread_pool.h"

namespace kvasir::cpu {

class Matmul {
 public:
  Matmul(Isa isa, Activations activations, ThreadPool& pool)
      : kernels_(matmul_kernels(isa, activations)), pool_(pool), x_(row_kernels(isa).quantize) {}

  void run(const PanelWeight& weight, Matrix x, Matrix out);

 private:
  const MatmulKernel& kernel_for(const PanelWeight& weight) const {
    return kernels_[static_cast<size_t>(weight.dtype)];
  }
  void run_thin(const PanelWeight& weight, const std::byte* x, Matrix out);
  void run_blocked(const PanelWeight& weight, Matrix out);
  void panels(const PanelWeight& weight, MatmulTile tile, int first, int count) const;

  MatmulKernels kernels_;
  ThreadPool& pool_;
  RowTiles x_;
};

}  // namespace kvasir::cpu
