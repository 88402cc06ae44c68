// A matrix product on the device as its kernels see it: out[r][o] = sum over k of x[r][k] w[o][k], and bias[o].
//
// The canonical arithmetic of bf16 and f16 products: each output has one float32 accumulator that starts at +0 and to
// which tensor cores add k in ascending steps of 16; the bias is added to the finished sum. A sum is never cut into
// parts (no split-K), so an output's bits depend on its row and its weights alone. mma.sync, wgmma and those
// algorithms of cuBLASLt that do not split sums were measured to give the same bits on the H200, whichever operand
// the weights are.
//
// Outputs may be gates and as many ups, of which silu(gate) * up is wanted: each is rounded to bf16 first, so that
// they may lie in memory as such in between.
#pragma once

#include <cstdint>

namespace kvasir::cuda {

enum class Number : std::uint8_t { kBF16, kF16, kF32 };

constexpr std::int64_t bytes_of(Number number) { return number == Number::kF32 ? 4 : 2; }

// Rows of 16-bit operands are padded to this many elements with zeros: 16 bytes, what copies move at once.
inline constexpr int kPadding = 8;

constexpr int padded(int inputs) { return (inputs + kPadding - 1) / kPadding * kPadding; }

// Invariants: x and w hold `number`s, rows ld_x and ld_w elements apart, aligned to 16 bytes, inputs, ld_x and ld_w
// multiples of kPadding (of 4 for kF32). out holds float32 of any stride; where there is gated_out, it is not looked
// at, number is kBF16, there is no bias, outputs are even and ld_gated is padded(outputs / 2).
struct Product {
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
  void* gated_out = nullptr;  // [rows][outputs / 2] of bf16, ld_gated apart, zeros behind them
  std::int64_t ld_gated = 0;
  void* rounded_out = nullptr;  // [rows][outputs] of bf16, ld_out apart: for kernels that cannot gate

  constexpr bool gates() const { return gated_out != nullptr; }
};

}  // namespace kvasir::cuda
