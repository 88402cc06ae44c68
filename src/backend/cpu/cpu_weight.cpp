#include "backend/cpu/cpu_weight.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/quant/decode.h"
#include "base/check.h"
#include "base/error.h"
#include "layout/codec.h"

namespace kvasir::cpu {
namespace {

const std::byte* row_of(std::span<const HostWeight> stacked, int row) {
  for (const HostWeight& weight : stacked) {
    if (row < weight.rows) {
      return weight.bytes.data() + static_cast<size_t>(row) * row_bytes(weight.dtype, weight.cols);
    }
    row -= weight.rows;
  }
  return nullptr;
}

// Transposes up to 16 rows of row_bytes bytes into [row_bytes / sizeof(Unit)][16] units. The rows may be unaligned in
// their file, and end inside a unit: the rest of it is zero.
template <class Unit>
void pack_panel(const std::byte* const (&rows)[kLanes], size_t row_bytes, std::byte* to) {
  constexpr size_t kChunk = 64;
  Unit* out = reinterpret_cast<Unit*>(to);
  Unit line[kLanes][kChunk] = {};
  for (size_t at = 0; at < row_bytes; at += sizeof line[0]) {
    const size_t bytes = std::min(sizeof line[0], row_bytes - at);
    const size_t units = (bytes + sizeof(Unit) - 1) / sizeof(Unit);
    for (int r = 0; r < kLanes; ++r) {
      if (rows[r] == nullptr) continue;
      line[r][units - 1] = 0;
      std::memcpy(line[r], rows[r] + at, bytes);
    }
    for (size_t i = 0; i < units; ++i) {
      for (int r = 0; r < kLanes; ++r) *out++ = line[r][i];
    }
  }
}

template <class Codec>
void decode_output(const PanelWeight& weight, int output, float* out) {
  const Groups groups = panel_groups(weight.dtype);
  const std::byte* panel = weight.at(output / kLanes, 0);
  const size_t lane = static_cast<size_t>(output % kLanes) * static_cast<size_t>(groups.inputs);
  for (int i = 0; i < weight.inputs(); ++i) {
    typename Codec::Stored stored;
    const size_t element = lane + static_cast<size_t>(i % groups.inputs);
    std::memcpy(
        &stored,
        panel + static_cast<size_t>(i / groups.inputs) * static_cast<size_t>(groups.bytes) + element * sizeof stored,
        sizeof stored);
    out[i] = Codec::decode(stored);
  }
}

std::unique_ptr<PanelWeight> empty_panels(std::span<const HostWeight> stacked, DType type, WeightMemory& memory) {
  if (const WeightQuantization form = stacked.front().form; form != WeightQuantization::kAsStored) {
    fail_usage(fmt::format("the cpu backend takes weights as they are stored, and not as {}", name_of(form)),
               "--weights", "use --device cuda:0, or a file of 8 bits: kvasir convert -o model.gguf --weights q8_0");
  }
  int outputs = 0;
  for (const HostWeight& weight : stacked) {
    CHECK(weight.cols == stacked.front().cols && weight.dtype == stacked.front().dtype);
    outputs += weight.rows;
  }
  auto panels = std::make_unique<PanelWeight>(outputs, stacked.front().cols, type);
  panels->panels_memory = memory.allocate(static_cast<size_t>(panels->panels() * panels->panel_bytes()));
  return panels;
}

}  // namespace

std::unique_ptr<PanelWeight> pack_weights(std::span<const HostWeight> stacked, WeightMemory& memory, ThreadPool& pool) {
  auto packed = empty_panels(stacked, stacked.front().dtype, memory);
  const size_t bytes = row_bytes(packed->dtype, packed->inputs());
  pool.parallel_for(packed->panels(), [&](std::int64_t panel, int) {
    const std::byte* rows[kLanes];
    for (int r = 0; r < kLanes; ++r) rows[r] = row_of(stacked, static_cast<int>(panel) * kLanes + r);
    std::byte* to = packed->at(static_cast<int>(panel), 0);
    if (is_quantized(packed->dtype)) {
      pack_quantized(packed->dtype, rows, packed->inputs(), to);
    } else if (packed->dtype == DType::kF16) {
      pack_panel<std::uint16_t>(rows, bytes, to);
    } else {
      pack_panel<std::uint32_t>(rows, bytes, to);  // of bf16 a pair
    }
  });
  return packed;
}

std::unique_ptr<PanelWeight> pack_decoded(std::span<const HostWeight> stacked, WeightMemory& memory, ThreadPool& pool) {
  const DType type = stacked.front().dtype;
  auto packed = empty_panels(stacked, DType::kF32, memory);
  const auto inputs = static_cast<size_t>(packed->inputs());
  pool.parallel_for(packed->panels(), [&](std::int64_t panel, int) {
    std::vector<float> decoded(kLanes * inputs);
    const std::byte* rows[kLanes];
    for (int r = 0; r < kLanes; ++r) {
      const std::byte* from = row_of(stacked, static_cast<int>(panel) * kLanes + r);
      float* to = &decoded[static_cast<size_t>(r) * inputs];
      if (from != nullptr) decode_row(type, from, packed->inputs(), to);
      rows[r] = from == nullptr ? nullptr : reinterpret_cast<const std::byte*>(to);
    }
    pack_panel<std::uint32_t>(rows, inputs * sizeof(float), packed->at(static_cast<int>(panel), 0));
  });
  return packed;
}

void read_output(const PanelWeight& weight, int output, float* out) {
  switch (weight.dtype) {
    case DType::kF32:
      return decode_output<CodecF32>(weight, output, out);
    case DType::kF16:
      return decode_output<CodecF16>(weight, output, out);
    case DType::kBF16:
      return decode_output<CodecBF16>(weight, output, out);
    default:
      return read_quantized(weight.dtype, weight.at(output / kLanes, 0), output % kLanes, weight.inputs(), out);
  }
}

}  // namespace kvasir::cpu
