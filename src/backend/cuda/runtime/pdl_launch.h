// Programmatic dependent launch (PDL): a kernel may start before its predecessor on the stream has ended.
//
// Such a kernel first does what its predecessors do not influence (filling pipelines with weights), then calls
// pdl_wait(), and only then touches memory that they read or write. Every kernel that launch_pdl() launches must call
// it.
#pragma once

#include <cuda_runtime.h>

#include "backend/cuda/capability.h"
#include "backend/cuda/runtime/cuda_check.h"

namespace kvasir::cuda {

struct LaunchShape {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  unsigned cluster = 1;  // CTAs along x
};

template <class... Parameters, class... Arguments>
void launch_pdl(const char* name, void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream,
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

__device__ __forceinline__ void pdl_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel on the stream start. Its pdl_wait() still waits until this kernel has ended.
__device__ __forceinline__ void pdl_trigger() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

}  // namespace kvasir::cuda
