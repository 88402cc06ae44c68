// Register tiles of products with quantized weights. Within a part of 32 inputs a product is a sum of integers, exact
// in any order; parts are added in their order with fused multiply-adds. So no instruction set changes a bit.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/quant_kernels.cpp"
#include <hwy/foreach_target.h>
// After foreach_target, which re-includes this file once per target.
#include <hwy/highway.h>

#include <utility>

#include "backend/cpu/codes-inl.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/lanes-inl.h"
#include "backend/cpu/quant_panels.h"

// Highway's AVX3_DL implies the byte dot products, but does not ask the compiler for them.
#if HWY_TARGET == HWY_AVX3_DL
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
#else
HWY_BEFORE_NAMESPACE();
#endif
namespace kvasir::cpu::HWY_NAMESPACE {

inline constexpr int kCacheLine = 64;

template <DType T, int R, int P>
struct QuantTile {
  static constexpr QuantPanel kPanel = quant_panel(T);
  static constexpr bool kBytes = kPanel.bits == 8;
  static constexpr int kHalves = kPanel.halves ? 2 : 1;  // sums of integers with their own scales

  struct IntSums {
    Ints of[R][P][kHalves];

    HWY_INLINE void begin(const Int8Part* x) {
      for (int r = 0; r < R; ++r) {
        for (int p = 0; p < P; ++p) {
          if constexpr (kPanel.halves) {
            of[r][p][0] = all(x[r].first_start);
            of[r][p][1] = all(x[r].start - x[r].first_start);
          } else {
            of[r][p][0] = all(x[r].start);
          }
        }
      }
    }
  };

  TileSums<R, P> sums;
  Lanes d[P];  // of large types
  Lanes m[P];

  static HWY_INLINE Ints product(const Ints& sums, const Codes& codes, std::int32_t quad) {
    return kBytes ? dot_signed(sums, codes, quad) : dot(sums, codes, quad);
  }

  HWY_INLINE void read_header(const std::byte* group, std::int64_t panel_bytes) {
    for (int p = 0; p < P; ++p) {
      d[p] = load_halves(group + p * panel_bytes);
      if constexpr (kPanel.has_min) m[p] = load_halves(group + p * panel_bytes + 2 * kLanes);
    }
  }

  // The scale of panel p's outputs in one half of the part.
  HWY_INLINE Lanes scale_of(const std::byte* part, int p, int half) const {
    if constexpr (!kPanel.large) return load_halves(part);
    if constexpr (kPanel.halves) return mul(d[p], load_bytes<std::int8_t>(part + half * kLanes));
    return mul(d[p], load_bytes<std::uint8_t>(part));
  }
  // What is added for each unit of the row's scaled sum.
  HWY_INLINE Lanes offset_of(const std::byte* part, int p) const {
    if constexpr (!kPanel.large) return load_halves(part + 2 * kLanes);
    return sub(broadcast(0.0F), mul(m[p], load_bytes<std::uint8_t>(part + kLanes)));
  }

  // Bytes: one vector of codes of each panel, for all rows.
  static HWY_INLINE void multiply_bytes(const std::byte* codes, std::int64_t panel_bytes, int quad, const Int8Part* x,
                                        IntSums& ints) {
    Codes w[P];
    for (int p = 0; p < P; ++p) w[p] = load_codes(codes + p * panel_bytes + quad * kLanes * kQuad);
    for (int r = 0; r < R; ++r) {
      for (int p = 0; p < P; ++p) ints.of[r][p][0] = product(ints.of[r][p][0], w[p], x[r].quads[quad]);
    }
  }

  // Nibbles, and the planes above them: quads `quad` and quad + 4.
  static HWY_INLINE void load_nibbles(const std::byte* part, int quad, Codes& low, Codes& high) {
    const std::byte* planes = part + kPanel.scale_bytes();
    const Codes raw = load_codes(planes + kPanel.plane_bytes() + quad * kLanes * kQuad);
    low = unpack<4, 0>(raw);
    high = unpack<4, 1>(raw);
    for (int plane = 0; plane < kPanel.planes(); ++plane) {
      low = with_plane(low, planes + plane * 64 + quad * 8, 16 << plane);
      high = with_plane(high, planes + plane * 64 + (quad + 4) * 8, 16 << plane);
    }
  }

  static HWY_INLINE void multiply_nibbles(const std::byte* part, std::int64_t panel_bytes, int quad,
                                          const Int8Part* x, IntSums& ints) {
    Codes low[P];
    Codes high[P];
    for (int p = 0; p < P; ++p) load_nibbles(part + p * panel_bytes, quad, low[p], high[p]);
    for (int r = 0; r < R; ++r) {
      for (int p = 0; p < P; ++p) {
        ints.of[r][p][0] = product(ints.of[r][p][0], low[p], x[r].quads[quad]);
        ints.of[r][p][kHalves - 1] = product(ints.of[r][p][kHalves - 1], high[p], x[r].quads[quad + 4]);
      }
    }
  }

  HWY_INLINE void add_part(const std::byte* part, std::int64_t panel_bytes, const Int8Part* x) {
    IntSums ints;
    ints.begin(x);
    if constexpr (kBytes) {
      const std::byte* codes = part + kPanel.scale_bytes();
      HWY_UNROLL(8) for (int quad = 0; quad < 8; ++quad) multiply_bytes(codes, panel_bytes, quad, x, ints);
    } else {
      HWY_UNROLL(4) for (int quad = 0; quad < 4; ++quad) multiply_nibbles(part, panel_bytes, quad, x, ints);
    }
    for (int p = 0; p < P; ++p) scale_panel(part + p * panel_bytes, p, x, ints);
  }

  HWY_INLINE void scale_panel(const std::byte* part, int p, const Int8Part* x, const IntSums& ints) {
    for (int half = 0; half < kHalves; ++half) {
      const Lanes scale = scale_of(part, p, half);
      for (int r = 0; r < R; ++r) {
        const Lanes both = mul(scale, broadcast(x[r].scale));
        sums.at[r][p] = fma(to_floats(ints.of[r][p][half]), both, sums.at[r][p]);
      }
    }
    if constexpr (kPanel.has_min) {
      const Lanes offset = offset_of(part, p);
      for (int r = 0; r < R; ++r) sums.at[r][p] = fma(offset, broadcast(x[r].scaled_sum), sums.at[r][p]);
    }
  }

  // Into the second-level cache.
  static HWY_INLINE void ask_for(const MatmulTile& t, const std::byte* ahead) {
    for (int line = 0; line < t.ahead_step; line += kCacheLine) {
      for (int p = 0; p < P; ++p) __builtin_prefetch(ahead + p * t.panel_bytes + line, 0, 2);
    }
  }

  HWY_INLINE explicit QuantTile(const MatmulTile& t) : sums(t) {}

  static void run(const MatmulTile& t) {
    QuantTile tile(t);
    const std::byte* group = t.weights;
    const auto* x = reinterpret_cast<const Int8Part*>(t.x);
    const std::byte* ahead = t.ahead;
    for (int k = 0; k < t.inputs; k += kPanel.group_inputs(), group += kPanel.group_bytes()) {
      if constexpr (kPanel.large) tile.read_header(group, t.panel_bytes);
      const std::byte* part = group + kPanel.header_bytes();
      for (int i = 0; i < kPanel.group_inputs() / kPart32; ++i, part += kPanel.part_bytes(), x += t.x_stride) {
        tile.add_part(part, t.panel_bytes, x);
        ask_for(t, ahead);
        ahead += t.ahead_step;
      }
    }
    tile.sums.store(t);
  }
};

// A part of a spread panel.
template <DType T>
struct alignas(64) SpreadPart {
  static constexpr QuantPanel kPanel = quant_panel(T);
  static constexpr int kScales = kPanel.halves ? 2 : 1;
  std::byte codes[kPart32 / kQuad][kLanes * kQuad];
  float factors[kScales + (kPanel.has_min ? 1 : 0)][kLanes];  // scales, and offsets
};

template <DType T>
void spread_panel(const std::byte* panel, int inputs, std::byte* to) {
  using Tile = QuantTile<T, 1, 1>;
  constexpr QuantPanel kPanel = quant_panel(T);
  Tile tile{MatmulTile{}};
  auto* out = reinterpret_cast<SpreadPart<T>*>(to);
  for (int k = 0; k < inputs; k += kPanel.group_inputs()) {
    if constexpr (kPanel.large) tile.read_header(panel, 0);
    const std::byte* part = panel + kPanel.header_bytes();
    for (int i = 0; i < kPanel.group_inputs() / kPart32; ++i, part += kPanel.part_bytes(), ++out) {
      for (int quad = 0; quad < kPart32 / kQuad / 2; ++quad) {
        Codes low;
        Codes high;
        Tile::load_nibbles(part, quad, low, high);
        store_codes(low, out->codes[quad]);
        store_codes(high, out->codes[quad + kPart32 / kQuad / 2]);
      }
      for (int half = 0; half < Tile::kHalves; ++half) store(tile.scale_of(part, 0, half), out->factors[half]);
      if constexpr (kPanel.has_min) store(tile.offset_of(part, 0), out->factors[1]);
    }
    panel += kPanel.group_bytes();
  }
}

// QuantTile over spread panels.
template <DType T, int R, int P>
struct SpreadTile {
  using Tile = QuantTile<T, R, P>;
  static constexpr QuantPanel kPanel = quant_panel(T);

  TileSums<R, P> sums;

  HWY_INLINE void add_part(const SpreadPart<T>* const (&parts)[P], const Int8Part* x) {
    typename Tile::IntSums ints;
    ints.begin(x);
    HWY_UNROLL(8) for (int quad = 0; quad < kPart32 / kQuad; ++quad) {
      const int half = quad * Tile::kHalves / (kPart32 / kQuad);
      Codes w[P];
      for (int p = 0; p < P; ++p) w[p] = load_codes(parts[p]->codes[quad]);
      for (int r = 0; r < R; ++r) {
        for (int p = 0; p < P; ++p) ints.of[r][p][half] = dot(ints.of[r][p][half], w[p], x[r].quads[quad]);
      }
    }
    for (int p = 0; p < P; ++p) {
      for (int half = 0; half < Tile::kHalves; ++half) {
        const Lanes scale = load(parts[p]->factors[half]);
        for (int r = 0; r < R; ++r) {
          sums.at[r][p] = fma(to_floats(ints.of[r][p][half]), mul(scale, broadcast(x[r].scale)), sums.at[r][p]);
        }
      }
      if constexpr (kPanel.has_min) {
        const Lanes offset = load(parts[p]->factors[1]);
        for (int r = 0; r < R; ++r) sums.at[r][p] = fma(offset, broadcast(x[r].scaled_sum), sums.at[r][p]);
      }
    }
  }

  static void run(const MatmulTile& t) {
    SpreadTile tile{TileSums<R, P>(t)};
    const SpreadPart<T>* parts[P];
    for (int p = 0; p < P; ++p) parts[p] = reinterpret_cast<const SpreadPart<T>*>(t.weights + p * t.panel_bytes);
    const auto* x = reinterpret_cast<const Int8Part*>(t.x);
    for (int k = 0; k < t.inputs; k += kPart32, x += t.x_stride) {
      tile.add_part(parts, x);
      for (int p = 0; p < P; ++p) ++parts[p];
    }
    tile.sums.store(t);
  }
};

// Panels are streams, and each number of a row is read once for all of them: as many as registers hold sums for.
constexpr int quant_panels_for(int rows) {
  if (kParts == 1) return rows == 1 ? 8 : rows <= 3 ? 4 : 2;
  return kParts == 2 && rows == 1 ? 4 : 1;
}
inline constexpr int kQuantRowTile = kParts == 1 ? 6 : kParts == 2 ? 4 : 2;

template <template <DType, int, int> class Tile, DType T, int... R>
void run_quant_rows(const MatmulTile& t, std::integer_sequence<int, R...>) {
  using Run = void (*)(const MatmulTile&);
  static constexpr Run kOne[] = {&Tile<T, R + 1, 1>::run...};
  static constexpr Run kMany[] = {&Tile<T, R + 1, quant_panels_for(R + 1)>::run...};
  (t.panels == 1 ? kOne : kMany)[t.rows - 1](t);
}

template <template <DType, int, int> class Tile, DType T>
void quant_tile(const MatmulTile& t) {
  run_quant_rows<Tile, T>(t, std::make_integer_sequence<int, kQuantRowTile>());
}

template <DType T>
MatmulKernel quant_kernel() {
  constexpr QuantPanel kPanel = quant_panel(T);
  // Signed products need no correction.
  MatmulKernel kernel{
      &quant_tile<QuantTile, T>, RowForm::kInt8, kQuantRowTile, {}, kPanel.bits == 8 && !kHasDots ? 0 : kPanel.zero};
  if constexpr (kPanel.planes() > 0) {  // nibbles alone are as fast as they lie
    kernel.spread = {{kPart32, sizeof(SpreadPart<T>)}, &spread_panel<T>, &quant_tile<SpreadTile, T>};
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
  put(DType::kQ4_K, quant_kernel<DType::kQ4_K>());
  put(DType::kQ5_K, quant_kernel<DType::kQ5_K>());
  put(DType::kQ6_K, quant_kernel<DType::kQ6_K>());
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
