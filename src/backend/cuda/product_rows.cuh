// What a kernel leaves of a row for the product behind it.
#pragma once

#include "backend/cuda/convert_rows.h"
#include "backend/cuda/numbers.cuh"

namespace kvasir::cuda {

// A row of one type of numbers.
template <class T>
struct NumbersRow {
  T* at;

  __device__ void put(int column, float value) const { at[column] = to_number(value, T()); }
  // Columns [column, column + 2). REQUIRES: column is even.
  __device__ void put(int column, float2 values) const {
    const T two[2] = {to_number(values.x, T()), to_number(values.y, T())};
    *reinterpret_cast<std::uint32_t*>(at + column) = *reinterpret_cast<const std::uint32_t*>(two);
  }
};

// Row `row` of the room, if there is room.
struct ProductRow {
  const RowsRoom& room;
  std::int64_t row;

  // visitor(NumbersRow), if there is room: what numbers they are is asked once for all of them.
  template <class Visit>
  __device__ void visit(const Visit& visitor) const {
    if (room.to == nullptr) return;
    if (room.number == Number::kF16) {
      visitor(NumbersRow<__half>{static_cast<__half*>(room.to) + row * room.ld});
    } else {
      visitor(NumbersRow<__nv_bfloat16>{static_cast<__nv_bfloat16*>(room.to) + row * room.ld});
    }
  }
  __device__ void put(int column, float value) const {
    visit([&](auto numbers) { numbers.put(column, value); });
  }
  // Zeros behind the last of `columns`, by `threads` threads of which this is number `thread`.
  __device__ void pad(int columns, int thread, int threads) const {
    if (room.to == nullptr) return;
    for (int column = columns + thread; column < room.ld; column += threads) put(column, 0.0F);
  }
};

}  // namespace kvasir::cuda
