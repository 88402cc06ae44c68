// Register tiles of the matrix product, written with Highway. Lane = output: no sum ever crosses lanes, so neither
// the vector width nor the number of rows can change a bit.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/matmul_kernels.cpp"
#include <hwy/foreach_target.h>
// After foreach_target, which re-includes this file once per target.
#include <hwy/highway.h>

#include <bit>
#include <utility>

#include "backend/cpu/kernels.h"
#include "backend/cpu/lanes-inl.h"
#include "backend/cpu/quant_panels.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir::cpu::HWY_NAMESPACE {

// How many panels a tile of R rows reads at once: as many as accumulators fit into registers, since each panel is a
// stream of its own and many streams read memory faster than one.
constexpr int panels_for(int rows) {
  if (kParts == 1) return rows <= 2 ? 8 : rows == 3 ? 6 : rows <= 6 ? 4 : rows <= 8 ? 3 : 2;
  if (kParts == 2) return rows == 1 ? 4 : rows == 2 ? 2 : 1;
  return 1;
}
inline constexpr int kRowTile = kParts == 1 ? 12 : kParts == 2 ? 6 : 4;

// sums += x * w, for R rows that lie side by side and P panels.
template <int R, int P>
HWY_INLINE void multiply(const float* x, const Lanes (&w)[P], TileSums<R, P>& sums) {
  for (int r = 0; r < R; ++r) {
    const Lanes value = broadcast(x[r]);
    for (int p = 0; p < P; ++p) sums.at[r][p] = fma(value, w[p], sums.at[r][p]);
  }
}

// One input at a time: f32 and f16.
template <class T>
struct Singles {
  template <int R, int P>
  static void run(const MatmulTile& t) {
    TileSums<R, P> sums(t);
    const std::byte* weights = t.weights;
    const auto* x = reinterpret_cast<const float*>(t.x);
    for (int k = 0; k < t.inputs; ++k, weights += kLanes * sizeof(T), x += t.x_stride) {
      Lanes w[P];
      for (int p = 0; p < P; ++p) w[p] = load(reinterpret_cast<const T*>(weights + p * t.panel_bytes));
      multiply(x, w, sums);
    }
    sums.store(t);
  }
};

// Codes of e4m3 in blocks of 32 inputs: [16 scales][32][16 codes]. They are what the float32 numbers would be that
// code and scale make.
struct Fp8Blocks {
  static constexpr QuantPanel kPanel = quant_panel(DType::kFp8x32);

  static HWY_INLINE Lanes load_codes(const std::byte* codes) {
#if HWY_TARGET == HWY_SCALAR
    Lanes out;  // on no way through numbers that are not normal: those count as zero here
    for (int i = 0; i < kLanes; ++i) {
      const auto magnitude = std::to_integer<std::uint32_t>(codes[i] & std::byte{0x7f});
      const float value = magnitude < 8 ? static_cast<float>(magnitude) * 0x1p-9F
                                        : std::bit_cast<float>((magnitude << 20) + (120U << 23));
      out.part[i] = FloatVec((codes[i] & std::byte{0x80}) != std::byte{0} ? -value : value);
    }
    return out;
#else
    return load(reinterpret_cast<const Fp8E4M3*>(codes));
#endif
  }
  static HWY_INLINE Lanes weights_at(const std::byte* block, int input, const Lanes& scale) {
    return mul(load_codes(block + kPanel.scale_bytes() + input * kLanes), scale);
  }

  template <int R, int P>
  static void run(const MatmulTile& t) {
    TileSums<R, P> sums(t);
    const std::byte* block = t.weights;
    const auto* x = reinterpret_cast<const float*>(t.x);
    for (int k = 0; k < t.inputs; k += kPart32, block += kPanel.group_bytes()) {
      Lanes scales[P];
      for (int p = 0; p < P; ++p) scales[p] = load(reinterpret_cast<const float*>(block + p * t.panel_bytes));
      for (int i = 0; i < kPart32; ++i, x += t.x_stride) {
        Lanes w[P];
        for (int p = 0; p < P; ++p) w[p] = weights_at(block + p * t.panel_bytes, i, scales[p]);
        multiply(x, w, sums);
      }
    }
    sums.store(t);
  }

  // As a panel of float32.
  static void spread(const std::byte* panel, int inputs, std::byte* to) {
    auto* out = reinterpret_cast<float*>(to);
    for (int k = 0; k < inputs; k += kPart32, panel += kPanel.group_bytes()) {
      const Lanes scale = load(reinterpret_cast<const float*>(panel));
      for (int i = 0; i < kPart32; ++i, out += kLanes) store(weights_at(panel, i, scale), out);
    }
  }
};

// The two bf16 in each of 16 words, as floats.
HWY_INLINE void load_pair(const std::byte* from, Lanes& even, Lanes& odd) {
  const hn::RebindToUnsigned<FloatTag> u32;
  for (int i = 0; i < kParts; ++i) {
    const auto words = hn::LoadU(u32, reinterpret_cast<const std::uint32_t*>(from) + i * kPart);
    even.part[i] = hn::BitCast(FloatTag(), hn::ShiftLeft<16>(words));
    odd.part[i] = hn::BitCast(FloatTag(), hn::And(words, hn::Set(u32, 0xffff0000U)));
  }
}

// Pairs of bf16, in the order of the hardware's dot products.
struct Pairs {
  template <int R, int P>
  static void run(const MatmulTile& t) {
    TileSums<R, P> sums(t);
    const std::byte* weights = t.weights;
    const auto* x = reinterpret_cast<const float*>(t.x);
    for (int k = 0; k < t.inputs; k += 2, weights += kLanes * sizeof(std::uint32_t), x += 2 * t.x_stride) {
      Lanes even[P];
      Lanes odd[P];
      for (int p = 0; p < P; ++p) load_pair(weights + p * t.panel_bytes, even[p], odd[p]);
      multiply(x + t.x_stride, odd, sums);
      multiply(x, even, sums);
    }
    sums.store(t);
  }
};

template <class Kind, int... R>
void run_rows(const MatmulTile& t, std::integer_sequence<int, R...>) {
  using Run = void (*)(const MatmulTile&);
  static constexpr Run kOne[] = {&Kind::template run<R + 1, 1>...};
  static constexpr Run kMany[] = {&Kind::template run<R + 1, panels_for(R + 1)>...};
  (t.panels == 1 ? kOne : kMany)[t.rows - 1](t);
}

template <class Kind>
void tile(const MatmulTile& t) {
  run_rows<Kind>(t, std::make_integer_sequence<int, kRowTile>());
}

template <class Kind>
MatmulKernel kernel(RowForm form) {
  MatmulKernel out{&tile<Kind>, form, kRowTile, {}};
  for (int rows = 1; rows <= kRowTile; ++rows) out.panels_at_once[rows] = panels_for(rows);
  return out;
}

MatmulKernels matmul_table() {
  MatmulKernels table;
  table[static_cast<size_t>(DType::kF32)] = kernel<Singles<float>>(RowForm::kF32);
  table[static_cast<size_t>(DType::kF16)] = kernel<Singles<hwy::float16_t>>(RowForm::kF32);
  table[static_cast<size_t>(DType::kBF16)] = kernel<Pairs>(RowForm::kRoundedF32);
  MatmulKernel& fp8 = table[static_cast<size_t>(DType::kFp8x32)];
  fp8 = kernel<Fp8Blocks>(RowForm::kF32);
  fp8.spread = {{1, kLanes * sizeof(float)}, &Fp8Blocks::spread, &tile<Singles<float>>};
  return table;
}

}  // namespace kvasir::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/dot_kernels.h"
#include "backend/cpu/targets.h"

namespace kvasir::cpu {
namespace {

MatmulKernels plain_kernels(Isa isa) { KVASIR_CHOOSE(isa, matmul_table); }

}  // namespace

MatmulKernels matmul_kernels(Isa isa, ActivationPrecision activations) {
  MatmulKernels table = quant_kernels(isa);
  const MatmulKernels plain = plain_kernels(isa);
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kFp8x32}) {
    table[static_cast<size_t>(type)] = plain[static_cast<size_t>(type)];
  }
  MatmulKernel& bf16 = table[static_cast<size_t>(DType::kBF16)];
  if (activations == ActivationPrecision::kF32) {
    bf16.form = RowForm::kEvenF32;
  } else if (isa == Isa::kAvx512Dot && has_bf16_dots()) {
    bf16 = bf16_dot_kernel();
  }
  return table;
}

}  // namespace kvasir::cpu
#endif
