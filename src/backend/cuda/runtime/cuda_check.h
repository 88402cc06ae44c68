// CUDA's return codes as kvasir::Error.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "base/error.h"

namespace kvasir::cuda {

// Throws Error unless all went well: check(cudaMalloc(...), "allocating 3 MB of device memory").
inline void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // clears it, unless it is sticky
  const char* fix = result == cudaErrorMemoryAllocation
                        ? "the device's memory is full: ask for a smaller cache or model"
                        : "see nvidia-smi, or run with --device cpu";
  fail_system(std::string(what) + ": " + cudaGetErrorString(result) + " (" + cudaGetErrorName(result) + ")", "cuda",
              fix);
}

// Checks the launch itself; errors of the running kernel show up at a later call.
inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

}  // namespace kvasir::cuda
