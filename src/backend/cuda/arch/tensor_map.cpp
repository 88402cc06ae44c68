#include "backend/cuda/arch/tensor_map.h"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include "backend/cuda/runtime/cuda_check.h"
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

struct Tensor {
  cuuint32_t indices = 0;
  cuuint64_t sizes[3] = {};
  cuuint64_t strides[2] = {};
  cuuint32_t box[3] = {};
};

// L2 promotion is off: boxes have rows of 128 bytes, and with larger fetches the two halves of L2 exchange a quarter
// more than is read.
CUtensorMap make_map(const void* data, const Tensor& tensor, Number number, TmaSwizzle swizzle) {
  constexpr CUtensorMapSwizzle kSwizzles[] = {CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_32B,
                                              CU_TENSOR_MAP_SWIZZLE_128B};
  static const Encode encode = find_encoder();
  CUtensorMap map;
  const CUtensorMapDataType type =
      number == Number::kF16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const cuuint32_t element_strides[3] = {1, 1, 1};
  const CUresult result =
      encode(&map, type, tensor.indices, const_cast<void*>(data), tensor.sizes, tensor.strides, tensor.box,
             element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, kSwizzles[static_cast<size_t>(swizzle)],
             CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) fail_system("the driver refused a tensor map, error " + std::to_string(result), "cuda");
  return map;
}

}  // namespace

CUtensorMap make_tensor_map(const TmaMatrix& matrix) {
  const Tensor tensor{2,
                      {static_cast<cuuint64_t>(matrix.cols), static_cast<cuuint64_t>(matrix.rows)},
                      {static_cast<cuuint64_t>(matrix.ld) * 2},
                      {kBoxCols, static_cast<cuuint32_t>(matrix.box_rows)}};
  return make_map(matrix.data, tensor, matrix.number, matrix.swizzle);
}

CUtensorMap make_tensor_map_3d(const TmaTensor3d& rows) {
  Tensor tensor;
  tensor.indices = 3;
  for (size_t i = 0; i < 3; ++i) {
    tensor.sizes[i] = static_cast<cuuint64_t>(rows.sizes[i]);
    tensor.box[i] = static_cast<cuuint32_t>(rows.box[i]);
  }
  for (size_t i = 0; i < 2; ++i) tensor.strides[i] = static_cast<cuuint64_t>(rows.strides[i]);
  return make_map(rows.data, tensor, rows.number, rows.swizzle);
}

}  // namespace kvasir::cuda
