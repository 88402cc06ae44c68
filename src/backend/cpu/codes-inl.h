// Sixteen outputs by four inputs of 8-bit codes, and their exact products with rows in 8 bits. Included once per
// target by foreach_target, inside functions that may use the byte dot products of AVX3_DL.

#if defined(KVASIR_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVASIR_CODES_INL_H_
#undef KVASIR_CODES_INL_H_
#else
#define KVASIR_CODES_INL_H_
#endif

#include <hwy/highway.h>

#include <array>
#include <bit>
#include <cstring>

#include "backend/cpu/lanes-inl.h"
#include "backend/cpu/quant_panels.h"

KVASIR_BEFORE_DOTS();
namespace kvasir::cpu::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3_DL
inline constexpr bool kHasDots = true;
#else
inline constexpr bool kHasDots = false;
#endif

inline constexpr std::int32_t kPairOfNibbles = 0x000f000f;

#if HWY_TARGET == HWY_SCALAR
struct Codes {
  std::uint8_t at[kLanes * kQuad];
};
struct Ints {
  std::int32_t at[kLanes];
};

HWY_INLINE Codes load_codes(const std::byte* from) {
  Codes out;
  std::memcpy(out.at, from, sizeof out.at);
  return out;
}
HWY_INLINE void store_codes(const Codes& codes, std::byte* to) { std::memcpy(to, codes.at, sizeof codes.at); }
// The kIndex-th code of kBits of each byte.
template <int kBits, int kIndex>
HWY_INLINE Codes unpack(Codes codes) {
  for (std::uint8_t& code : codes.at) code = static_cast<std::uint8_t>(code >> (kBits * kIndex) & ((1 << kBits) - 1));
  return codes;
}
HWY_INLINE Codes with_plane(Codes codes, const std::byte* bits, int value) {
  for (int i = 0; i < kLanes * kQuad; ++i) {
    if (std::to_integer<int>(bits[i / 8]) >> (i % 8) & 1)
      codes.at[i] = static_cast<std::uint8_t>(codes.at[i] | value);
  }
  return codes;
}
HWY_INLINE Ints all(int value) {
  Ints out;
  for (std::int32_t& lane : out.at) lane = value;
  return out;
}
HWY_INLINE Ints dot(Ints sums, const Codes& codes, std::int32_t quad) {
  std::int8_t x[kQuad];
  std::memcpy(x, &quad, sizeof x);
  for (int i = 0; i < kLanes * kQuad; ++i) sums.at[i / kQuad] += codes.at[i] * x[i % kQuad];
  return sums;
}
// Codes of eight bits less 128, with bytes above -128; with kHasDots the codes as they are.
HWY_INLINE Ints dot_signed(Ints sums, const Codes& codes, std::int32_t quad) {
  std::int8_t x[kQuad];
  std::memcpy(x, &quad, sizeof x);
  for (int i = 0; i < kLanes * kQuad; ++i) sums.at[i / kQuad] += (codes.at[i] - 128) * x[i % kQuad];
  return sums;
}
// Pairs of integers of 16 bits with a pair.
HWY_INLINE Ints dot_pairs(Ints sums, const Ints& pairs, std::int32_t pair) {
  const auto low = [](std::int32_t both) { return static_cast<std::int16_t>(both & 0xffff); };
  for (int i = 0; i < kLanes; ++i) {
    sums.at[i] += low(pairs.at[i]) * low(pair) + (pairs.at[i] >> 16) * (pair >> 16);
  }
  return sums;
}
HWY_INLINE Ints load_pairs(const std::byte* low, const std::byte* high) {  // each of two bytes
  Ints out;
  for (int i = 0; i < kLanes; ++i) out.at[i] = std::to_integer<int>(low[i]) | std::to_integer<int>(high[i]) << 16;
  return out;
}
HWY_INLINE Ints high_nibbles(Ints pairs) {  // of each byte of a pair
  for (std::int32_t& lane : pairs.at) lane = lane >> 4 & kPairOfNibbles;
  return pairs;
}
HWY_INLINE Ints shifted(Ints ints, int by) {  // to the left
  for (std::int32_t& lane : ints.at) lane <<= by;
  return ints;
}
// 128 high + low, and ints - value, as two's complement has them.
HWY_INLINE Ints join(const Ints& high, Ints low) {
  for (int i = 0; i < kLanes; ++i) {
    low.at[i] = static_cast<std::int32_t>((static_cast<std::uint32_t>(high.at[i]) << 7) +
                                          static_cast<std::uint32_t>(low.at[i]));
  }
  return low;
}
HWY_INLINE Ints less(Ints ints, std::int32_t value) {
  for (std::int32_t& lane : ints.at) {
    lane = static_cast<std::int32_t>(static_cast<std::uint32_t>(lane) - static_cast<std::uint32_t>(value));
  }
  return ints;
}
HWY_INLINE Ints add(Ints a, const Ints& b) {
  for (int i = 0; i < kLanes; ++i) a.at[i] += b.at[i];
  return a;
}
HWY_INLINE Lanes load_integers(const std::byte* from) {  // of 8 bits, as floats
  Lanes out;
  for (int i = 0; i < kLanes; ++i) {
    out.part[i] = FloatVec(static_cast<float>(reinterpret_cast<const std::int8_t*>(from)[i]));
  }
  return out;
}
HWY_INLINE Lanes load_low_nibbles(const std::byte* from) {  // as floats
  Lanes out;
  for (int i = 0; i < kLanes; ++i) out.part[i] = FloatVec(static_cast<float>(std::to_integer<int>(from[i]) & 15));
  return out;
}
// quant::half_exponent, and 0 where that is no normal number: then it counts as none.
HWY_INLINE Lanes load_exponents(const std::byte* from) {
  Lanes out;
  for (int i = 0; i < kLanes; ++i) {
    const int e = std::to_integer<int>(from[i]);
    out.part[i] = FloatVec(std::bit_cast<float>((e > 0 ? e - 1 : 0) << 23));
  }
  return out;
}
// What nibbles stand for.
HWY_INLINE Codes look_up(Codes codes, const std::array<std::uint8_t, 16>& table) {
  for (std::uint8_t& code : codes.at) code = table[code];
  return codes;
}
HWY_INLINE Lanes to_floats(const Ints& ints) {
  Lanes out;
  for (int i = 0; i < kLanes; ++i) out.part[i] = FloatVec(static_cast<float>(ints.at[i]));
  return out;
}

#else
using ByteTag = hn::CappedTag<std::uint8_t, kLanes * kQuad>;
using ByteVec = hn::Vec<ByteTag>;
using IntTag = hn::RebindToSigned<FloatTag>;
using IntVec = hn::Vec<IntTag>;

struct Codes {
  ByteVec part[kParts];
};
struct Ints {
  IntVec part[kParts];
};

HWY_INLINE Codes load_codes(const std::byte* from) {
  Codes out;
  for (int i = 0; i < kParts; ++i) {
    out.part[i] = hn::LoadU(ByteTag(), reinterpret_cast<const std::uint8_t*>(from) + i * kPart * kQuad);
  }
  return out;
}
HWY_INLINE void store_codes(const Codes& codes, std::byte* to) {
  for (int i = 0; i < kParts; ++i) {
    hn::StoreU(codes.part[i], ByteTag(), reinterpret_cast<std::uint8_t*>(to) + i * kPart * kQuad);
  }
}
template <int kBits, int kIndex>
HWY_INLINE Codes unpack(const Codes& codes) {
  const hn::Repartition<std::uint16_t, ByteTag> u16;
  Codes out;
  for (int i = 0; i < kParts; ++i) {
    const auto shifted = hn::BitCast(ByteTag(), hn::ShiftRight<kBits * kIndex>(hn::BitCast(u16, codes.part[i])));
    out.part[i] = hn::And(shifted, hn::Set(ByteTag(), (1 << kBits) - 1));
  }
  return out;
}
HWY_INLINE Codes with_plane(const Codes& codes, const std::byte* bits, int value) {
  Codes out;
  for (int i = 0; i < kParts; ++i) {
    const auto* from = reinterpret_cast<const std::uint8_t*>(bits) + i * kPart * kQuad / 8;
    const auto set = hn::LoadMaskBits(ByteTag(), from);
#if HWY_TARGET <= HWY_AVX3  // a sum where bits are set, which none of the codes has: one instruction
    const __m512i added = _mm512_set1_epi8(static_cast<char>(value));
    out.part[i] = ByteVec{_mm512_mask_add_epi8(codes.part[i].raw, set.raw, codes.part[i].raw, added)};
#else
    out.part[i] =
        hn::Or(codes.part[i], hn::IfThenElseZero(set, hn::Set(ByteTag(), static_cast<std::uint8_t>(value))));
#endif
  }
  return out;
}
HWY_INLINE Ints all(int value) {
  Ints out;
  for (int i = 0; i < kParts; ++i) out.part[i] = hn::Set(IntTag(), value);
  return out;
}

#if HWY_TARGET == HWY_AVX3_DL
// In assembly because GCC 12 copies every sum to another register and back around the intrinsic, in every round of a
// loop.
HWY_INLINE IntVec dot_part(IntVec sums, ByteVec codes, IntVec x) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sums.raw) : "v"(codes.raw), "v"(x.raw));
  return sums;
}
HWY_INLINE IntVec dot_signed_part(IntVec sums, ByteVec codes, IntVec x) { return dot_part(sums, codes, x); }
HWY_INLINE IntVec dot_pairs_part(IntVec sums, IntVec pairs, IntVec x) {
  asm("vpdpwssd %2, %1, %0" : "+v"(sums.raw) : "v"(pairs.raw), "v"(x.raw));
  return sums;
}
#elif HWY_TARGET == HWY_AVX3
HWY_INLINE IntVec sum_pairs(IntVec sums, __m512i pairs) {
  return hn::Add(sums, IntVec{_mm512_madd_epi16(pairs, _mm512_set1_epi16(1))});
}
// Codes of up to six bits: two products fit in 16 bits.
HWY_INLINE IntVec dot_part(IntVec sums, ByteVec codes, IntVec x) {
  return sum_pairs(sums, _mm512_maddubs_epi16(codes.raw, x.raw));
}
HWY_INLINE IntVec dot_signed_part(IntVec sums, ByteVec codes, IntVec x) {
  const __m512i value = _mm512_xor_si512(codes.raw, _mm512_set1_epi8(static_cast<char>(0x80)));
  const __m512i turned = _mm512_mask_sub_epi8(x.raw, _mm512_movepi8_mask(value), _mm512_setzero_si512(), x.raw);
  return sum_pairs(sums, _mm512_maddubs_epi16(_mm512_abs_epi8(value), turned));
}
HWY_INLINE IntVec dot_pairs_part(IntVec sums, IntVec pairs, IntVec x) {
  return hn::Add(sums, IntVec{_mm512_madd_epi16(pairs.raw, x.raw)});
}
#else
HWY_INLINE IntVec sum_pairs(IntVec sums, __m256i pairs) {
  return hn::Add(sums, IntVec{_mm256_madd_epi16(pairs, _mm256_set1_epi16(1))});
}
HWY_INLINE IntVec dot_part(IntVec sums, ByteVec codes, IntVec x) {
  return sum_pairs(sums, _mm256_maddubs_epi16(codes.raw, x.raw));
}
HWY_INLINE IntVec dot_signed_part(IntVec sums, ByteVec codes, IntVec x) {
  const __m256i value = _mm256_xor_si256(codes.raw, _mm256_set1_epi8(static_cast<char>(0x80)));
  return sum_pairs(sums, _mm256_maddubs_epi16(_mm256_abs_epi8(value), _mm256_sign_epi8(x.raw, value)));
}
HWY_INLINE IntVec dot_pairs_part(IntVec sums, IntVec pairs, IntVec x) {
  return hn::Add(sums, IntVec{_mm256_madd_epi16(pairs.raw, x.raw)});
}
#endif

HWY_INLINE Ints dot(const Ints& sums, const Codes& codes, std::int32_t quad) {
  Ints out;
  const IntVec x = hn::Set(IntTag(), quad);
  for (int i = 0; i < kParts; ++i) out.part[i] = dot_part(sums.part[i], codes.part[i], x);
  return out;
}
HWY_INLINE Ints dot_signed(const Ints& sums, const Codes& codes, std::int32_t quad) {
  Ints out;
  const IntVec x = hn::Set(IntTag(), quad);
  for (int i = 0; i < kParts; ++i) out.part[i] = dot_signed_part(sums.part[i], codes.part[i], x);
  return out;
}
HWY_INLINE Ints dot_pairs(const Ints& sums, const Ints& pairs, std::int32_t pair) {
  Ints out;
  const IntVec x = hn::Set(IntTag(), pair);
  for (int i = 0; i < kParts; ++i) out.part[i] = dot_pairs_part(sums.part[i], pairs.part[i], x);
  return out;
}
HWY_INLINE Ints load_pairs(const std::byte* low, const std::byte* high) {
  const hn::Rebind<std::uint8_t, IntTag> bytes;
  Ints out;
  for (int i = 0; i < kParts; ++i) {
    const auto below = hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(low) + i * kPart);
    const auto above = hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(high) + i * kPart);
    out.part[i] = hn::Or(hn::PromoteTo(IntTag(), below), hn::ShiftLeft<16>(hn::PromoteTo(IntTag(), above)));
  }
  return out;
}
HWY_INLINE Ints high_nibbles(const Ints& pairs) {
  Ints out;
  for (int i = 0; i < kParts; ++i) {
    out.part[i] = hn::And(hn::ShiftRight<4>(pairs.part[i]), hn::Set(IntTag(), kPairOfNibbles));
  }
  return out;
}
HWY_INLINE Ints shifted(const Ints& ints, int by) {
  Ints out;
  for (int i = 0; i < kParts; ++i) {
#if HWY_TARGET <= HWY_AVX3  // which takes the number from memory
    out.part[i] = hn::Shl(ints.part[i], hn::Set(IntTag(), by));
#else
    out.part[i] = hn::ShiftLeftSame(ints.part[i], by);
#endif
  }
  return out;
}
HWY_INLINE Ints join(const Ints& high, const Ints& low) {
  Ints out;
  for (int i = 0; i < kParts; ++i) out.part[i] = hn::Add(hn::ShiftLeft<7>(high.part[i]), low.part[i]);
  return out;
}
HWY_INLINE Ints less(const Ints& ints, std::int32_t value) {
  Ints out;
  for (int i = 0; i < kParts; ++i) out.part[i] = hn::Sub(ints.part[i], hn::Set(IntTag(), value));
  return out;
}
HWY_INLINE Ints add(const Ints& a, const Ints& b) {
  Ints out;
  for (int i = 0; i < kParts; ++i) out.part[i] = hn::Add(a.part[i], b.part[i]);
  return out;
}
template <class Byte>  // 16 integers of a byte
HWY_INLINE Ints load_bytes(const std::byte* from) {
  const hn::Rebind<Byte, IntTag> bytes;
  Ints out;
  for (int i = 0; i < kParts; ++i) {
    out.part[i] = hn::PromoteTo(IntTag(), hn::LoadU(bytes, reinterpret_cast<const Byte*>(from) + i * kPart));
  }
  return out;
}
HWY_INLINE Lanes load_integers(const std::byte* from) {
  const Ints ints = load_bytes<std::int8_t>(from);
  Lanes out;
  for (int i = 0; i < kParts; ++i) out.part[i] = hn::ConvertTo(FloatTag(), ints.part[i]);
  return out;
}
HWY_INLINE Lanes load_low_nibbles(const std::byte* from) {
  const Ints ints = load_bytes<std::uint8_t>(from);
  Lanes out;
  for (int i = 0; i < kParts; ++i) {
    out.part[i] = hn::ConvertTo(FloatTag(), hn::And(ints.part[i], hn::Set(IntTag(), 15)));
  }
  return out;
}
HWY_INLINE Lanes load_exponents(const std::byte* from) {
  const Ints ints = load_bytes<std::uint8_t>(from);
  Lanes out;
  for (int i = 0; i < kParts; ++i) {
    const IntVec lower = hn::Max(hn::Sub(ints.part[i], hn::Set(IntTag(), 1)), hn::Zero(IntTag()));
    out.part[i] = hn::BitCast(FloatTag(), hn::ShiftLeft<23>(lower));
  }
  return out;
}
HWY_INLINE Codes look_up(const Codes& codes, const std::array<std::uint8_t, 16>& table) {
  const ByteVec levels = hn::LoadDup128(ByteTag(), table.data());
  Codes out;
  for (int i = 0; i < kParts; ++i) out.part[i] = hn::TableLookupBytes(levels, codes.part[i]);
  return out;
}
HWY_INLINE Lanes to_floats(const Ints& ints) {
  Lanes out;
  for (int i = 0; i < kParts; ++i) out.part[i] = hn::ConvertTo(FloatTag(), ints.part[i]);
  return out;
}
#endif

HWY_INLINE Lanes load_halves(const std::byte* from) { return load(reinterpret_cast<const hwy::float16_t*>(from)); }

}  // namespace kvasir::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, once per target
