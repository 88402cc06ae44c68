#include "layout/row_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <utility>

#include "base/check.h"
#include "layout/codec.h"
#include "layout/hadamard.h"
#include "layout/row_numbers.h"

namespace kvasir {
namespace {

using Row = std::array<float, kMaxPackedDim>;
using Codes = std::array<std::uint8_t, kMaxPackedDim>;

float largest_of(const float* row, int dim) {
  float largest = 0;
  for (int i = 0; i < dim; ++i) largest = std::max(largest, std::abs(row[i]));
  return largest;
}

// Of the scales that bf16 can hold.
float nearest_scale(float value) { return CodecBF16::decode(CodecBF16::encode(value)); }

void store_scale(std::byte* scales, int slot, float scale) {
  const std::uint16_t stored = CodecBF16::encode(scale);
  std::memcpy(scales + static_cast<std::ptrdiff_t>(slot) * kScaleBytes, &stored, sizeof stored);
}
float load_scale(const std::byte* scales, int slot) {
  std::uint16_t stored = 0;
  std::memcpy(&stored, scales + static_cast<std::ptrdiff_t>(slot) * kScaleBytes, sizeof stored);
  return CodecBF16::decode(stored);
}

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

// `codes_held` is the number of codes the row's bytes hold: those beyond the row are 0.
template <class Codec, class PlaceOf>
float encode_packed(std::span<const float> row, int codes_held, std::byte* head, const PlaceOf& place_of) {
  CHECK(codes_held <= kMaxPackedDim);
  const int dim = static_cast<int>(row.size());
  Row held_row;
  Codes codes{};
  for (size_t i = 0; i < row.size(); ++i) held_row[i] = held(row[i]);
  turn(Codec::kFormat, held_row.data(), dim);
  const float scale = quantize<Codec>(held_row.data(), dim, codes.data());
  for (int i = 0; i < codes_held; ++i) put_code(head, place_of(i), Codec::kMask, codes[static_cast<size_t>(i)]);
  return scale;
}

template <class Codec, class PlaceOf>
void decode_packed(const std::byte* head, const PlaceOf& place_of, float scale, float* row, int dim) {
  for (int i = 0; i < dim; ++i) {
    const CodePlace place = place_of(i);
    row[i] = value_of<Codec>(std::to_integer<int>(head[place.byte]) >> place.shift & Codec::kMask, scale);
  }
}

// --- single numbers

template <class Codec, class IndexOf>
float encode_numbers(std::span<const float> row, std::byte* head, const IndexOf& index_of) {
  using Stored = typename Codec::Stored;
  const auto put = [&](size_t i, float value) {
    const Stored stored = Codec::encode(value);
    std::memcpy(head + index_of(static_cast<int>(i)) * static_cast<std::int64_t>(sizeof stored), &stored,
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

template <class Codec, class IndexOf>
void decode_numbers(const std::byte* head, const IndexOf& index_of, float scale, float* row, int dim) {
  typename Codec::Stored stored;
  for (int i = 0; i < dim; ++i) {
    std::memcpy(&stored, head + index_of(i) * static_cast<std::int64_t>(sizeof stored), sizeof stored);
    row[i] = kHasScale<Codec> ? Codec::decode(stored) * scale : Codec::decode(stored);
  }
}

// --- the largest numbers

// The row at `slot` of its head.
template <class Codec>
void encode_pruned(std::span<const float> row, std::byte* head, int slot) {
  const int dim = static_cast<int>(row.size());
  CHECK(dim <= kMaxPackedDim);
  Row held_row;
  std::array<std::uint64_t, kMaxPackedDim> ranks;  // the larger the number, and then the lower its dimension
  std::array<std::uint64_t, kMaxPackedDim> sorted;
  for (size_t i = 0; i < row.size(); ++i) {
    held_row[i] = held(row[i]);
    const std::uint64_t magnitude = std::bit_cast<std::uint32_t>(held_row[i]) & 0x7fffffffU;
    ranks[i] = sorted[i] = magnitude << 32 | (kMaxPackedDim - i);
  }
  const auto last = sorted.begin() + Codec::kept(dim) - 1;
  std::nth_element(sorted.begin(), last, sorted.begin() + dim, std::greater<>());
  std::byte* mask = head + static_cast<std::ptrdiff_t>(slot) * Codec::row_bytes(dim);
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
void decode_pruned(const std::byte* head, int slot, float* row, int dim) {
  const std::byte* mask = head + static_cast<std::ptrdiff_t>(slot) * Codec::row_bytes(dim);
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

template <class Codec, class PlaceOf>
void copy_packed(const std::byte* from, std::byte* to, int codes, const PlaceOf& place_of) {
  for (int i = 0; i < codes; ++i) {
    const auto [source, target] = place_of(i);
    const int code = std::to_integer<int>(from[source.byte]) >> source.shift & Codec::kMask;
    put_code(to, target, Codec::kMask, static_cast<std::uint8_t>(code));
  }
}

template <class Codec>
void copy_pruned(const std::byte* from, int from_slot, std::byte* to, int to_slot, int dim) {
  const std::ptrdiff_t bytes = Codec::row_bytes(dim);
  std::memmove(to + to_slot * bytes, from + from_slot * bytes, static_cast<size_t>(bytes));
}

template <class Codec, class IndexOf>
void copy_numbers(const std::byte* from, std::byte* to, int dim, const IndexOf& index_of) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(typename Codec::Stored));
  for (int i = 0; i < dim; ++i) {
    const auto [source, target] = index_of(i);
    std::memcpy(to + target * kSize, from + source * kSize, static_cast<size_t>(kSize));
  }
}

}  // namespace

void encode_k(const KvView& view, const RowPlace& place, const float* row) {
  visit_codec(view.layout.k_format, [&](auto codec) {
    using Codec = decltype(codec);
    const int dim = view.layout.shape.k_dim;
    const std::span values(row, static_cast<size_t>(dim));
    std::byte* head = view.k_head(place.block, place.head);
    float scale = 1.0F;
    if constexpr (kIsPacked<Codec>) {
      const auto at = [&](int d) { return Codec::k_place(view.layout.block_tokens, place.slot, d); };
      scale = encode_packed<Codec>(values, kCodeQuad * Codec::kPerByte * Codec::k_groups(dim), head, at);
    } else if constexpr (kIsPruned<Codec>) {
      encode_pruned<Codec>(values, head, place.slot);
    } else {
      scale = encode_numbers<Codec>(values, head, [&](int d) { return view.k_index(place.slot, d); });
    }
    if (kHasScale<Codec>) store_scale(view.k_scales(place.block, place.head), place.slot, scale);
  });
}

void encode_v(const KvView& view, const RowPlace& place, const float* row) {
  visit_codec(view.layout.v_format, [&](auto codec) {
    using Codec = decltype(codec);
    const int dim = view.layout.shape.v_dim;
    const std::span values(row, static_cast<size_t>(dim));
    std::byte* head = view.v_head(place.block, place.head);
    float scale = 1.0F;
    if constexpr (kIsPacked<Codec>) {
      const auto at = [&](int d) { return Codec::v_place(view.layout.block_tokens, dim, place.slot, d); };
      scale = encode_packed<Codec>(values, Codec::kPerByte * Codec::v_columns(dim), head, at);
    } else if constexpr (kIsPruned<Codec>) {
      encode_pruned<Codec>(values, head, place.slot);
    } else {
      scale = encode_numbers<Codec>(values, head, [&](int d) { return view.v_index(place.slot, d); });
    }
    if (kHasScale<Codec>) store_scale(view.v_scales(place.block, place.head), place.slot, scale);
  });
}

void decode_k(const KvView& view, const RowPlace& place, float* row) {
  visit_codec(view.layout.k_format, [&](auto codec) {
    using Codec = decltype(codec);
    const int dim = view.layout.shape.k_dim;
    const std::byte* head = view.k_head(place.block, place.head);
    const float scale = kHasScale<Codec> ? load_scale(view.k_scales(place.block, place.head), place.slot) : 1.0F;
    if constexpr (kIsPacked<Codec>) {
      const auto at = [&](int d) { return Codec::k_place(view.layout.block_tokens, place.slot, d); };
      decode_packed<Codec>(head, at, scale, row, dim);
    } else if constexpr (kIsPruned<Codec>) {
      decode_pruned<Codec>(head, place.slot, row, dim);
    } else {
      decode_numbers<Codec>(
          head, [&](int d) { return view.k_index(place.slot, d); }, scale, row, dim);
    }
  });
}

void decode_v(const KvView& view, const RowPlace& place, float* row) {
  visit_codec(view.layout.v_format, [&](auto codec) {
    using Codec = decltype(codec);
    const int dim = view.layout.shape.v_dim;
    const std::byte* head = view.v_head(place.block, place.head);
    const float scale = kHasScale<Codec> ? load_scale(view.v_scales(place.block, place.head), place.slot) : 1.0F;
    if constexpr (kIsPacked<Codec>) {
      const auto at = [&](int d) { return Codec::v_place(view.layout.block_tokens, dim, place.slot, d); };
      decode_packed<Codec>(head, at, scale, row, dim);
    } else if constexpr (kIsPruned<Codec>) {
      decode_pruned<Codec>(head, place.slot, row, dim);
    } else {
      decode_numbers<Codec>(
          head, [&](int d) { return view.v_index(place.slot, d); }, scale, row, dim);
    }
  });
}

void copy_row(const KvView& view, const RowPlace& from, const RowPlace& to) {
  const KvLayout& layout = view.layout;
  const int tokens = layout.block_tokens;
  visit_codec(layout.k_format, [&](auto codec) {
    using Codec = decltype(codec);
    const int dim = layout.shape.k_dim;
    const std::byte* source = view.k_head(from.block, from.head);
    std::byte* target = view.k_head(to.block, to.head);
    if constexpr (kIsPacked<Codec>) {
      const auto at = [&](int d) {
        return std::pair(Codec::k_place(tokens, from.slot, d), Codec::k_place(tokens, to.slot, d));
      };
      copy_packed<Codec>(source, target, kCodeQuad * Codec::kPerByte * Codec::k_groups(dim), at);
    } else if constexpr (kIsPruned<Codec>) {
      copy_pruned<Codec>(source, from.slot, target, to.slot, dim);
    } else {
      copy_numbers<Codec>(source, target, dim,
                          [&](int d) { return std::pair(view.k_index(from.slot, d), view.k_index(to.slot, d)); });
    }
    if (kHasScale<Codec>) {
      store_scale(view.k_scales(to.block, to.head), to.slot,
                  load_scale(view.k_scales(from.block, from.head), from.slot));
    }
  });
  visit_codec(layout.v_format, [&](auto codec) {
    using Codec = decltype(codec);
    const int dim = layout.shape.v_dim;
    const std::byte* source = view.v_head(from.block, from.head);
    std::byte* target = view.v_head(to.block, to.head);
    if constexpr (kIsPacked<Codec>) {
      const auto at = [&](int d) {
        return std::pair(Codec::v_place(tokens, dim, from.slot, d), Codec::v_place(tokens, dim, to.slot, d));
      };
      copy_packed<Codec>(source, target, Codec::kPerByte * Codec::v_columns(dim), at);
    } else if constexpr (kIsPruned<Codec>) {
      copy_pruned<Codec>(source, from.slot, target, to.slot, dim);
    } else {
      copy_numbers<Codec>(source, target, dim,
                          [&](int d) { return std::pair(view.v_index(from.slot, d), view.v_index(to.slot, d)); });
    }
    if (kHasScale<Codec>) {
      store_scale(view.v_scales(to.block, to.head), to.slot,
                  load_scale(view.v_scales(from.block, from.head), from.slot));
    }
  });
}

void move_row(const KvView& view, const BlockId* blocks, const RowMove& move) {
  const int size = view.layout.block_tokens;
  copy_row(view, {blocks[move.from / size], move.head, move.from % size},
           {blocks[move.to / size], move.head, move.to % size});
}

void turn(KvFormat format, float* row, int dim) {
  if (is_rotated(format)) hadamard(row, dim);
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
