// The backend for NVIDIA GPUs of compute capability 8.0 and more. No CUDA header is included here: the rest of the
// project includes this header alone.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/activation_precision.h"
#include "backend/backend.h"
#include "backend/limits.h"

namespace kvasir {

// The names of the devices that make_cuda_backend takes, in its numbering. Empty when there is no GPU it can use, no
// driver or one too old, or when this build has no CUDA; never throws for those.
std::vector<std::string> cuda_devices();

// `device` indexes cuda_devices(). `sm_count`: BackendOptions::sm_count. Throws Error if the device cannot be used.
std::unique_ptr<Backend> make_cuda_backend(int device, ActivationPrecision activations, int sm_count = 0);

// Limits of the device in use, measured on `memory`, which outlives them. Its FLOPs are not measured.
std::unique_ptr<Limits> make_cuda_limits(std::span<const std::span<const std::byte>> memory);

}  // namespace kvasir
