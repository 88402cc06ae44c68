#include "backend/cpu/row_tiles.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "layout/codec.h"

namespace kvasir::cpu {
namespace {

// Inputs that a thread packs at a time: one tile is enough work for several.
constexpr int kInputsPerItem = 512;

float rounded(float value) { return CodecBF16::decode(CodecBF16::encode(value)); }
std::uint32_t pair_of(float even, float odd) {
  return CodecBF16::encode(even) | static_cast<std::uint32_t>(CodecBF16::encode(odd)) << 16;
}

// One row's inputs [first, last) into its column of a tile; to[group * tile_rows] is where a group of `first` lies.
void pack_floats(const float* from, int count, int tile_rows, float* to) {
  for (int k = 0; k < count; ++k) to[static_cast<std::ptrdiff_t>(k) * tile_rows] = from[k];
}

void pack_rounded(const float* from, int count, int tile_rows, float* to) {
  for (int k = 0; k < count; ++k) to[static_cast<std::ptrdiff_t>(k) * tile_rows] = rounded(from[k]);
}

void pack_pairs(const float* from, int count, int tile_rows, std::uint32_t* to) {
  for (int k = 0; k + 1 < count; k += 2, to += tile_rows) *to = pair_of(from[k], from[k + 1]);
  if (count % 2 != 0) *to = pair_of(from[count - 1], 0.0F);
}

// Blocks into the parts of their row, which lie `tile_rows` apart.
void pack_blocks(std::span<const Int8Block> blocks, int zero, int tile_rows, Int8Part* to) {
  for (const Int8Block& block : blocks) {
    std::memcpy(to->quads, block.q, sizeof to->quads);
    to->starts[0] = -zero * block.sum;
    to->scale = block.scale;
    to->scaled_sum = block.scale * static_cast<float>(block.sum);
    to += tile_rows;
  }
}

static_assert(kInt8Block * 127 << kMostShift < 1 << 15, "a part's sum is one of a pair in 32 bits");

std::int32_t pair_of(std::int32_t below, std::int32_t above) { return (below & 0xffff) | above << 16; }

void pack_groups(std::span<const Int8Group> groups, int zero, int tile_rows, Int8GroupPart* to) {
  for (const Int8Group& group : groups) {
    const auto sum = [&group](int part) { return group.sums[2 * part] + group.sums[2 * part + 1]; };
    const auto shifted = [&](int part) { return sum(part) << group.shifts[part]; };
    for (int part = 0; part < kInt8Group / kInt8Block; ++part, to += tile_rows) {
      std::memcpy(to->quads, group.q + part * kInt8Block, sizeof to->quads);
      to->starts[0] = -zero * sum(part);
      to->shift = group.shifts[part];
      to->sum_pair = part % 2 == 0 ? pair_of(shifted(part), shifted(part + 1)) : 0;
      to->unit = group.unit;
    }
  }
}

void pack_halves(std::span<const Int8Group> groups, int zero, int tile_rows, Int8GroupPart* to) {
  for (const Int8Group& group : groups) {
    for (int part = 0; part < kInt8Group / kInt8Block; ++part, to += tile_rows) {
      std::memcpy(to->quads, group.q + part * kInt8Block, sizeof to->quads);
      const int shift = group.shifts[part];
      for (int half = 0; half < 2; ++half) to->starts[half] = -zero * group.sums[2 * part + half];
      to->shift = shift;
      to->sum_pair = pair_of(group.sums[2 * part] << shift, group.sums[2 * part + 1] << shift);
      to->unit = group.unit;
    }
  }
}

}  // namespace

void RowTiles::plan(const SomeRows& rows, const MatmulKernel& kernel) {
  const int tiles = (rows.count() + kernel.row_tile - 1) / kernel.row_tile;
  rows_ = rows;
  form_ = kernel.form;
  zero_ = kernel.zero;
  row_tile_ = kernel.row_tile;
  tile_rows_ = (rows.count() + tiles - 1) / tiles;
  row_bytes_ = row_groups(form_).bytes_for(rows.x.cols);
  as_they_are_ = rows.count() == 1 && form_ == RowForm::kF32;
}

int RowTiles::parts() const { return (rows_.x.cols + kInputsPerItem - 1) / kInputsPerItem; }

void RowTiles::pack(std::int64_t item) const {
  const int first_row = static_cast<int>(item / parts()) * tile_rows_;
  const int first = static_cast<int>(item % parts()) * kInputsPerItem;
  const int count = std::min(kInputsPerItem, rows_.x.cols - first);
  std::byte* tile = memory_ + first_row * row_bytes_ + tile_rows_ * row_groups(form_).bytes_for(first);
  for (int r = 0; r < std::min(tile_rows_, rows_.count() - first_row); ++r) {
    pack_row(rows_.row(first_row + r) + first, count, r, tile);
  }
}

void RowTiles::pack_row(const float* from, int count, int row, std::byte* tile) const {
  auto* floats = reinterpret_cast<float*>(tile) + row;
  switch (form_) {
    case RowForm::kEvenF32:
      if (count % 2 != 0) floats[static_cast<std::ptrdiff_t>(count) * tile_rows_] = 0.0F;
      return pack_floats(from, count, tile_rows_, floats);
    case RowForm::kF32:
      return pack_floats(from, count, tile_rows_, floats);
    case RowForm::kRoundedF32:
      if (count % 2 != 0) floats[static_cast<std::ptrdiff_t>(count) * tile_rows_] = 0.0F;
      return pack_rounded(from, count, tile_rows_, floats);
    case RowForm::kBf16Pairs:
      return pack_pairs(from, count, tile_rows_, reinterpret_cast<std::uint32_t*>(tile) + row);
    case RowForm::kInt8: {
      Int8Block blocks[kInputsPerItem / kInt8Block];
      kernels_.quantize(from, count, blocks);
      return pack_blocks({blocks, static_cast<size_t>(count / kInt8Block)}, zero_, tile_rows_,
                         reinterpret_cast<Int8Part*>(tile) + row);
    }
    case RowForm::kInt8Groups:
    case RowForm::kInt8Halves: {
      Int8Group groups[kInputsPerItem / kInt8Group];
      kernels_.quantize_groups(from, count, groups);
      const auto pack = form_ == RowForm::kInt8Groups ? &pack_groups : &pack_halves;
      return pack({groups, static_cast<size_t>(count / kInt8Group)}, zero_, tile_rows_,
                  reinterpret_cast<Int8GroupPart*>(tile) + row);
    }
  }
}

}  // namespace kvasir::cpu
