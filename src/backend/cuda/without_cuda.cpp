// Implements cuda_backend.h in a build without CUDA.
#include <fmt/format.h>

#include "backend/cuda/cuda_backend.h"
#include "base/error.h"

namespace kvasir {

std::vector<std::string> cuda_devices() { return {}; }

std::unique_ptr<Backend> make_cuda_backend(int device, ActivationPrecision /*activations*/, int /*sm_count*/) {
  fail_usage("this build of kvasir has no CUDA", fmt::format("cuda:{}", device),
             "use --device cpu, or install CUDA 13 with nvcc and build again");
}

std::unique_ptr<Limits> make_cuda_limits(std::span<const std::span<const std::byte>> /*memory*/) { return nullptr; }

}  // namespace kvasir
