#include "backend/cuda/gemm/cublaslt_gemm.h"

#include <array>
#include <cstdint>

#include "base/check.h"

namespace kvasir::cuda {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;
constexpr std::uint32_t kOutAlignment = 16;

void must(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail_system(std::string(what) + ": cuBLASLt status " + std::to_string(status), "cuda");
}

}  // namespace

CublasLtGemm::CublasLtGemm() : lt_(open_cublas_lt()) {
  if (lt_ == nullptr) return;
  workspace_ = DeviceMemory(kWorkspaceBytes);
  must(lt_->create(&handle_), "opening cuBLASLt");
  must(lt_->desc_create(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product");
  const cublasOperation_t transposed = CUBLAS_OP_T;
  must(lt_->desc_set(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
       "describing a product");
  // The library is column-major: W x is the product of [inputs][outputs]' and [inputs][rows].
  must(lt_->layout_create(&weights_, CUDA_R_16BF, 8, 8, 8), "describing weights");
  must(lt_->layout_create(&rows_, CUDA_R_16BF, 8, 8, 8), "describing rows");
  must(lt_->layout_create(&out_, CUDA_R_32F, 8, 8, 8), "describing outputs");
}

CublasLtGemm::~CublasLtGemm() {
  if (lt_ == nullptr) return;
  for (cublasLtMatrixLayout_t layout : {weights_, rows_, out_}) {
    if (layout != nullptr) lt_->layout_destroy(layout);
  }
  if (operation_ != nullptr) lt_->desc_destroy(operation_);
  if (handle_ != nullptr) lt_->destroy(handle_);
}

namespace {

void* out_of(const GemmArgs& gemm) { return gemm.has_swiglu() ? gemm.gate_up_out : gemm.out; }

}  // namespace

bool CublasLtGemm::fits(const GemmArgs& gemm) {
  const std::int64_t bytes = bytes_of(gemm.has_swiglu() ? Number::kBF16 : Number::kF32);
  return gemm.ld_out * bytes % kOutAlignment == 0 &&
         reinterpret_cast<std::uintptr_t>(out_of(gemm)) % kOutAlignment == 0 && gemm.number != Number::kF32;
}

void CublasLtGemm::describe(const GemmArgs& gemm) const {
  const auto set = [&](cublasLtMatrixLayout_t layout, cudaDataType type, std::uint64_t rows, std::uint64_t cols,
                       std::int64_t ld) {
    const auto attribute = [&](cublasLtMatrixLayoutAttribute_t name, const auto& value) {
      must(lt_->layout_set(layout, name, &value, sizeof value), "describing a matrix");
    };
    attribute(CUBLASLT_MATRIX_LAYOUT_TYPE, static_cast<std::uint32_t>(type));
    attribute(CUBLASLT_MATRIX_LAYOUT_ROWS, rows);
    attribute(CUBLASLT_MATRIX_LAYOUT_COLS, cols);
    attribute(CUBLASLT_MATRIX_LAYOUT_LD, ld);
  };
  const cudaDataType type = gemm.number == Number::kF16 ? CUDA_R_16F : CUDA_R_16BF;
  const auto inputs = static_cast<std::uint64_t>(gemm.inputs);
  const auto outputs = static_cast<std::uint64_t>(gemm.outputs);
  const auto rows = static_cast<std::uint64_t>(gemm.rows);
  set(weights_, type, inputs, outputs, gemm.ld_w);
  set(rows_, type, inputs, rows, gemm.ld_x);
  set(out_, gemm.has_swiglu() ? CUDA_R_16BF : CUDA_R_32F, outputs, rows, gemm.ld_out);
}

std::vector<cublasLtMatmulAlgo_t> CublasLtGemm::suggestions(const GemmArgs& gemm, SumSplits splits,
                                                            int at_most) const {
  CHECK(available());
  describe(gemm);
  cublasLtMatmulPreference_t preference = nullptr;
  must(lt_->preference_create(&preference), "asking cuBLASLt for algorithms");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t name, const auto& value) {
    must(lt_->preference_set(preference, name, &value, sizeof value), "asking cuBLASLt for algorithms");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kWorkspaceBytes));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, kOutAlignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, kOutAlignment);
  if (splits == SumSplits::kNever) {
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE));
  }
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<size_t>(at_most));
  int count = 0;
  const cublasStatus_t status =
      lt_->heuristic(handle_, operation_, weights_, rows_, out_, out_, preference, at_most, found.data(), &count);
  lt_->preference_destroy(preference);
  std::vector<cublasLtMatmulAlgo_t> out;
  if (status != CUBLAS_STATUS_SUCCESS) return out;
  for (int i = 0; i < count; ++i) {
    const cublasLtMatmulHeuristicResult_t& entry = found[static_cast<size_t>(i)];
    if (entry.state == CUBLAS_STATUS_SUCCESS && entry.workspaceSize <= kWorkspaceBytes) out.push_back(entry.algo);
  }
  return out;
}

bool CublasLtGemm::multiply(const GemmArgs& gemm, const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream) const {
  describe(gemm);
  const float one = 1.0F;
  const float zero = 0.0F;
  return lt_->matmul(handle_, operation_, &one, gemm.w, weights_, gemm.x, rows_, &zero, out_of(gemm), out_,
                     out_of(gemm), out_, &algorithm, workspace_.data(), kWorkspaceBytes,
                     stream) == CUBLAS_STATUS_SUCCESS;
}

}  // namespace kvasir::cuda
