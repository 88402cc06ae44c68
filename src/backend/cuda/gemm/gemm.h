// The arguments of a GEMM kernel: out[r][o] = sum over k of x[r][k] w[o][k], plus bias[o].
//
// The arithmetic of bf16 and f16: each output has one float32 accumulator that starts at +0, to which tensor cores
// add k in ascending steps of 16; the bias is added to the sum. There is no split-K, so an output's bits depend on
// its row and its weights alone. mma.sync, wgmma and the algorithms of cuBLASLt without split-K were measured to give
// the same bits on the H200, whichever operand the weights are.
//
// With has_swiglu() the outputs are gates and as many ups, and silu(gate) * up is wanted. Both are rounded to bf16
// first, so that they may be stored as bf16 in between.
#pragma once

#include <cstdint>

namespace kvasir::cuda {

enum class Number : std::uint8_t { kBF16, kF16, kF32 };

constexpr std::int64_t bytes_of(Number number) { return number == Number::kF32 ? 4 : 2; }

// Rows of 16-bit operands are padded with zeros to multiples of this: 16 bytes, the unit of copies.
inline constexpr int kPadding = 8;

constexpr int padded(int inputs) { return (inputs + kPadding - 1) / kPadding * kPadding; }

// Invariants: x and w hold `number`s, rows ld_x and ld_w elements apart, aligned to 16 bytes; inputs, ld_x and ld_w
// are multiples of kPadding (4 for kF32). out is float32 of any stride. With swiglu_out it is not used, number is
// kBF16, there is no bias, outputs are even and ld_swiglu is padded(outputs / 2).
struct GemmArgs {
  const void* w = nullptr;  // [outputs][inputs]
  const void* x = nullptr;  // [rows][inputs]
  const float* bias = nullptr;
  float* out = nullptr;  // [rows][outputs]
  std::int64_t ld_w = 0;
  std::int64_t ld_x = 0;
  std::int64_t ld_out = 0;
  int rows = 0;
  int outputs = 0;
  int inputs = 0;
  Number number = Number::kBF16;
  void* swiglu_out = nullptr;  // [rows][outputs / 2] of bf16, ld_swiglu apart, zero-padded
  std::int64_t ld_swiglu = 0;
  void* gate_up_out = nullptr;  // [rows][outputs] of bf16, ld_out apart: for kernels without a SwiGLU epilogue

  constexpr bool has_swiglu() const { return swiglu_out != nullptr; }
};

}  // namespace kvasir::cuda
