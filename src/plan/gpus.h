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

// Several of a kind: "4xH100", "2 x rtx4090"; without a number one.
struct GpuGroup {
  std::int64_t count = 1;
  const GpuSpec* gpu = nullptr;

  std::uint64_t memory_bytes() const { return static_cast<std::uint64_t>(count) * gpu->memory_bytes; }
};
GpuGroup gpus_named(std::string_view name);  // throws Error likewise, and for more than 1,024

}  // namespace kvasir
