// Plain views of numbers: shapes beside pointers, no ownership.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace kvasir {

// Types of weights on disk and in memory. Activations are always float32.
enum class DType : std::uint8_t { kF32, kF16, kBF16 };

constexpr size_t bytes_of(DType type) { return type == DType::kF32 ? 4 : 2; }
constexpr std::string_view name_of(DType type) {
  return type == DType::kF32 ? "f32" : type == DType::kF16 ? "f16" : "bf16";
}

// Activations: [rows][cols] float32, rows `stride` floats apart, in the backend's memory.
struct Matrix {
  float* data = nullptr;
  int rows = 0;
  int cols = 0;
  std::int64_t stride = 0;

  float* row(int r) const { return data + r * stride; }
  // The same rows, columns [first, first + count).
  Matrix columns(int first, int count) const { return {data + first, rows, count, stride}; }
  Matrix first_rows(int count) const { return {data, count, cols, stride}; }
};

// A weight in host memory, as it lies in its file: [rows][cols], row after row, perhaps not aligned.
struct HostWeight {
  std::span<const std::byte> bytes;
  DType dtype = DType::kF32;
  int rows = 0;
  int cols = 0;
};

}  // namespace kvasir
