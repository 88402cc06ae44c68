// Sixteen virtual lanes of float, as one, two or sixteen registers. Included once per target by foreach_target.

#if defined(KVASIR_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVASIR_LANES_INL_H_
#undef KVASIR_LANES_INL_H_
#else
#define KVASIR_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "backend/cpu/kernels.h"
#include "layout/codec.h"

// HWY_BEFORE_NAMESPACE() of what multiplies bytes: Highway's AVX3_DL implies their dot products, but does not ask the
// compiler for them.
#undef KVASIR_BEFORE_DOTS
#if HWY_TARGET == HWY_AVX3_DL
#define KVASIR_BEFORE_DOTS() \
  HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni") static_assert(true, "for the semicolon")
#else
#define KVASIR_BEFORE_DOTS() HWY_BEFORE_NAMESPACE()
#endif

HWY_BEFORE_NAMESPACE();
namespace kvasir::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using FloatTag = hn::CappedTag<float, kLanes>;
using FloatVec = hn::Vec<FloatTag>;
inline constexpr int kPart = static_cast<int>(hn::MaxLanes(FloatTag()));
inline constexpr int kParts = kLanes / kPart;

struct Lanes {
  FloatVec part[kParts];
};

HWY_INLINE FloatVec fused(FloatVec a, FloatVec b, FloatVec c) {
#if HWY_TARGET == HWY_SCALAR
  return FloatVec(std::fma(a.raw, b.raw, c.raw));  // Highway's scalar MulAdd rounds twice
#else
  return hn::MulAdd(a, b, c);
#endif
}

HWY_INLINE Lanes broadcast(float value) {
  Lanes out;
  for (int i = 0; i < kParts; ++i) out.part[i] = hn::Set(FloatTag(), value);
  return out;
}

HWY_INLINE Lanes load(const float* from) {
  Lanes out;
  for (int i = 0; i < kParts; ++i) out.part[i] = hn::LoadU(FloatTag(), from + i * kPart);
  return out;
}

#if HWY_TARGET == HWY_SCALAR
// Highway's scalar conversion makes numbers of binary16's infinities: ours does what the hardware does.
HWY_INLINE FloatVec load_part(const hwy::float16_t* from) { return FloatVec(CodecF16::decode(from->bits)); }
HWY_INLINE FloatVec load_part(const hwy::bfloat16_t* from) { return FloatVec(CodecBF16::decode(from->bits)); }
#else
template <class Half>  // hwy::float16_t, hwy::bfloat16_t
HWY_INLINE FloatVec load_part(const Half* from) {
  return hn::PromoteTo(FloatTag(), hn::LoadU(hn::Rebind<Half, FloatTag>(), from));
}
#endif

// Numbers of eight bits, as binary16 has them: 1.5.2 is its upper half; 1.4.3 has its exponent 8 lower, and no codes
// that would be infinite.
struct Fp8E5M2 {
  std::uint8_t bits;
};
struct Fp8E4M3 {
  std::uint8_t bits;
};

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE FloatVec load_part(const Fp8E5M2* from) { return FloatVec(CodecE5M2::decode(from->bits)); }
HWY_INLINE FloatVec load_part(const Fp8E4M3* from) { return FloatVec(CodecE4M3::decode(from->bits)); }
#else
template <class Byte>
HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, FloatTag>> load_bytes16(const Byte* from) {
  const hn::Rebind<std::uint8_t, FloatTag> u8;
  return hn::PromoteTo(hn::Rebind<std::uint16_t, FloatTag>(), hn::LoadU(u8, &from->bits));
}
HWY_INLINE FloatVec load_part(const Fp8E5M2* from) {
  const hn::Rebind<hwy::float16_t, FloatTag> f16;
  return hn::PromoteTo(FloatTag(), hn::BitCast(f16, hn::ShiftLeft<8>(load_bytes16(from))));
}
HWY_INLINE FloatVec load_part(const Fp8E4M3* from) {
  const hn::Rebind<hwy::float16_t, FloatTag> f16;
  const hn::Rebind<std::uint16_t, FloatTag> u16;
  const auto bits = load_bytes16(from);
  const auto magnitude = hn::ShiftLeft<7>(hn::And(bits, hn::Set(u16, 0x7f)));
  const auto sign = hn::ShiftLeft<8>(hn::And(bits, hn::Set(u16, 0x80)));
  return hn::Mul(hn::PromoteTo(FloatTag(), hn::BitCast(f16, hn::Or(magnitude, sign))), hn::Set(FloatTag(), 256.0F));
}
#endif

template <class Half>
HWY_INLINE Lanes load(const Half* from) {
  Lanes out;
  for (int i = 0; i < kParts; ++i) out.part[i] = load_part(from + i * kPart);
  return out;
}

HWY_INLINE void store(const Lanes& lanes, float* to) {
  for (int i = 0; i < kParts; ++i) hn::StoreU(lanes.part[i], FloatTag(), to + i * kPart);
}

// The first `columns` of 16 numbers, all of them if there are more.
HWY_INLINE Lanes load_some(const float* from, int columns) {
  if (columns >= kLanes) return load(from);
  HWY_ALIGN float padded[kLanes] = {};
  std::memcpy(padded, from, static_cast<size_t>(columns) * sizeof(float));
  return load(padded);
}

HWY_INLINE void store_some(const Lanes& lanes, float* to, int columns) {
  if (columns >= kLanes) {
    store(lanes, to);
    return;
  }
  HWY_ALIGN float padded[kLanes];
  store(lanes, padded);
  std::memcpy(to, padded, static_cast<size_t>(columns) * sizeof(float));
}

// a * b + c, rounded once.
HWY_INLINE Lanes fma(const Lanes& a, const Lanes& b, const Lanes& c) {
  Lanes out;
  for (int i = 0; i < kParts; ++i) out.part[i] = fused(a.part[i], b.part[i], c.part[i]);
  return out;
}

#define KVASIR_LANEWISE(name, expression)                 \
  HWY_INLINE Lanes name(const Lanes& a, const Lanes& b) { \
    Lanes out;                                            \
    for (int i = 0; i < kParts; ++i) {                    \
      const FloatVec x = a.part[i];                       \
      const FloatVec y = b.part[i];                       \
      out.part[i] = expression;                           \
    }                                                     \
    return out;                                           \
  }
KVASIR_LANEWISE(add, hn::Add(x, y))
KVASIR_LANEWISE(sub, hn::Sub(x, y))
KVASIR_LANEWISE(mul, hn::Mul(x, y))
KVASIR_LANEWISE(div, hn::Div(x, y))
KVASIR_LANEWISE(max, hn::Max(x, y))
KVASIR_LANEWISE(min, hn::Min(x, y))
#undef KVASIR_LANEWISE

// The one tree by which lanes become a number: halves onto halves.
HWY_INLINE float sum_lanes(const Lanes& lanes) {
  HWY_ALIGN float v[kLanes];
  store(lanes, v);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) v[i] += v[i + half];
  }
  return v[0];
}

HWY_INLINE float max_lanes(const Lanes& lanes) {
  HWY_ALIGN float v[kLanes];
  store(lanes, v);
  float top = v[0];
  for (int i = 1; i < kLanes; ++i) top = v[i] > top ? v[i] : top;
  return top;
}

// The sums of a tile of R rows by P panels, from and to where they are kept.
template <int R, int P>
struct TileSums {
  Lanes at[R][P];

  HWY_INLINE explicit TileSums(const MatmulTile& t) {
    for (int r = 0; r < R; ++r) {
      for (int p = 0; p < P; ++p) {
        const float* out = t.out + r * t.out_stride + p * kLanes;
        at[r][p] = t.resume ? load_some(out, t.columns - p * kLanes) : broadcast(0.0F);
      }
    }
  }

  HWY_INLINE void store(const MatmulTile& t) const {
    for (int r = 0; r < R; ++r) {
      for (int p = 0; p < P; ++p) {
        store_some(at[r][p], t.out + r * t.out_stride + p * kLanes, t.columns - p * kLanes);
      }
    }
  }
};

// e^x to within 2 ulp for x <= 0 … 88; below -87.3 exactly 0, so that a masked score of -inf has no weight at all.
HWY_INLINE FloatVec exp_vec(FloatVec x) {
  const FloatTag f;
  const hn::RebindToSigned<FloatTag> i32;
  const FloatVec lowest = hn::Set(f, -87.33F);
  const FloatVec magic = hn::Set(f, 12582912.0F);  // 1.5 * 2^23: adding it rounds to an integer
  const FloatVec bounded = hn::Min(hn::Max(x, lowest), hn::Set(f, 88.0F));
  const FloatVec shifted = fused(bounded, hn::Set(f, 1.44269504F), magic);
  const FloatVec n = hn::Sub(shifted, magic);
  FloatVec r = fused(n, hn::Set(f, -0.693359375F), bounded);
  r = fused(n, hn::Set(f, 2.12194440e-4F), r);
  FloatVec p = hn::Set(f, 1.9875691500e-4F);
  p = fused(p, r, hn::Set(f, 1.3981999507e-3F));
  p = fused(p, r, hn::Set(f, 8.3334519073e-3F));
  p = fused(p, r, hn::Set(f, 4.1665795894e-2F));
  p = fused(p, r, hn::Set(f, 1.6666665459e-1F));
  p = fused(p, r, hn::Set(f, 5.0000001201e-1F));
  p = fused(p, hn::Mul(r, r), r);
  p = hn::Add(p, hn::Set(f, 1.0F));
  const auto exponent = hn::Sub(hn::BitCast(i32, shifted), hn::BitCast(i32, magic));
  const auto scale = hn::ShiftLeft<23>(hn::Add(exponent, hn::Set(i32, 127)));
  const FloatVec result = hn::Mul(p, hn::BitCast(f, scale));
  return hn::IfThenElse(hn::Lt(x, lowest), hn::Zero(f), result);
}

HWY_INLINE Lanes exp(const Lanes& x) {
  Lanes out;
  for (int i = 0; i < kParts; ++i) out.part[i] = exp_vec(x.part[i]);
  return out;
}

}  // namespace kvasir::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, once per target
