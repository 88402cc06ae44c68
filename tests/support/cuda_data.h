// Random numbers on the device, and what comes back from it.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "backend/cuda/gemm/compare_outputs.h"
#include "backend/cuda/gemm/skinny_gemm.h"
#include "backend/cuda/runtime/device_memory.h"
#include "backend/tensor.h"

namespace kvasir::testing {

inline bool has_cuda_device() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

// [rows][cols] float32 on the device, uniform in (-1, 1).
struct CudaRows {
  CudaRows(int rows, int cols, std::uint64_t seed, cudaStream_t stream)
      : memory(static_cast<size_t>(rows) * static_cast<size_t>(cols) * 4),
        matrix{reinterpret_cast<float*>(memory.data()), rows, cols, cols} {
    cuda::fill_random({memory.data(), cols, rows, cols, cuda::Number::kF32}, 1.0F, seed, stream);
  }
  cuda::DeviceMemory memory;
  Matrix matrix;
};

template <class T>
std::vector<T> download(const void* from, size_t count) {
  std::vector<T> out(count);
  cuda::check(cudaMemcpy(out.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost), "downloading");
  return out;
}

inline std::vector<cuda::SkinnyShape> all_skinny_shapes() {
  std::vector<cuda::SkinnyShape> out;
  for (const int tile : cuda::kSkinnyTiles) {
    for (const int cluster : {1, 2, 4}) {
      for (const int boxes : {2, 4}) {
        if (cuda::is_skinny_shape({tile, cluster, boxes})) out.push_back({tile, cluster, boxes});
      }
    }
  }
  return out;
}

}  // namespace kvasir::testing
