#include "backend/cuda/tensor_map.h"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include "backend/cuda/cuda_check.h"
#include "base/error.h"

namespace kvasir::cuda {
namespace {

using Encode = PFN_cuTensorMapEncodeTiled_v12000;

Encode find_encoder() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result),
        "asking the driver for cuTensorMapEncodeTiled");
  if (found == nullptr || result != cudaDriverEntryPointSuccess) {
    fail_system("the driver has no cuTensorMapEncodeTiled", "cuda", "install a driver of CUDA 12 or newer");
  }
  return reinterpret_cast<Encode>(found);
}

}  // namespace

CUtensorMap make_tensor_map(const BoxedMatrix& matrix) {
  static const Encode encode = find_encoder();
  CUtensorMap map;
  const CUtensorMapDataType type =
      matrix.number == Number::kF16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(matrix.cols), static_cast<cuuint64_t>(matrix.rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(matrix.ld) * 2};
  const cuuint32_t box[2] = {kBoxCols, static_cast<cuuint32_t>(matrix.box_rows)};
  const cuuint32_t element_strides[2] = {1, 1};
  const CUresult result = encode(&map, type, 2, const_cast<void*>(matrix.data), sizes, strides, box, element_strides,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) fail_system("the driver refused a tensor map, error " + std::to_string(result), "cuda");
  return map;
}

}  // namespace kvasir::cuda
