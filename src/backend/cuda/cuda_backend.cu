#include "backend/cuda/cuda_backend.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include "base/error.h"

namespace kvasir {

std::vector<std::string> cuda_devices() {
  std::vector<std::string> names;
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return names;
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) break;
    if (properties.major < 8) break;
    names.emplace_back(properties.name);
  }
  return names;
}

std::unique_ptr<Backend> make_cuda_backend(int device, Activations /*activations*/) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    fail_system(fmt::format("no GPU can be used: {}", cudaGetErrorString(error)), fmt::format("cuda:{}", device),
                "install NVIDIA's driver 580 or newer, or use --device cpu");
  }
  fail_usage("the CUDA backend is not there yet", fmt::format("cuda:{}", device), "use --device cpu");
}

}  // namespace kvasir
