#include "layout/row_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <span>

#include "base/check.h"
#include "layout/codec.h"
#include "layout/hadamard.h"
#include "layout/row_numbers.h"

namespace kvasir {
namespace {

using Numbers = std::array<float, kMaxPackedDim>;
using Codes = std::array<std::uint8_t, kMaxPackedDim>;

float largest_of(const float* row, int dim) {
  float largest = 0;
  for (int i = 0; i < dim; ++i) largest = std::max(largest, std::abs(row[i]));
  return largest;
}

// Of the scales that bf16 can hold.
float nearest_scale(float value) { return CodecBF16::decode(CodecBF16::encode(value)); }

void store_scale(std::byte* at, float scale) {
  const std::uint16_t stored = CodecBF16::encode(scale);
  std::memcpy(at, &stored, sizeof stored);
}
float load_scale(const std::byte* at) {
  std::uint16_t stored = 0;
  std::memcpy(&stored, at, sizeof stored);
  return CodecBF16::decode(stored);
}

// --- the two sides

enum class Side { kK, kV };

// Where a row of one side lies: all in which K and V differ.
template <Side kSide>
struct SideRow {
  static constexpr bool kOfK = kSide == Side::kK;
  const KvView& view;
  const RowPlace& place;

  KvFormat format() const { return kOfK ? view.layout.k_format : view.layout.v_format; }
  int dim() const { return kOfK ? view.layout.shape.k_dim : view.layout.shape.v_dim; }
  std::byte* head() const {
    return kOfK ? view.k_head(place.block, place.head) : view.v_head(place.block, place.head);
  }
  std::byte* scale() const {
    std::byte* scales = kOfK ? view.k_scales(place.block, place.head) : view.v_scales(place.block, place.head);
    return scales + static_cast<std::ptrdiff_t>(place.token_in_block) * kScaleBytes;
  }
  std::int64_t index(int d) const {
    return kOfK ? view.k_index(place.token_in_block, d) : view.v_index(place.token_in_block, d);
  }
  template <class Codec>
  CodePlace code(int d) const {
    const int tokens = view.layout.block_tokens;
    return kOfK ? Codec::k_place(tokens, place.token_in_block, d)
                : Codec::v_place(tokens, dim(), place.token_in_block, d);
  }
  template <class Codec>
  int codes_held() const {
    return Codec::kPerByte * (kOfK ? kCodeQuad * Codec::k_groups(dim()) : Codec::v_columns(dim()));
  }
  template <class Codec>
  std::byte* pruned() const {
    return head() + static_cast<std::ptrdiff_t>(place.token_in_block) * Codec::row_bytes(dim());
  }
};

using KRow = SideRow<Side::kK>;
using VRow = SideRow<Side::kV>;

// --- integers

// Codes for a given scale, and the squared error they make.
template <class Codec>
float quantize_with(const float* row, int dim, float scale, std::uint8_t* codes) {
  const float inverse = 1.0F / scale;
  float error = 0;
  for (int i = 0; i < dim; ++i) {
    // The integer nearest to (value + kZero) / kFactor, between 0 and the last code.
    const float level = (row[i] * inverse + static_cast<float>(Codec::kZero)) / static_cast<float>(Codec::kFactor);
    const float bounded = std::clamp(level, Codec::kBits == 8 ? 1.0F : 0.0F, static_cast<float>(Codec::kMask));
    const float code = (bounded + kRounder) - kRounder;
    codes[i] = static_cast<std::uint8_t>(code);
    const float value = (code * static_cast<float>(Codec::kFactor) - static_cast<float>(Codec::kZero)) * scale;
    error += (row[i] - value) * (row[i] - value);
  }
  return error;
}

// With few levels it pays to clip a row's largest numbers: the scale of least squared error among some, then the best
// scale for the codes it gives. Returns the scale.
template <class Codec>
float quantize(const float* row, int dim, std::uint8_t* codes) {
  const float largest = largest_of(row, dim);
  if (largest < kTiniestHeld) {
    std::fill_n(codes, dim, std::uint8_t{0});
    return 0.0F;
  }
  const float whole = scale_above(largest / static_cast<float>(Codec::kLevels));
  if constexpr (Codec::kBits == 8) {
    quantize_with<Codec>(row, dim, whole, codes);
    return whole;
  }
  constexpr int kTries = 8;
  constexpr float kLeast = Codec::kBits == 2 ? 0.4F : 0.65F;  // of the whole range
  float best = whole;
  float least = std::numeric_limits<float>::infinity();
  for (int i = 0; i < kTries; ++i) {
    const float scale =
        nearest_scale(whole * (1.0F - (1.0F - kLeast) * static_cast<float>(i) / static_cast<float>(kTries - 1)));
    const float error = quantize_with<Codec>(row, dim, scale, codes);
    if (error < least) least = error, best = scale;
  }
  quantize_with<Codec>(row, dim, best, codes);
  float dot = 0;
  float squares = 0;
  for (int i = 0; i < dim; ++i) {
    const auto value = static_cast<float>(codes[i] * Codec::kFactor - Codec::kZero);
    dot += row[i] * value;
    squares += value * value;
  }
  return nearest_scale(dot / squares);
}

template <class Codec>
float value_of(int code, float scale) {
  return static_cast<float>(code * Codec::kFactor - Codec::kZero) * scale;
}

void put_code(std::byte* head, const CodePlace& place, int mask, std::uint8_t code) {
  std::byte& byte = head[place.byte];
  byte = (byte & ~static_cast<std::byte>(mask << place.shift)) | static_cast<std::byte>(code << place.shift);
}

// The row's bytes hold `codes_held` codes: those beyond the row are 0.
template <class Codec, class Row>
float encode_packed(const Row& at, std::span<const float> row) {
  const int dim = at.dim();
  const int codes_held = at.template codes_held<Codec>();
  CHECK(codes_held <= kMaxPackedDim);
  Numbers held_row;
  Codes codes{};
  for (size_t i = 0; i < row.size(); ++i) held_row[i] = held(row[i]);
  turn(Codec::kFormat, held_row.data(), dim);
  const float scale = quantize<Codec>(held_row.data(), dim, codes.data());
  std::byte* head = at.head();
  for (int i = 0; i < codes_held; ++i) {
    put_code(head, at.template code<Codec>(i), Codec::kMask, codes[static_cast<size_t>(i)]);
  }
  return scale;
}

template <class Codec, class Row>
void decode_packed(const Row& at, float scale, float* row) {
  const int dim = at.dim();
  const std::byte* head = at.head();
  for (int i = 0; i < dim; ++i) {
    const CodePlace place = at.template code<Codec>(i);
    row[i] = value_of<Codec>(std::to_integer<int>(head[place.byte]) >> place.shift & Codec::kMask, scale);
  }
}

// --- single numbers

template <class Codec, class Row>
float encode_numbers(const Row& at, std::span<const float> row) {
  using Stored = typename Codec::Stored;
  std::byte* head = at.head();
  const auto put = [&](size_t i, float value) {
    const Stored stored = Codec::encode(value);
    std::memcpy(head + at.index(static_cast<int>(i)) * static_cast<std::int64_t>(sizeof stored), &stored,
                sizeof stored);
  };
  if constexpr (!kHasScale<Codec>) {
    for (size_t i = 0; i < row.size(); ++i) put(i, row[i]);
    return 1.0F;
  } else {
    float largest = 0;
    for (const float value : row) largest = std::max(largest, std::abs(held(value)));
    const float scale = largest < kTiniestHeld ? 0.0F : scale_above(largest / Codec::kLargest);
    for (size_t i = 0; i < row.size(); ++i) put(i, scale == 0.0F ? 0.0F : held(row[i]) / scale);
    return scale;
  }
}

template <class Codec, class Row>
void decode_numbers(const Row& at, float scale, float* row) {
  const int dim = at.dim();
  const std::byte* head = at.head();
  typename Codec::Stored stored;
  for (int i = 0; i < dim; ++i) {
    std::memcpy(&stored, head + at.index(i) * static_cast<std::int64_t>(sizeof stored), sizeof stored);
    row[i] = kHasScale<Codec> ? Codec::decode(stored) * scale : Codec::decode(stored);
  }
}

// --- the largest numbers

template <class Codec>
void encode_pruned(std::span<const float> row, std::byte* mask) {
  const int dim = static_cast<int>(row.size());
  CHECK(dim <= kMaxPackedDim);
  Numbers held_row;
  std::array<std::uint64_t, kMaxPackedDim> ranks;  // the larger the number, and then the lower its dimension
  std::array<std::uint64_t, kMaxPackedDim> sorted;
  for (size_t i = 0; i < row.size(); ++i) {
    held_row[i] = held(row[i]);
    const std::uint64_t magnitude = std::bit_cast<std::uint32_t>(held_row[i]) & 0x7fffffffU;
    ranks[i] = sorted[i] = magnitude << 32 | (kMaxPackedDim - i);
  }
  const auto last = sorted.begin() + Codec::kept(dim) - 1;
  std::nth_element(sorted.begin(), last, sorted.begin() + dim, std::greater<>());
  std::byte* values = mask + Codec::mask_bytes(dim);
  std::fill(mask, values, std::byte{0});
  for (size_t i = 0; i < row.size(); ++i) {
    if (ranks[i] < *last) continue;
    mask[i / 8] |= static_cast<std::byte>(1U << i % 8);
    const CodecF16::Stored stored = CodecF16::encode(held_row[i]);
    std::memcpy(values, &stored, sizeof stored);
    values += sizeof stored;
  }
}

template <class Codec>
void decode_pruned(const std::byte* mask, float* row, int dim) {
  const std::byte* values = mask + Codec::mask_bytes(dim);
  for (int i = 0; i < dim; ++i) {
    row[i] = 0.0F;
    if ((mask[i / 8] >> i % 8 & std::byte{1}) == std::byte{0}) continue;
    CodecF16::Stored stored = 0;
    std::memcpy(&stored, values, sizeof stored);
    row[i] = CodecF16::decode(stored);
    values += sizeof stored;
  }
}

// --- copies

template <class Codec, class Row>
void copy_packed(const Row& from, const Row& to) {
  const std::byte* source = from.head();
  std::byte* target = to.head();
  const int codes = from.template codes_held<Codec>();
  for (int i = 0; i < codes; ++i) {
    const CodePlace place = from.template code<Codec>(i);
    const int code = std::to_integer<int>(source[place.byte]) >> place.shift & Codec::kMask;
    put_code(target, to.template code<Codec>(i), Codec::kMask, static_cast<std::uint8_t>(code));
  }
}

template <class Codec, class Row>
void copy_numbers(const Row& from, const Row& to) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(typename Codec::Stored));
  const std::byte* source = from.head();
  std::byte* target = to.head();
  const int dim = from.dim();
  for (int i = 0; i < dim; ++i) {
    std::memcpy(target + to.index(i) * kSize, source + from.index(i) * kSize, static_cast<size_t>(kSize));
  }
}

// --- a row, of either side

template <class Row>
void encode(const Row& at, const float* row) {
  visit_codec(at.format(), [&](auto codec) {
    using Codec = decltype(codec);
    const std::span values(row, static_cast<size_t>(at.dim()));
    float scale = 1.0F;
    if constexpr (kIsPacked<Codec>) {
      scale = encode_packed<Codec>(at, values);
    } else if constexpr (kIsPruned<Codec>) {
      encode_pruned<Codec>(values, at.template pruned<Codec>());
    } else {
      scale = encode_numbers<Codec>(at, values);
    }
    if (kHasScale<Codec>) store_scale(at.scale(), scale);
  });
}

template <class Row>
void decode(const Row& at, float* row) {
  visit_codec(at.format(), [&](auto codec) {
    using Codec = decltype(codec);
    const float scale = kHasScale<Codec> ? load_scale(at.scale()) : 1.0F;
    if constexpr (kIsPacked<Codec>) {
      decode_packed<Codec>(at, scale, row);
    } else if constexpr (kIsPruned<Codec>) {
      decode_pruned<Codec>(at.template pruned<Codec>(), row, at.dim());
    } else {
      decode_numbers<Codec>(at, scale, row);
    }
  });
}

template <class Row>
void copy(const Row& from, const Row& to) {
  visit_codec(from.format(), [&](auto codec) {
    using Codec = decltype(codec);
    if constexpr (kIsPacked<Codec>) {
      copy_packed<Codec>(from, to);
    } else if constexpr (kIsPruned<Codec>) {
      std::memmove(to.template pruned<Codec>(), from.template pruned<Codec>(),
                   static_cast<size_t>(Codec::row_bytes(from.dim())));
    } else {
      copy_numbers<Codec>(from, to);
    }
    if (kHasScale<Codec>) store_scale(to.scale(), load_scale(from.scale()));
  });
}

}  // namespace

void encode_k(const KvView& view, const RowPlace& place, const float* row) { encode(KRow{view, place}, row); }
void encode_v(const KvView& view, const RowPlace& place, const float* row) { encode(VRow{view, place}, row); }

void decode_k(const KvView& view, const RowPlace& place, float* row) { decode(KRow{view, place}, row); }
void decode_v(const KvView& view, const RowPlace& place, float* row) { decode(VRow{view, place}, row); }

void copy_row(const KvView& view, const RowPlace& from, const RowPlace& to) {
  copy(KRow{view, from}, KRow{view, to});
  if (view.layout.shape.has_v()) copy(VRow{view, from}, VRow{view, to});
}

void move_row(const KvView& view, const BlockId* blocks, const RowMove& move) {
  const int size = view.layout.block_tokens;
  copy_row(view, {blocks[move.from / size], move.head, move.from % size},
           {blocks[move.to / size], move.head, move.to % size});
}

void turn(KvFormat format, float* row, int dim) {
  if (is_rotated(format)) hadamard(row, dim);
}

// Values that are a part of K are turned with the whole of it.
int mixed_dim(const KvLayout& layout) {
  return !layout.shape.has_v() && is_rotated(layout.k_format) ? layout.shape.k_dim : layout.shape.v_dim;
}

void finish_mixed(const KvLayout& layout, float* mixed, float* to) {
  const int dim = mixed_dim(layout);
  turn(layout.v_format, mixed, dim);
  const int first = dim == layout.shape.v_dim ? 0 : layout.shape.v_in_k;
  std::copy_n(mixed + first, layout.shape.v_dim, to);
}

float round_query(float* q, int dim) {
  for (int i = 0; i < dim; ++i) q[i] = held(q[i]);
  const float largest = largest_of(q, dim);
  if (largest < kTiniestHeld) {
    std::fill_n(q, dim, 0.0F);
    return 0.0F;
  }
  constexpr auto kMost = static_cast<float>(kQueryLevels);
  const float inverse = kMost / largest;
  for (int i = 0; i < dim; ++i) q[i] = (q[i] * inverse + kRounder) - kRounder;
  return largest / kMost;
}

}  // namespace kvasir
