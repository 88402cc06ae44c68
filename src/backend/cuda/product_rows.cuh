// What a kernel leaves of a row for the product behind it.
#pragma once

#include "backend/cuda/convert_rows.h"
#include "backend/cuda/numbers.cuh"

namespace kvasir::cuda {

// Row `row` of the room, if there is room.
struct ProductRow {
  const RowsRoom& room;
  std::int64_t row;

  __device__ void put(int column, float value) const {
    if (room.to == nullptr) return;
    const std::int64_t at = row * room.ld + column;
    if (room.number == Number::kF16) {
      static_cast<__half*>(room.to)[at] = to_number(value, __half());
    } else {
      static_cast<__nv_bfloat16*>(room.to)[at] = to_number(value, __nv_bfloat16());
    }
  }
  // Columns [column, column + 2). REQUIRES: column is even.
  __device__ void put(int column, float2 values) const {
    if (room.to == nullptr) return;
    const std::int64_t at = row * room.ld + column;
    if (room.number == Number::kF16) {
      *reinterpret_cast<__half2*>(static_cast<__half*>(room.to) + at) = {to_number(values.x, __half()),
                                                                         to_number(values.y, __half())};
    } else {
      *reinterpret_cast<__nv_bfloat162*>(static_cast<__nv_bfloat16*>(room.to) + at) = {
          to_number(values.x, __nv_bfloat16()), to_number(values.y, __nv_bfloat16())};
    }
  }
  // Zeros behind the last of `columns`, by `threads` threads of which this is number `thread`.
  __device__ void pad(int columns, int thread, int threads) const {
    if (room.to == nullptr) return;
    for (int column = columns + thread; column < room.ld; column += threads) put(column, 0.0F);
  }
};

}  // namespace kvasir::cuda
