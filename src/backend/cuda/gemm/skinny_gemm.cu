#include <array>

#include "backend/cuda/arch/warpgroup.cuh"
#include "backend/cuda/gemm/swiglu.cuh"
#include "backend/cuda/gemm/weight_pipeline.cuh"
#include "base/check.h"

namespace kvasir::cuda {
namespace {

constexpr int kRowsAtOnce = 64;  // wgmma's m

constexpr int kThreads = kWarpgroupWarps * 32 + 32;

constexpr TileKind kind_of(SkinnyShape shape) { return {shape.tile * kBoxRowBytes, kRowsAtOnce, kWarpgroupWarps}; }

enum class Outputs : std::uint8_t { kSums, kSwiglu };

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Loads 16-bit weights, a box for each 64 k.
template <int kTile, int kOfStage>
struct TileLoad {
  static constexpr int kBoxes = kOfStage;
  static __device__ int tile(const PipelinePlan&) { return kTile; }
  static __device__ int bytes(const PipelinePlan&) { return kBoxes * kTile * kBoxRowBytes; }
  static __device__ void issue(hopper::TmaBox from, std::uint32_t to, std::uint32_t barrier) {
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      hopper::tma_load(to + box * kTile * kBoxRowBytes, {from.map, from.col + box * kBoxCols, from.row}, barrier,
                       hopper::kEvictFirst);
    }
  }
};

// Loads tiles of gates and their ups, half each, in one box.
template <int kTile, int kOfStage>
struct GateUpTileLoad {
  static constexpr int kBoxes = kOfStage;
  static __device__ int tile(const PipelinePlan&) { return kTile / 2; }
  static __device__ int bytes(const PipelinePlan&) { return kBoxes * kTile * kBoxRowBytes; }
  static __device__ void issue(hopper::TmaBox from, std::uint32_t to, std::uint32_t barrier) {
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      hopper::tma_load_3d(to + box * kTile * kBoxRowBytes, {from.map, {from.col + box * kBoxCols, from.row, 0}},
                          barrier, hopper::kEvictFirst);
    }
  }
};

template <int kTile>
__device__ void store(const GemmArgs& p, int first_output, int first_row, const float (&sums)[kTile / 2]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int row = first_row + static_cast<int>(threadIdx.x / 32) * 16 + lane / 4;
#pragma unroll
  for (int i = 0; i < kTile / 2; ++i) {
    const int r = row + i % 4 / 2 * 8;
    const int output = first_output + i / 4 * 8 + lane % 4 * 2 + i % 2;
    if (r >= p.rows || output >= p.outputs) continue;
    p.out[r * p.ld_out + output] = p.bias == nullptr ? sums[i] : sums[i] + p.bias[output];
  }
}

template <int kTile>
__device__ void store_swiglu(const GemmArgs& p, int first_output, int first_row, const float (&sums)[kTile / 2]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int row = first_row + static_cast<int>(threadIdx.x / 32) * 16 + lane / 4;
  const int count = p.outputs / 2;
#pragma unroll
  for (int i = 0; i < kTile / 4; i += 2) {
    const int r = row + i % 4 / 2 * 8;
    const int output = first_output + i / 4 * 8 + lane % 4 * 2;
    if (r >= p.rows || output >= p.ld_swiglu) continue;
    const auto one = [&](int j) {
      return output + j < count ? silu_mul_rounded(sums[i + j], sums[i + j + kTile / 4]) : __nv_bfloat16(0.0F);
    };
    *reinterpret_cast<__nv_bfloat162*>(static_cast<__nv_bfloat16*>(p.swiglu_out) + r * p.ld_swiglu + output) = {
        one(0), one(1)};
  }
}

// One warpgroup multiplies what the producer loads.
template <class T, int kTile, int kBoxes, Outputs kOutputs>
struct Consumer {
  const GemmArgs& p;
  const PipelinePlan& plan;
  const CtaStages& cta;

  __device__ void multiply_tile(Cursor& cursor, float (&sums)[kTile / 2]) const {
    const std::uint64_t weights = hopper::matrix_descriptor(cta.base);
    const std::uint64_t rows = hopper::matrix_descriptor(cta.base + kBoxes * kTile * kBoxRowBytes);
    const int rows_box = plan.region_rows * kBoxRowBytes / 16;
    std::uint32_t last = 0;
    for (int k_tile = 0; k_tile < plan.k_tiles; ++k_tile) {
      hopper::wait(cta.barriers.full + cursor.barrier, cursor.parity);
      const std::uint64_t a = rows + cursor.at / 16;
      const std::uint64_t b = weights + cursor.at / 16;
      hopper::wgmma_fence();
#pragma unroll
      for (int box = 0; box < kBoxes; ++box) {
#pragma unroll
        for (int k = 0; k < kBoxCols / 16; ++k) {
          hopper::wgmma<T, kTile>(sums, a + box * rows_box + 2 * k, b + box * kTile * kBoxRowBytes / 16 + 2 * k);
        }
      }
      hopper::wgmma_commit();
      if (k_tile > 0) {
        hopper::wgmma_wait<1>();
        cta.give_back(last, plan);
      }
      last = cursor.barrier;
      cursor.next_stage(plan);
    }
    hopper::wgmma_wait<0>();
    cta.give_back(last, plan);
  }

  __device__ void run() const {
    Cursor cursor{.tile_group = cta.first_tile_group};
    for (; cursor.tile_group < plan.tile_groups * plan.passes; cursor.tile_group += cta.step) {
      float sums[kTile / 2] = {};
      multiply_tile(cursor, sums);
      const int tile = cursor.tile_group % plan.tile_groups * plan.cluster + cta.rank;
      const int row = cursor.tile_group / plan.tile_groups * kRowsAtOnce;
      if constexpr (kOutputs == Outputs::kSwiglu) {
        store_swiglu<kTile>(p, tile * kTile / 2, row, sums);
      } else {
        store<kTile>(p, tile * kTile, row, sums);
      }
    }
  }
};

#endif

template <class T, int kTile, int kBoxes, Outputs kOutputs>
__global__ void __launch_bounds__(kThreads, 1)
    skinny_gemm_kernel(const __grid_constant__ GemmArgs p, const __grid_constant__ PipelinePlan plan,
                       const __grid_constant__ CUtensorMap weights, const __grid_constant__ CUtensorMap rows) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint4 gemm_stages[];
  using Load =
      std::conditional_t<kOutputs == Outputs::kSwiglu, GateUpTileLoad<kTile, kBoxes>, TileLoad<kTile, kBoxes>>;
  run_pipeline<Load>(plan, &weights, &rows, gemm_stages, [&](const CtaStages& cta) {
    const Consumer<T, kTile, kBoxes, kOutputs> consumer{p, plan, cta};
    consumer.run();
  });
#endif
}

using Kernel = void (*)(GemmArgs, PipelinePlan, CUtensorMap, CUtensorMap);

template <class T, Outputs kOutputs, int kBoxes>
Kernel kernel_of_tile(int tile) {
  constexpr std::array<Kernel, 4> kByTile{
      skinny_gemm_kernel<T, 16, kBoxes, kOutputs>, skinny_gemm_kernel<T, 32, kBoxes, kOutputs>,
      skinny_gemm_kernel<T, 48, kBoxes, kOutputs>, skinny_gemm_kernel<T, 64, kBoxes, kOutputs>};
  return kByTile[static_cast<size_t>(tile / 16 - 1)];
}

template <class T, Outputs kOutputs>
Kernel kernel_of(SkinnyShape shape) {
  if (shape.tile == kWideTile) return skinny_gemm_kernel<T, kWideTile, 2, kOutputs>;
  return shape.boxes == 2 ? kernel_of_tile<T, kOutputs, 2>(shape.tile) : kernel_of_tile<T, kOutputs, 4>(shape.tile);
}

// All kernels of a shape; has_swiglu() implies bf16.
std::array<Kernel, 3> kernels_of(SkinnyShape shape) {
  return {kernel_of<__nv_bfloat16, Outputs::kSums>(shape), kernel_of<__half, Outputs::kSums>(shape),
          kernel_of<__nv_bfloat16, Outputs::kSwiglu>(shape)};
}

Kernel kernel_of(const GemmArgs& gemm, SkinnyShape shape) {
  const auto [bf16, f16, swiglu] = kernels_of(shape);
  return gemm.has_swiglu() ? swiglu : gemm.number == Number::kF16 ? f16 : bf16;
}

}  // namespace

SkinnyGemm::SkinnyGemm() : available_(capability() == 90) {
  if (!available_) return;
  int device = 0;
  check(cudaGetDevice(&device), "asking for the device in use");
  check(cudaDeviceGetAttribute(&shared_bytes_, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
        "asking for the device's shared memory");
  shared_bytes_ -= kBarrierBytes;
  for (const int boxes : {2, 4}) {
    for (const int tile : kSkinnyTiles) {
      if (!is_skinny_shape({tile, 1, boxes})) continue;
      for (const Kernel kernel : kernels_of({tile, 1, boxes})) {
        check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes_),
              "skinny_gemm_kernel's shared memory");
      }
    }
  }
  for (const int cluster : {1, 2, 4}) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(cluster));
    config.blockDim = dim3(kThreads);
    config.dynamicSmemBytes = static_cast<size_t>(shared_bytes_);
    config.attrs = &attribute;
    config.numAttrs = 1;
    check(cudaOccupancyMaxActiveClusters(&clusters_[static_cast<size_t>(cluster)],
                                         skinny_gemm_kernel<__nv_bfloat16, 32, 2, Outputs::kSums>, &config),
          "asking how many clusters run at once");
  }
}

namespace {

CUtensorMap weight_map(const GemmArgs& gemm, int tile) {
  if (!gemm.has_swiglu()) {
    return make_tensor_map({gemm.w, gemm.ld_w, gemm.outputs, gemm.inputs, tile, gemm.number});
  }
  const std::int64_t row = gemm.ld_w * bytes_of(gemm.number);
  const int half = gemm.outputs / 2;
  return make_tensor_map_3d(
      {gemm.w, {gemm.inputs, half, 2}, {row, row * half}, {kBoxCols, tile / 2, 2}, gemm.number, TmaSwizzle::k128});
}

}  // namespace

bool is_skinny_shape(SkinnyShape shape) {
  return std::ranges::find(kSkinnyTiles, shape.tile) != std::end(kSkinnyTiles) &&
         (shape.cluster == 1 || shape.cluster == 2 || shape.cluster == 4) &&
         (shape.boxes == 2 || (shape.boxes == 4 && shape.tile != kWideTile));
}

bool SkinnyGemm::can_do(const GemmArgs& gemm, SkinnyShape shape) const {
  return available_ && plan_for(gemm, shape, kind_of(shape), shared_bytes_).stages >= kFewestStages;
}

void SkinnyGemm::multiply(const GemmArgs& gemm, SkinnyShape shape, cudaStream_t stream) const {
  CHECK(is_skinny_shape(shape) && can_do(gemm, shape));
  const PipelinePlan plan = plan_for(gemm, shape, kind_of(shape), shared_bytes_);
  const CUtensorMap weights = weight_map(gemm, shape.tile);
  const CUtensorMap rows = make_tensor_map({gemm.x, gemm.ld_x, gemm.rows, gemm.inputs, plan.box_rows, gemm.number});
  const int clusters = std::min(plan.tile_groups * plan.passes, clusters_[static_cast<size_t>(shape.cluster)]);
  const LaunchShape launch{dim3(static_cast<unsigned>(clusters * shape.cluster)), dim3(kThreads),
                           static_cast<size_t>(shared_bytes_), static_cast<unsigned>(shape.cluster)};
  launch_pdl("skinny_gemm_kernel", kernel_of(gemm, shape), launch, stream, gemm, plan, weights, rows);
}

}  // namespace kvasir::cuda
