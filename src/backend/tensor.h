// Plain views of numbers: shapes beside pointers, no ownership.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/weight_quantization.h"
#include "backend/weight_type.h"

namespace kvasir {

// ActivationPrecision: [rows][cols] float32, rows `stride` floats apart, in the backend's memory.
struct Matrix {
  float* data = nullptr;
  int rows = 0;
  int cols = 0;
  std::int64_t stride = 0;

  float* row(int r) const { return data + r * stride; }
  // The same rows, columns [first, first + count).
  Matrix columns(int first, int count) const { return {data + first, rows, count, stride}; }
  Matrix first_rows(int count) const { return {data, count, cols, stride}; }

  friend bool operator==(const Matrix&, const Matrix&) = default;
};

// A weight in host memory, as it lies in its file: [rows][cols], row after row, perhaps not aligned.
struct HostWeight {
  std::span<const std::byte> bytes;
  DType dtype = DType::kF32;
  int rows = 0;
  int cols = 0;
  WeightQuantization form = WeightQuantization::kAsStored;  // what a backend shall make of it
};

}  // namespace kvasir
