// Weights as the cpu's matmul reads them: panels of 16 outputs, each [inputs][16], in the type of the file.
//
// A panel is one contiguous stream; a thread that works on eight panels reads eight streams at once.
#pragma once

#include "backend/backend.h"
#include "backend/buffer.h"
#include "backend/cpu/kernels.h"

namespace kvasir::cpu {

struct PanelWeight final : Weight {
  using Weight::Weight;

  DType dtype = DType::kF32;
  Buffer panels_memory;  // [panels][inputs][16], the last panel padded with zeros

  std::span<const std::byte> memory() const override {
    return {panels_memory.as<std::byte>(), static_cast<size_t>(panels() * panel_elements()) * block_bytes(dtype)};
  }
  int panels() const { return (outputs() + kLanes - 1) / kLanes; }
  std::int64_t panel_elements() const { return static_cast<std::int64_t>(inputs()) * kLanes; }
  std::byte* at(int panel, int input) const {
    return panels_memory.as<std::byte>() + (panel * panel_elements() + static_cast<std::int64_t>(input) * kLanes) *
                                               static_cast<std::int64_t>(block_bytes(dtype));
  }
};

inline const PanelWeight& mine(const Weight& weight) { return static_cast<const PanelWeight&>(weight); }

}  // namespace kvasir::cpu
