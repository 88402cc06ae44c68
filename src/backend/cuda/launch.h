// Launching kernels that may start before the one ahead of them has ended.
//
// A kernel launched so does everything that needs nothing of its forerunners (filling pipelines with weights), then
// calls wait_for_forerunners(), and only then reads or writes what they may still write or read. Every kernel
// launched so must call it.
#pragma once

#include <cuda_runtime.h>

#include "backend/cuda/capability.h"
#include "backend/cuda/cuda_check.h"

namespace kvasir::cuda {

struct LaunchShape {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  unsigned cluster = 1;  // blocks along x
};

template <class... Parameters, class... Arguments>
void launch_early(const char* name, void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream,
                  Arguments... arguments) {
  cudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (capability() >= 90) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {shape.cluster, 1, 1};
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  check(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...), name);
}

__device__ __forceinline__ void wait_for_forerunners() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// From here on the kernel behind this one may start; it still waits for this one's end before it reads its results.
__device__ __forceinline__ void let_followers_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

}  // namespace kvasir::cuda
