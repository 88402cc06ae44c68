// The kernels of quantized weights: which tiles each type has, and how its panels are spread for many rows.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/quant_kernels.cpp"
#include <hwy/foreach_target.h>
// After foreach_target, which re-includes this file once per target.
#include <hwy/highway.h>

#include <cstring>
#include <utility>

#include "backend/cpu/kernels.h"
#include "backend/cpu/quant_panels.h"
#include "backend/cpu/quant_tiles-inl.h"

KVASIR_BEFORE_DOTS();
namespace kvasir::cpu::HWY_NAMESPACE {

// Codes as bytes, all else as it was.
template <QuantPanel kPanel>
void spread_panel(const std::byte* panel, int inputs, std::byte* to) {
  constexpr QuantPanel kSpread = spread(kPanel);
  for (int k = 0; k < inputs;
       k += kPanel.group_inputs(), panel += kPanel.group_bytes(), to += kSpread.group_bytes()) {
    std::memcpy(to, panel, kPanel.header_bytes());
    for (int i = 0; i < kPanel.group_inputs() / kPart32; ++i) {
      const std::byte* part = panel + kPanel.header_bytes() + i * kPanel.part_bytes();
      std::byte* out = to + kSpread.header_bytes() + i * kSpread.part_bytes();
      std::memcpy(out, part, kPanel.scale_bytes());
      out += kSpread.scale_bytes();
      for (int quad = 0; quad < 8; ++quad) store_codes(load_quad<kPanel>(part, quad), out + quad * kLanes * kQuad);
    }
  }
}

// Panels are streams, and each number of a row is read once for all of them: as many as registers hold sums for.
constexpr int quant_panels_for(int rows) {
  if (kParts == 1) return rows == 1 ? 8 : rows <= 3 ? 4 : 2;
  return kParts == 2 && rows == 1 ? 4 : 1;
}
inline constexpr int kQuantRowTile = kParts == 1 ? 6 : kParts == 2 ? 4 : 2;

template <QuantPanel kPanel, int R, int P>
void run_tile(const MatmulTile& t) {
  if constexpr (kPanel.large) return GroupTile<kPanel, R, P>::run(t);
  if constexpr (!kPanel.large) return BlockTile<kPanel, R, P>::run(t);
}

template <QuantPanel kPanel, int... R>
void run_quant_rows(const MatmulTile& t, std::integer_sequence<int, R...>) {
  using Run = void (*)(const MatmulTile&);
  static constexpr Run kOne[] = {&run_tile<kPanel, R + 1, 1>...};
  static constexpr Run kMany[] = {&run_tile<kPanel, R + 1, quant_panels_for(R + 1)>...};
  (t.panels == 1 ? kOne : kMany)[t.rows - 1](t);
}

template <QuantPanel kPanel>
void quant_tile(const MatmulTile& t) {
  run_quant_rows<kPanel>(t, std::make_integer_sequence<int, kQuantRowTile>());
}

template <DType T>
MatmulKernel quant_kernel() {
  constexpr QuantPanel kPanel = quant_panel(T);
  constexpr RowForm kForm = !kPanel.large   ? RowForm::kInt8
                            : kPanel.halves ? RowForm::kInt8Halves
                                            : RowForm::kInt8Groups;
  MatmulKernel kernel{&quant_tile<kPanel>, kForm, kQuantRowTile, {}};
  kernel.zero = kPanel.zero == 128 && !kHasDots ? 0 : kPanel.zero;  // signed products need no correction
  if constexpr (kPanel.own_zero) kernel.zero = kOwnZeros;
  constexpr bool kFastAsItLies = kPanel.bits == 8 || (kPanel.bits == 4 && kPanel.levels == Levels::kNone);
  if constexpr (!kFastAsItLies) {
    constexpr QuantPanel kSpread = spread(kPanel);
    kernel.spread = {{kSpread.group_inputs(), kSpread.group_bytes()}, &spread_panel<kPanel>, &quant_tile<kSpread>};
  }
  for (int rows = 1; rows <= kQuantRowTile; ++rows) kernel.panels_at_once[rows] = quant_panels_for(rows);
  return kernel;
}

MatmulKernels quant_table() {
  MatmulKernels table;
  const auto put = [&table](DType type, const MatmulKernel& kernel) { table[static_cast<size_t>(type)] = kernel; };
  put(DType::kQ8_0, quant_kernel<DType::kQ8_0>());
  put(DType::kQ4_0, quant_kernel<DType::kQ4_0>());
  put(DType::kQ4_1, quant_kernel<DType::kQ4_1>());
  put(DType::kQ5_0, quant_kernel<DType::kQ5_0>());
  put(DType::kQ5_1, quant_kernel<DType::kQ5_1>());
  put(DType::kIQ4_NL, quant_kernel<DType::kIQ4_NL>());
  put(DType::kMXFP4, quant_kernel<DType::kMXFP4>());
  put(DType::kInt8x32, quant_kernel<DType::kInt8x32>());
  put(DType::kInt4x32, quant_kernel<DType::kInt4x32>());
  put(DType::kQ2_K, quant_kernel<DType::kQ2_K>());
  put(DType::kQ3_K, quant_kernel<DType::kQ3_K>());
  put(DType::kQ4_K, quant_kernel<DType::kQ4_K>());
  put(DType::kQ5_K, quant_kernel<DType::kQ5_K>());
  put(DType::kQ6_K, quant_kernel<DType::kQ6_K>());
  put(DType::kIQ4_XS, quant_kernel<DType::kIQ4_XS>());
  return table;
}

// `rounds` times 16 products of 16 outputs by 4 inputs, in registers.
float multiply_codes(std::int64_t rounds, float seed) {
  constexpr int kChains = kParts == 1 ? 16 : kParts == 2 ? 4 : 1;
  std::byte bytes[kLanes * kQuad];
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(seed * 8.0F);
  const Codes codes = load_codes(bytes);
  const auto quad = static_cast<std::int32_t>(seed * 16909320.0F);
  Ints sums[kChains];
  for (int c = 0; c < kChains; ++c) sums[c] = all(c);
  for (std::int64_t i = 0; i < rounds * 16 / kChains; ++i) {
    for (int c = 0; c < kChains; ++c) sums[c] = dot(sums[c], codes, quad);
  }
  float out = 0;
  for (int c = 0; c < kChains; ++c) out += sum_lanes(to_floats(sums[c]));
  return out;
}

LimitKernels quant_limits() { return {nullptr, &multiply_codes}; }

}  // namespace kvasir::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/targets.h"

namespace kvasir::cpu {

MatmulKernels quant_kernels(Isa isa) {
  if (isa == Isa::kAvx512Dot && has_int8_dots()) return N_AVX3_DL::quant_table();
  KVASIR_CHOOSE(isa, quant_table);
}

LimitKernels quant_limit_kernels(Isa isa) {
  if (isa == Isa::kAvx512Dot && has_int8_dots()) return N_AVX3_DL::quant_limits();
  KVASIR_CHOOSE(isa, quant_limits);
}

}  // namespace kvasir::cpu
#endif
