// Rows of activations as the register tiles read them.
//
// A tile is stored by input: the kernel then reads its rows' next numbers side by side, where whole rows a power of
// two apart would fight for the same lines of the cache.
#pragma once

#include "backend/buffer.h"
#include "backend/cpu/kernels.h"
#include "backend/tensor.h"
#include "base/thread_pool.h"

namespace kvasir::cpu {

class RowTiles {
 public:
  explicit RowTiles(const RowKernels& kernels) : kernels_(kernels) {}

  // Takes x over in the kernel's form, as few tiles of rows as it can take at once, all of a size, the last aside.
  // Valid until the next call.
  void pack(Matrix x, const MatmulKernel& kernel, ThreadPool& pool);

  int rows() const { return tile_rows_; }  // of a tile
  // Tile of the row `row`, from input `input` on, which is the first of a group: [inputs / group][rows()][group].
  const std::byte* at(int row, int input) const {
    return memory_.as<std::byte>() + row * row_bytes_ + tile_rows_ * row_groups(form_).bytes_for(input);
  }

 private:
  void pack_row(const float* from, int count, int row, std::byte* tile) const;

  RowKernels kernels_;
  RowForm form_ = RowForm::kF32;
  int zero_ = 0;
  int tile_rows_ = 0;
  std::int64_t row_bytes_ = 0;
  Buffer memory_;  // [tiles][inputs / group][rows of a tile][group]; grows to the largest batch and stays
};

}  // namespace kvasir::cpu
