// Register tiles of products with quantized weights, R rows by P panels. Within a part of 32 inputs a product is a
// sum of integers, exact in any order; parts are added in their order with fused multiply-adds. So no instruction set
// changes a bit. Included once per target by foreach_target, inside functions that may use the byte dot products of
// AVX3_DL.

#if defined(KVASIR_QUANT_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVASIR_QUANT_TILES_INL_H_
#undef KVASIR_QUANT_TILES_INL_H_
#else
#define KVASIR_QUANT_TILES_INL_H_
#endif

#include <hwy/highway.h>

#include "backend/cpu/codes-inl.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/lanes-inl.h"
#include "backend/cpu/quant_panels.h"

KVASIR_BEFORE_DOTS();
namespace kvasir::cpu::HWY_NAMESPACE {

inline constexpr int kCacheLine = 64;

HWY_INLINE Codes pair_of_bits(const Codes& four, int index) {
  if (index < 2) return index == 0 ? unpack<2, 0>(four) : unpack<2, 1>(four);
  return index == 2 ? unpack<2, 2>(four) : unpack<2, 3>(four);
}

// What nibbles stand for, where a load takes it from.
template <QuantPanel kPanel>
struct LevelTable {
  alignas(16) static constexpr std::array<std::uint8_t, 16> kCodes = level_codes(kPanel);
};

// One of the eight quads of a part.
template <QuantPanel kPanel>
HWY_INLINE Codes load_quad(const std::byte* part, int quad) {
  const std::byte* planes = part + kPanel.scale_bytes();
  const std::byte* codes = planes + kPanel.plane_bytes();
  constexpr int kWords = 8 / kPanel.codes_in_byte();
  Codes out = load_codes(codes + quad % kWords * kLanes * kQuad);
  if constexpr (kPanel.code_bits() == 4) out = quad < kWords ? unpack<4, 0>(out) : unpack<4, 1>(out);
  if constexpr (kPanel.code_bits() == 2) out = pair_of_bits(out, quad / kWords);
  if constexpr (kPanel.levels != Levels::kNone) out = look_up(out, LevelTable<kPanel>::kCodes);
  for (int plane = 0; plane < kPanel.planes(); ++plane) {
    out = with_plane(out, planes + plane * 64 + quad * 8, 1 << (kPanel.code_bits() + plane));
  }
  return out;
}

// Sums of the products of a part, one for each scale. Where codes are bytes and scales two, it is one half after the
// other: their sums stay in registers. Of smaller codes two are taken from the same bytes, one of each half.
template <QuantPanel kPanel, int R, int P>
struct PartSums {
  static constexpr int kScales = kPanel.halves ? 2 : 1;
  static constexpr int kTogether = kPanel.bits == 8 ? 1 : 2;  // quads
  static constexpr int kSums = kPanel.halves ? kTogether : 1;
  static constexpr int kSteps = kPart32 / kQuad * kSums / kScales / kTogether;
  Ints of[R][P][kSums];

  template <class RowPart>  // Int8Part, Int8GroupPart
  HWY_INLINE PartSums(const std::byte* part, std::int64_t panel_bytes, const RowPart* x, int scale) {
    for (int r = 0; r < R; ++r) {
      for (int i = 0; i < kSums; ++i) {
        const Ints start = all(kPanel.zero == 0 ? 0 : x[r].starts[scale + i]);
        for (int p = 0; p < P; ++p) of[r][p][i] = start;
      }
    }
    HWY_UNROLL(8) for (int step = 0; step < kSteps; ++step) {
      const int quad = scale * kSteps + step;
      Codes codes[kTogether][P];
      for (int i = 0; i < kTogether; ++i) {
        for (int p = 0; p < P; ++p) codes[i][p] = load_quad<kPanel>(part + p * panel_bytes, quad + i * 4);
      }
      for (int r = 0; r < R; ++r) {
        for (int p = 0; p < P; ++p) {
          for (int i = 0; i < kTogether; ++i) {
            Ints& sum = of[r][p][i % kSums];
            sum = product(sum, codes[i][p], x[r].quads[quad + i * 4]);
          }
        }
      }
    }
  }

  static HWY_INLINE Ints product(const Ints& sums, const Codes& codes, std::int32_t quad) {
    return kPanel.zero == 128 ? dot_signed(sums, codes, quad) : dot(sums, codes, quad);
  }
};

// The next `ahead_step` bytes of each panel, into the second-level cache.
template <int P>
HWY_INLINE void ask_for(const MatmulTile& t, const std::byte*& ahead) {
  for (int line = 0; line < t.ahead_step; line += kCacheLine) {
    for (int p = 0; p < P; ++p) __builtin_prefetch(ahead + p * t.panel_bytes + line, 0, 2);
  }
  ahead += t.ahead_step;
}

// Blocks of 32: a number of the row and one of the weights for each part.
template <QuantPanel kPanel, int R, int P>
struct BlockTile {
  TileSums<R, P> sums;

  static HWY_INLINE Lanes scale_of(const std::byte* part) {
    if constexpr (kPanel.scale == ScaleForm::kExponent) return load_exponents(part);
    if constexpr (kPanel.scale == ScaleForm::kFloat) return load(reinterpret_cast<const float*>(part));
    return load_halves(part);
  }

  // Sums of products, less what zeros of the outputs' own make of them: integers that floats hold exactly.
  static HWY_INLINE Lanes products(const Ints& sum, const std::byte* part, const Int8Part& x) {
    if constexpr (!kPanel.own_zero) return to_floats(sum);
    const Lanes zeros = load_integers(part + 4 * kLanes);
    return fma(zeros, broadcast(-static_cast<float>(x.starts[0])), to_floats(sum));
  }

  HWY_INLINE void add_part(const std::byte* part, std::int64_t panel_bytes, const Int8Part* x) {
    const PartSums<kPanel, R, P> ints(part, panel_bytes, x, 0);
    for (int p = 0; p < P; ++p, part += panel_bytes) {
      const Lanes scale = scale_of(part);
      for (int r = 0; r < R; ++r) {
        const Lanes both = mul(scale, broadcast(x[r].scale));
        sums.at[r][p] = fma(products(ints.of[r][p][0], part, x[r]), both, sums.at[r][p]);
      }
      if constexpr (kPanel.has_min) {
        const Lanes offset = load_halves(part + 2 * kLanes);
        for (int r = 0; r < R; ++r) sums.at[r][p] = fma(offset, broadcast(x[r].scaled_sum), sums.at[r][p]);
      }
    }
  }

  static void run(const MatmulTile& t) {
    BlockTile tile{TileSums<R, P>(t)};
    const std::byte* part = t.weights;
    const auto* x = reinterpret_cast<const Int8Part*>(t.x);
    const std::byte* ahead = t.ahead;
    for (int k = 0; k < t.inputs; k += kPart32, part += kPanel.part_bytes(), x += t.x_stride) {
      tile.add_part(part, t.panel_bytes, x);
      ask_for<P>(t, ahead);
    }
    tile.sums.store(t);
  }
};

// Groups of 256: parts are added up in units of the group, times the weights' small integers, and only their sums
// meet the numbers of both. Beside the dot products there is then one multiplication a part, where blocks have two:
// shifts, conversions and additions have units of their own.
template <QuantPanel kPanel, int R, int P>
struct GroupTile {
  static constexpr int kGroupParts = kInt8Group / kPart32;
  // Panels whose sums of a part are taken at once: one row reads so many that registers would not hold two sums of
  // each beside those of the group.
  static constexpr int kPanels = R == 1 && P % 2 == 0 && PartSums<kPanel, R, P>::kSums == 2 ? P / 2 : P;
  // Mins are added up beside the products where registers hold both; else when those are done.
  static constexpr bool kMinsBeside = R * P <= 8;
  // Floats hold these integers exactly: codes are below 128 or less than that from zero, mins have at most six bits.
  static_assert(127 * kPart32 * 127 << kMostShift < 1 << 24, "the products of a part");
  static_assert(63 * kGroupParts * (kPart32 * 127 << kMostShift) < 1 << 24, "the mins of a group");

  TileSums<R, P> sums;

  static HWY_INLINE Lanes scale_of(const std::byte* part, int half) {
    if constexpr (kPanel.halves && kPanel.has_min) return load_low_nibbles(part + half * kLanes);
    return load_integers(part + half * kLanes);
  }

  // of += the products of a part.
  static HWY_INLINE void add_part(const std::byte* part, std::int64_t panel_bytes, const Int8GroupPart* x,
                                  Lanes (&of)[R][P]) {
    using Sums = PartSums<kPanel, R, kPanels>;
    HWY_UNROLL(2) for (int first = 0; first < Sums::kScales; first += Sums::kSums) {
      HWY_UNROLL(2) for (int panel = 0; panel < P; panel += kPanels) {
        const std::byte* at = part + panel * panel_bytes;
        const Sums ints(at, panel_bytes, x, first);
        for (int p = 0; p < kPanels; ++p) {
          for (int i = 0; i < Sums::kSums; ++i) {
            const Lanes scale = scale_of(at + p * panel_bytes, first + i);
            for (int r = 0; r < R; ++r) {
              const Lanes product = to_floats(shifted(ints.of[r][p][i], x[r].shift));
              of[r][panel + p] = fma(product, scale, of[r][panel + p]);
            }
          }
        }
      }
    }
  }

  // Two mins of each output: of a part's halves, or of a part and the next.
  static HWY_INLINE Ints min_pairs(const std::byte* part) {
    if constexpr (kPanel.halves) return high_nibbles(load_pairs(part, part + kLanes));
    return load_pairs(part + kLanes, part + kLanes + kPanel.part_bytes());
  }

  // mins += the mins of a part and the next, times the sums of the row.
  static HWY_INLINE void add_mins(const std::byte* part, const MatmulTile& t, const Int8GroupPart* x,
                                  Ints (&mins)[R][P]) {
    if constexpr (kPanel.has_min) {
      for (int i = 0; i < (kPanel.halves ? 2 : 1); ++i, part += kPanel.part_bytes(), x += t.x_stride) {
        Ints pairs[P];
        for (int p = 0; p < P; ++p) pairs[p] = min_pairs(part + p * t.panel_bytes);
        for (int r = 0; r < R; ++r) {
          for (int p = 0; p < P; ++p) mins[r][p] = dot_pairs(mins[r][p], pairs[p], x[r].sum_pair);
        }
      }
    }
  }

  HWY_INLINE void add_group(const std::byte* group, const MatmulTile& t, const Int8GroupPart* x,
                            const std::byte*& ahead) {
    Lanes of[R][P];
    Ints mins[R][P];
    for (int r = 0; r < R; ++r) {
      for (int p = 0; p < P; ++p) {
        of[r][p] = broadcast(0.0F);
        mins[r][p] = all(0);
      }
    }
    const std::byte* parts = group + kPanel.header_bytes();
    HWY_UNROLL(1) for (int s = 0; s < kGroupParts; s += 2) {
      for (int i = s; i < s + 2; ++i) {
        add_part(parts + i * kPanel.part_bytes(), t.panel_bytes, x + i * t.x_stride, of);
        ask_for<P>(t, ahead);
      }
      if constexpr (kMinsBeside) add_mins(parts + s * kPanel.part_bytes(), t, x + s * t.x_stride, mins);
    }
    if constexpr (!kMinsBeside) {
      HWY_UNROLL(4) for (int s = 0; s < kGroupParts; s += 2) {
        add_mins(parts + s * kPanel.part_bytes(), t, x + s * t.x_stride, mins);
      }
    }
    finish_group(group, t, x, of, mins);
  }

  HWY_INLINE void finish_group(const std::byte* group, const MatmulTile& t, const Int8GroupPart* x, Lanes (&of)[R][P],
                               const Ints (&mins)[R][P]) {
    for (int p = 0; p < P; ++p, group += t.panel_bytes) {
      const Lanes d = load_halves(group);
      Lanes m;
      if constexpr (kPanel.has_min) m = sub(broadcast(0.0F), load_halves(group + 2 * kLanes));
      for (int r = 0; r < R; ++r) {
        of[r][p] = mul(of[r][p], d);
        if constexpr (kPanel.has_min) of[r][p] = fma(to_floats(mins[r][p]), m, of[r][p]);
        sums.at[r][p] = fma(of[r][p], broadcast(x[r].unit), sums.at[r][p]);
      }
    }
  }

  static void run(const MatmulTile& t) {
    GroupTile tile{TileSums<R, P>(t)};
    const std::byte* group = t.weights;
    const auto* x = reinterpret_cast<const Int8GroupPart*>(t.x);
    const std::byte* ahead = t.ahead;
    for (int k = 0; k < t.inputs; k += kInt8Group, group += kPanel.group_bytes(), x += kGroupParts * t.x_stride) {
      tile.add_group(group, t, x, ahead);
    }
    tile.sums.store(t);
  }
};

}  // namespace kvasir::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, once per target
