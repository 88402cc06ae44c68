// Weights as the cpu's matmul reads them: panels of 16 outputs, in the type of the file.
//
// A panel is one contiguous stream; a thread that works on eight panels reads eight streams at once. Inside a panel
// come groups of neighbouring inputs, each for all 16 outputs: [inputs / group][16][group]; of quantized types as
// quant_panels.h says.
#pragma once

#include <memory>
#include <span>

#include "backend/backend.h"
#include "backend/buffer.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/quant_panels.h"
#include "backend/cpu/weight_memory.h"
#include "base/thread_pool.h"

namespace kvasir::cpu {

// How a type's panels are grouped: pairs where dot products take pairs, single inputs elsewhere.
constexpr Groups panel_groups(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return {1, kLanes * 4};
    case DType::kF16:
      return {1, kLanes * 2};
    case DType::kBF16:
      return {2, kLanes * 4};
    default:
      return {quant_panel(dtype).group_inputs(), quant_panel(dtype).group_bytes()};
  }
}

struct PanelWeight final : Weight {
  PanelWeight(int outputs, int inputs, DType type) : Weight(outputs, inputs), dtype(type) {}

  DType dtype;
  Buffer panels_memory;  // [panels][panel_bytes], outputs and inputs that fill up the last panel and group are zero

  std::span<const std::byte> memory() const override {
    return {panels_memory.as<std::byte>(), static_cast<size_t>(panels() * panel_bytes())};
  }
  int panels() const { return (outputs() + kLanes - 1) / kLanes; }
  std::int64_t panel_bytes() const { return panel_groups(dtype).bytes_for(inputs()); }
  // `input` is the first of a group.
  std::byte* at(int panel, int input) const {
    return panels_memory.as<std::byte>() + panel * panel_bytes() + panel_groups(dtype).bytes_for(input);
  }
};

inline const PanelWeight& mine(const Weight& weight) { return static_cast<const PanelWeight&>(weight); }

// Copies the weights, one below the other, into panels of their own type, or of float32: exactly what they stand for.
std::unique_ptr<PanelWeight> pack_weights(std::span<const HostWeight> stacked, WeightMemory& memory, ThreadPool& pool);
std::unique_ptr<PanelWeight> pack_decoded(std::span<const HostWeight> stacked, WeightMemory& memory, ThreadPool& pool);

// The weights of one output as floats, exactly: what an embedding is. out has weight.inputs() elements.
void read_output(const PanelWeight& weight, int output, float* out);

}  // namespace kvasir::cpu
