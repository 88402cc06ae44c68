// How a kernel's epilogue writes a row into the next GEMM's input.
#pragma once

#include "backend/cuda/arch/numbers.cuh"
#include "backend/cuda/ops/cast_rows.h"

namespace kvasir::cuda {

// A row of one number type.
template <class T>
struct CastRow {
  T* at;

  __device__ void put(int column, float value) const { at[column] = to_number(value, T()); }
  // Columns [column, column + 2). REQUIRES: column is even.
  __device__ void put(int column, float2 values) const {
    const T two[2] = {to_number(values.x, T()), to_number(values.y, T())};
    *reinterpret_cast<std::uint32_t*>(at + column) = *reinterpret_cast<const std::uint32_t*>(two);
  }
};

// Row `row` of the input, if it is wanted.
struct GemmInputRow {
  const GemmInput& input;
  std::int64_t row;

  // Calls visitor(CastRow) if the input is wanted, with one branch over number types for all columns.
  template <class Visit>
  __device__ void visit(const Visit& visitor) const {
    if (input.to == nullptr) return;
    if (input.number == Number::kF16) {
      visitor(CastRow<__half>{static_cast<__half*>(input.to) + row * input.ld});
    } else {
      visitor(CastRow<__nv_bfloat16>{static_cast<__nv_bfloat16*>(input.to) + row * input.ld});
    }
  }
  __device__ void put(int column, float value) const {
    visit([&](auto numbers) { numbers.put(column, value); });
  }
  // Zeros from `columns` to ld, by `threads` threads of which this is number `thread`.
  __device__ void pad(int columns, int thread, int threads) const {
    if (input.to == nullptr) return;
    for (int column = columns + thread; column < input.ld; column += threads) put(column, 0.0F);
  }
};

}  // namespace kvasir::cuda
