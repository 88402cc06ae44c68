// The matrix product: cutting it into register tiles, and sharing those between threads.
#pragma once

#include "backend/cpu/cpu_weight.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/row_tiles.h"
#include "base/thread_pool.h"

namespace kvasir::cpu {

class Matmul {
 public:
  Matmul(Isa isa, ActivationPrecision activations, ThreadPool& pool)
      : kernels_(matmul_kernels(isa, activations)), pool_(pool), x_(row_kernels(isa)) {}

  void run(const PanelWeight& weight, Matrix x, Matrix out);

 private:
  const MatmulKernel& kernel_for(const PanelWeight& weight) const {
    return kernels_[static_cast<size_t>(weight.dtype)];
  }
  void run_thin(const PanelWeight& weight, const std::byte* x, Matrix out);
  void run_blocked(const PanelWeight& weight, Matrix out);
  // Panels in memory, one behind the other, and the kernel that reads them there.
  struct Panels {
    const std::byte* first = nullptr;
    std::int64_t bytes = 0;
    void (*tile)(const MatmulTile&) = nullptr;
    int count = 0;
    int columns = 0;  // valid outputs from the first on
  };
  Panels panels_at(const PanelWeight& weight, int first, int count, int input) const;
  void make_room_to_spread(const MatmulKernel& kernel, int panels);
  // The same, spread in the thread's room, where there is a kernel for that.
  Panels spread(const MatmulKernel& kernel, const Panels& panels, int inputs, int thread) const;
  static void run_panels(const Panels& panels, MatmulTile tile, const MatmulKernel& kernel);

  MatmulKernels kernels_;
  ThreadPool& pool_;
  RowTiles x_;
  Buffer spread_;  // [threads][spread_bytes_]: panels of a block of inputs, as many as a tile takes at once
  std::int64_t spread_bytes_ = 0;
};

}  // namespace kvasir::cpu
