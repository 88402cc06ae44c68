#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <type_traits>

#include "backend/cuda/arch/numbers.cuh"
#include "backend/cuda/gemm/mma_gemm.h"
#include "backend/cuda/runtime/pdl_launch.h"

// A warp has 16 outputs (m16) and 8 * kTiles rows (n8), and loops over all of k. Two warps share a CTA's rows. Stages
// of 64 k come by cp.async, kStages ahead; 16-byte vectors of a row are permuted by the row's number, so that
// ldmatrix has no bank conflicts.
namespace kvasir::cuda {
namespace {

constexpr int kWarps = 2;
constexpr int kThreads = 32 * kWarps;
constexpr int kOutputs = 16 * kWarps;
constexpr int kDepth = 64;  // k of a stage: rows of 128 bytes
constexpr int kVecs = kDepth / 8;

template <int kTiles>
constexpr int kStages = kTiles == 1 ? 16 : 8;
template <int kTiles>
constexpr int kStageBytes = (kOutputs + 8 * kTiles) * kDepth * 2;

__device__ std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}

__device__ void load_matrices(std::uint32_t (&to)[4], std::uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(at));
}

template <class T>
__device__ void mma(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  if constexpr (std::is_same_v<T, __half>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// A thread's share of the copies of kRows rows: the same 16-byte vector of every eighth row.
template <int kRows>
struct Copier {
  static constexpr int kCopies = kRows * kVecs / kThreads;
  const std::byte* from;  // its first row's vector of the first stage
  std::int64_t step;      // bytes to its next row
  std::uint32_t to;       // in a stage
  int rows;               // its rows that exist
  int k;                  // of its vector

  __device__ Copier(const void* data, std::int64_t ld, int first, int all_rows) {
    const int row = static_cast<int>(threadIdx.x) / kVecs;
    const int vec = static_cast<int>(threadIdx.x) % kVecs;
    k = vec * 8;
    from = static_cast<const std::byte*>(data) + ((first + row) * ld + k) * 2;
    step = kThreads / kVecs * ld * 2;
    to = static_cast<std::uint32_t>(row * kDepth * 2 + ((vec ^ (row % 8)) * 16));
    rows = (all_rows - first - row + kThreads / kVecs - 1) / (kThreads / kVecs);
  }

  // Copies a stage; zeros beyond the matrix.
  __device__ void copy(const void* any, int stage, int inputs, std::uint32_t base) const {
    const bool inside_k = k + stage * kDepth < inputs;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const bool inside = inside_k && i < rows;
      const void* at = inside ? from + i * step + stage * (kDepth * 2) : any;
      const std::uint32_t to_smem = base + to + static_cast<std::uint32_t>(i * kThreads / kVecs * kDepth * 2);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to_smem), "l"(at), "r"(inside ? 16 : 0));
    }
  }
};
static_assert(kThreads / kVecs == 8, "a thread's rows have one permutation");

// The address of a vector of a stage's row.
__device__ std::uint32_t vec_at(std::uint32_t base, int row, int vec) {
  return base + static_cast<std::uint32_t>(row * kDepth * 2 + ((vec ^ (row % 8)) * 16));
}

template <class T, int kTiles>
__device__ void multiply_stage(std::uint32_t w, std::uint32_t x, float (&sums)[kTiles][4]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
#pragma unroll
  for (int step = 0; step < kDepth / 16; step += 2) {
    std::uint32_t a[2][4];
    // Rows 0..7 and 8..15 of the first 8 k, then of the other 8.
#pragma unroll
    for (int i = 0; i < 2; ++i) load_matrices(a[i], vec_at(w, warp * 16 + lane % 16, (step + i) * 2 + lane / 16));
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      std::uint32_t b[4];  // 8 rows, 32 k
      load_matrices(b, vec_at(x, tile * 8 + lane % 8, step * 2 + lane / 8));
      mma<T>(sums[tile], a[0], b[0], b[1]);
      mma<T>(sums[tile], a[1], b[2], b[3]);
    }
  }
}

template <int kTiles>
__device__ void store(const GemmArgs& p, int first_output, int first_row, const float (&sums)[kTiles][4]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int output = first_output + lane / 4 + (i / 2) * 8;
      const int row = first_row + tile * 8 + (lane % 4) * 2 + i % 2;
      if (output >= p.outputs || row >= p.rows) continue;
      const float sum = sums[tile][i];
      if (p.has_swiglu()) {
        static_cast<__nv_bfloat16*>(p.gate_up_out)[row * p.ld_out + output] = to_number(sum, __nv_bfloat16());
        continue;
      }
      p.out[row * p.ld_out + output] = p.bias == nullptr ? sum : sum + p.bias[output];
    }
  }
}

template <class T, int kTiles>
__global__ void __launch_bounds__(kThreads) mma_kernel(const __grid_constant__ GemmArgs p) {
  extern __shared__ uint4 mma_stages[];
  const std::uint32_t base = shared_address(mma_stages);
  const int first_output = static_cast<int>(blockIdx.x) * kOutputs;
  const int first_row = static_cast<int>(blockIdx.y) * kTiles * 8;
  const Copier<kOutputs> weights(p.w, p.ld_w, first_output, p.outputs);
  const Copier<kTiles * 8> rows(p.x, p.ld_x, first_row, p.rows);
  const int stages = (p.inputs + kDepth - 1) / kDepth;
  const auto weights_at = [&](int stage) {
    return base + static_cast<std::uint32_t>(stage % kStages<kTiles> * kStageBytes<kTiles>);
  };
  const auto rows_at = [&](int stage) { return weights_at(stage) + kOutputs * kDepth * 2; };
  const auto copy = [&](int stage) {
    if (stage < stages) {
      weights.copy(p.w, stage, p.inputs, weights_at(stage));
      rows.copy(p.x, stage, p.inputs, rows_at(stage));
    }
    asm volatile("cp.async.commit_group;");
  };

  pdl_wait();
  for (int stage = 0; stage < kStages<kTiles> - 1; ++stage) copy(stage);
  float sums[kTiles][4] = {};
  for (int stage = 0; stage < stages; ++stage) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages<kTiles> - 2));
    __syncthreads();
    copy(stage + kStages<kTiles> - 1);
    multiply_stage<T, kTiles>(weights_at(stage), rows_at(stage), sums);
  }
  asm volatile("cp.async.wait_group 0;");
  store<kTiles>(p, first_output + static_cast<int>(threadIdx.x / 32) * 16, first_row, sums);
}

template <class T, int kTiles>
void launch(const GemmArgs& gemm, cudaStream_t stream) {
  constexpr int kBytes = kStages<kTiles> * kStageBytes<kTiles>;
  check(cudaFuncSetAttribute(mma_kernel<T, kTiles>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
        "mma_kernel's shared memory");
  const dim3 grid(static_cast<unsigned>((gemm.outputs + kOutputs - 1) / kOutputs),
                  static_cast<unsigned>((gemm.rows + kTiles * 8 - 1) / (kTiles * 8)));
  launch_pdl("mma_kernel", mma_kernel<T, kTiles>, {grid, dim3(kThreads), kBytes}, stream, gemm);
}

template <class T>
void launch_for(const GemmArgs& gemm, cudaStream_t stream) {
  if (gemm.rows <= 8) return launch<T, 1>(gemm, stream);
  if (gemm.rows <= 16) return launch<T, 2>(gemm, stream);
  launch<T, 8>(gemm, stream);
}

}  // namespace

void multiply_mma(const GemmArgs& gemm, cudaStream_t stream) {
  if (gemm.number == Number::kF16) return launch_for<__half>(gemm, stream);
  launch_for<__nv_bfloat16>(gemm, stream);
}

}  // namespace kvasir::cuda
