// Memory of well-known GPUs, so that a plan can be made for a card one does not have.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace kvasir {

struct GpuSpec {
  std::string_view name;       // "RTX 4090"
  std::uint64_t memory_bytes;  // the size it is sold by, in decimal GB: below what the driver reports, never above
};

std::span<const GpuSpec> known_gpus();  // smallest first

// "rtx4090", "4090", "A100-80GB", "h100": case, spaces, '-', "NVIDIA", "GeForce", "RTX", "AMD" and "GB" do
// not matter. Throws Error listing the known ones.
const GpuSpec& gpu_named(std::string_view name);

}  // namespace kvasir
