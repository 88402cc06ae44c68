// NVIDIA GPUs of compute capability 8.0 and more, one backend each. No CUDA header here: all else of the project sees
// this one alone.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/activations.h"
#include "backend/backend.h"
#include "backend/limits.h"

namespace kvasir {

// The names of the devices that make_cuda_backend takes, in its numbering. Empty when there is no GPU it can use, no
// driver or one too old, or when this build has no CUDA; never throws for those.
std::vector<std::string> cuda_devices();

// `device` is of those. `processors`: see BackendOptions. Throws Error when it is not, or cannot be used.
std::unique_ptr<Backend> make_cuda_backend(int device, Activations activations, int processors = 0);

// Of the device in use, which has `memory`; that outlives them. How fast it multiplies is not known.
std::unique_ptr<Limits> make_cuda_limits(std::span<const std::span<const std::byte>> memory);

}  // namespace kvasir
