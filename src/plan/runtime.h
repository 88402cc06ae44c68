// What serving takes on a device whatever the model: the program and its libraries, what requests and connections hold,
// and on a GPU the driver's context, kernels and the workspaces of products. Rounded up: the first of what a server held
// after 10,000 requests; the second is an assumption that nobody measured yet. Activations are not in it: their sizes
// follow from a model (model/decoder.h).
#pragma once

#include <cstdint>
#include <string_view>

namespace kvasir {

inline constexpr std::uint64_t kProgramBytes = 64'000'000;
inline constexpr std::uint64_t kCudaProgramBytes = 700'000'000;

inline constexpr std::uint64_t program_bytes(std::string_view device) {
  return device.starts_with("cuda") ? kCudaProgramBytes : kProgramBytes;
}

}  // namespace kvasir
