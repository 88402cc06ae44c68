// Rows of activations as the register tiles read them.
//
// A tile is stored by input: the kernel then reads its rows' next numbers side by side, where whole rows a power of
// two apart would fight for the same lines of the cache.
#pragma once

#include <span>

#include "backend/cpu/kernels.h"
#include "backend/tensor.h"

namespace kvasir::cpu {

// Rows of x, in any order.
struct SomeRows {
  Matrix x;
  std::span<const int> of;  // none: all of them, as they are

  int count() const { return of.empty() ? x.rows : static_cast<int>(of.size()); }
  const float* row(int r) const { return x.row(of.empty() ? r : of[static_cast<size_t>(r)]); }
  bool same_as(const SomeRows& other) const {
    return x == other.x && of.data() == other.of.data() && of.size() == other.of.size();
  }
};

class RowTiles {
 public:
  explicit RowTiles(const RowKernels& kernels) : kernels_(kernels) {}

  // Rows that will be taken over in the kernel's form, in as few tiles as it can take at once, all of a size, the
  // last aside. Nobody reads them before they have a place, and each item is packed.
  void plan(const SomeRows& rows, const MatmulKernel& kernel);
  bool holds(const SomeRows& rows, const MatmulKernel& kernel) const {
    return rows_.same_as(rows) && form_ == kernel.form && zero_ == kernel.zero && row_tile_ == kernel.row_tile;
  }
  std::int64_t bytes() const { return as_they_are_ ? 0 : tiles() * tile_rows_ * row_bytes_; }
  void place(std::byte* memory) {
    memory_ = memory;
    first_ = as_they_are_ ? reinterpret_cast<const std::byte*>(rows_.row(0)) : memory;
  }

  std::int64_t items() const { return as_they_are_ ? 0 : tiles() * parts(); }
  void pack(std::int64_t item) const;

  int rows() const { return tile_rows_; }  // of a tile
  std::int64_t tiles() const { return (rows_.count() + tile_rows_ - 1) / tile_rows_; }
  // Tile of the row `row`, from input `input` on, which is the first of a group: [inputs / group][rows()][group].
  const std::byte* at(int row, int input) const {
    return first_ + row * row_bytes_ + tile_rows_ * row_groups(form_).bytes_for(input);
  }

 private:
  int parts() const;  // of a row
  void pack_row(const float* from, int count, int row, std::byte* tile) const;

  RowKernels kernels_;
  SomeRows rows_;
  RowForm form_ = RowForm::kF32;
  int zero_ = 0;
  int row_tile_ = 0;  // the kernel's
  int tile_rows_ = 1;
  bool as_they_are_ = false;  // one row of floats is its own tile
  std::int64_t row_bytes_ = 0;
  std::byte* memory_ = nullptr;
  const std::byte* first_ = nullptr;  // [tiles][inputs / group][rows of a tile][group]
};

}  // namespace kvasir::cpu
