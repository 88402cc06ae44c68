#include "backend/cuda/gemm/cublas_lt.h"

#include <dlfcn.h>

#include <array>

namespace kvasir::cuda {
namespace {

constexpr std::array kPaths{
    "libcublasLt.so.13",
    "/usr/local/cuda/lib64/libcublasLt.so.13",
    "/usr/local/cuda/lib/libcublasLt.so.13",
    "/usr/local/cuda/targets/x86_64-linux/lib/libcublasLt.so.13",
    "/usr/local/cuda-13/lib64/libcublasLt.so.13",
    "/usr/lib/x86_64-linux-gnu/libcublasLt.so.13",
    "/opt/cuda/lib64/libcublasLt.so.13",
    "libcublasLt.so",
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

bool find_all(void* library, CublasLt& lt) {
  return find(library, "cublasLtCreate", lt.create) && find(library, "cublasLtDestroy", lt.destroy) &&
         find(library, "cublasLtGetVersion", lt.version) && find(library, "cublasLtMatmul", lt.matmul) &&
         find(library, "cublasLtMatmulDescCreate", lt.desc_create) &&
         find(library, "cublasLtMatmulDescDestroy", lt.desc_destroy) &&
         find(library, "cublasLtMatmulDescSetAttribute", lt.desc_set) &&
         find(library, "cublasLtMatrixLayoutCreate", lt.layout_create) &&
         find(library, "cublasLtMatrixLayoutDestroy", lt.layout_destroy) &&
         find(library, "cublasLtMatrixLayoutSetAttribute", lt.layout_set) &&
         find(library, "cublasLtMatmulPreferenceCreate", lt.preference_create) &&
         find(library, "cublasLtMatmulPreferenceDestroy", lt.preference_destroy) &&
         find(library, "cublasLtMatmulPreferenceSetAttribute", lt.preference_set) &&
         find(library, "cublasLtMatmulAlgoGetHeuristic", lt.heuristic) &&
         find(library, "cublasLtMatmulAlgoConfigGetAttribute", lt.algorithm_get);
}

// The library must lay structs out as the header of this build does.
bool fits(const CublasLt& lt) { return lt.version() / 10000 == CUBLAS_VERSION / 10000; }

}  // namespace

std::unique_ptr<const CublasLt> open_cublas_lt() {
  for (const char* path : kPaths) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    auto lt = std::make_unique<CublasLt>();
    if (find_all(library, *lt) && fits(*lt)) return lt;
    dlclose(library);
  }
  return nullptr;
}

}  // namespace kvasir::cuda
