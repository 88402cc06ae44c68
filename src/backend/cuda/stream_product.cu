#include <array>

#include "backend/cuda/gates.cuh"
#include "backend/cuda/stream_stages.cuh"
#include "backend/cuda/warpgroup.cuh"
#include "base/check.h"

namespace kvasir::cuda {
namespace {

constexpr int kRowsAtOnce = 64;  // wgmma's m

constexpr int kThreads = kGroupWarps * 32 + 32;

constexpr StreamKind kind_of(StreamShape shape) { return {shape.tile * kBoxRowBytes, kRowsAtOnce, kGroupWarps}; }

enum class Outputs : std::uint8_t { kSums, kGated };

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Weights of 16 bits, in boxes of their own.
template <int kTile, int kOfStage>
struct BoxFeed {
  static constexpr int kBoxes = kOfStage;
  static __device__ int tile(const StreamPlan&) { return kTile; }
  static __device__ int bytes(const StreamPlan&) { return kBoxes * kTile * kBoxRowBytes; }
  static __device__ void ask(hopper::BoxAt from, std::uint32_t to, std::uint32_t barrier) {
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      hopper::copy_box(to + box * kTile * kBoxRowBytes, {from.map, from.col + box * kBoxCols, from.row}, barrier,
                       hopper::kEvictFirst);
    }
  }
};

// The same where a tile is gates and the ups that belong to them, half of it each: a box of both.
template <int kTile, int kOfStage>
struct GatedFeed {
  static constexpr int kBoxes = kOfStage;
  static __device__ int tile(const StreamPlan&) { return kTile / 2; }
  static __device__ int bytes(const StreamPlan&) { return kBoxes * kTile * kBoxRowBytes; }
  static __device__ void ask(hopper::BoxAt from, std::uint32_t to, std::uint32_t barrier) {
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      hopper::copy_box_in_3d(to + box * kTile * kBoxRowBytes, {from.map, {from.col + box * kBoxCols, from.row, 0}},
                             barrier, hopper::kEvictFirst);
    }
  }
};

template <int kTile>
__device__ void store(const Product& p, int first_output, int first_row, const float (&sums)[kTile / 2]) {
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
__device__ void store_gated(const Product& p, int first_output, int first_row, const float (&sums)[kTile / 2]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int row = first_row + static_cast<int>(threadIdx.x / 32) * 16 + lane / 4;
  const int count = p.outputs / 2;
#pragma unroll
  for (int i = 0; i < kTile / 4; i += 2) {
    const int r = row + i % 4 / 2 * 8;
    const int output = first_output + i / 4 * 8 + lane % 4 * 2;
    if (r >= p.rows || output >= p.ld_gated) continue;
    const auto one = [&](int j) {
      return output + j < count ? gated_rounded(sums[i + j], sums[i + j + kTile / 4]) : __nv_bfloat16(0.0F);
    };
    *reinterpret_cast<__nv_bfloat162*>(static_cast<__nv_bfloat16*>(p.gated_out) + r * p.ld_gated + output) = {one(0),
                                                                                                            one(1)};
  }
}

// One warpgroup: multiplies what the producer asked for.
template <class T, int kTile, int kBoxes, Outputs kOutputs>
struct Consumer {
  const Product& p;
  const StreamPlan& plan;
  const BlockStages& block;

  __device__ void multiply_tile(Cursor& cursor, float (&sums)[kTile / 2]) const {
    const std::uint64_t weights = hopper::matrix_descriptor(block.base);
    const std::uint64_t rows = hopper::matrix_descriptor(block.base + kBoxes * kTile * kBoxRowBytes);
    const int rows_box = plan.region_rows * kBoxRowBytes / 16;
    std::uint32_t last = 0;
    for (int chunk = 0; chunk < plan.chunks; ++chunk) {
      hopper::wait(block.barriers.full + cursor.barrier, cursor.parity);
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
      if (chunk > 0) {
        hopper::wgmma_wait<1>();
        block.give_back(last, plan);
      }
      last = cursor.barrier;
      cursor.next_stage(plan);
    }
    hopper::wgmma_wait<0>();
    block.give_back(last, plan);
  }

  __device__ void run() const {
    Cursor cursor{.group = block.first_group};
    for (; cursor.group < plan.groups * plan.passes; cursor.group += block.step) {
      float sums[kTile / 2] = {};
      multiply_tile(cursor, sums);
      const int tile = cursor.group % plan.groups * plan.cluster + block.rank;
      const int row = cursor.group / plan.groups * kRowsAtOnce;
      if constexpr (kOutputs == Outputs::kGated) {
        store_gated<kTile>(p, tile * kTile / 2, row, sums);
      } else {
        store<kTile>(p, tile * kTile, row, sums);
      }
    }
  }
};

#endif

template <class T, int kTile, int kBoxes, Outputs kOutputs>
__global__ void __launch_bounds__(kThreads, 1)
    stream_kernel(const __grid_constant__ Product p, const __grid_constant__ StreamPlan plan,
                  const __grid_constant__ CUtensorMap weights, const __grid_constant__ CUtensorMap rows) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint4 stream_stages[];
  using Feed = std::conditional_t<kOutputs == Outputs::kGated, GatedFeed<kTile, kBoxes>, BoxFeed<kTile, kBoxes>>;
  stream_through<Feed>(plan, &weights, &rows, stream_stages, [&](const BlockStages& block) {
    const Consumer<T, kTile, kBoxes, kOutputs> consumer{p, plan, block};
    consumer.run();
  });
#endif
}

using Kernel = void (*)(Product, StreamPlan, CUtensorMap, CUtensorMap);

template <class T, Outputs kOutputs, int kBoxes>
Kernel kernel_of_tile(int tile) {
  constexpr std::array<Kernel, 4> kByTile{
      stream_kernel<T, 16, kBoxes, kOutputs>, stream_kernel<T, 32, kBoxes, kOutputs>,
      stream_kernel<T, 48, kBoxes, kOutputs>, stream_kernel<T, 64, kBoxes, kOutputs>};
  return kByTile[static_cast<size_t>(tile / 16 - 1)];
}

template <class T, Outputs kOutputs>
Kernel kernel_of(StreamShape shape) {
  if (shape.tile == kWideTile) return stream_kernel<T, kWideTile, 2, kOutputs>;
  return shape.boxes == 2 ? kernel_of_tile<T, kOutputs, 2>(shape.tile) : kernel_of_tile<T, kOutputs, 4>(shape.tile);
}

// All there are of a shape: products that gate are of bf16.
std::array<Kernel, 3> kernels_of(StreamShape shape) {
  return {kernel_of<__nv_bfloat16, Outputs::kSums>(shape), kernel_of<__half, Outputs::kSums>(shape),
          kernel_of<__nv_bfloat16, Outputs::kGated>(shape)};
}

Kernel kernel_of(const Product& product, StreamShape shape) {
  const auto [bf16, f16, gated] = kernels_of(shape);
  return product.gates() ? gated : product.number == Number::kF16 ? f16 : bf16;
}

}  // namespace

StreamProduct::StreamProduct() : available_(capability() == 90) {
  if (!available_) return;
  int device = 0;
  check(cudaGetDevice(&device), "asking for the device in use");
  check(cudaDeviceGetAttribute(&shared_bytes_, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
        "asking for the device's shared memory");
  shared_bytes_ -= kBarrierBytes;
  for (const int boxes : {2, 4}) {
    for (const int tile : kStreamTiles) {
      if (!is_stream_shape({tile, 1, boxes})) continue;
      for (const Kernel kernel : kernels_of({tile, 1, boxes})) {
        check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes_),
              "stream_kernel's shared memory");
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
                                         stream_kernel<__nv_bfloat16, 32, 2, Outputs::kSums>, &config),
          "asking how many clusters run at once");
  }
}

namespace {

CUtensorMap weight_map(const Product& product, int tile) {
  if (!product.gates()) {
    return make_tensor_map({product.w, product.ld_w, product.outputs, product.inputs, tile, product.number});
  }
  const std::int64_t row = product.ld_w * bytes_of(product.number);
  const int half = product.outputs / 2;
  return make_tensor_map_3d({product.w,
                             {product.inputs, half, 2},
                             {row, row * half},
                             {kBoxCols, tile / 2, 2},
                             product.number,
                             BoxSwizzle::k128});
}

}  // namespace

bool is_stream_shape(StreamShape shape) {
  return std::ranges::find(kStreamTiles, shape.tile) != std::end(kStreamTiles) &&
         (shape.cluster == 1 || shape.cluster == 2 || shape.cluster == 4) &&
         (shape.boxes == 2 || (shape.boxes == 4 && shape.tile != kWideTile));
}

bool StreamProduct::can_do(const Product& product, StreamShape shape) const {
  return available_ && plan_for(product, shape, kind_of(shape), shared_bytes_).stages >= kFewestStages;
}

void StreamProduct::multiply(const Product& product, StreamShape shape, cudaStream_t stream) const {
  CHECK(is_stream_shape(shape) && can_do(product, shape));
  const StreamPlan plan = plan_for(product, shape, kind_of(shape), shared_bytes_);
  const CUtensorMap weights = weight_map(product, shape.tile);
  const CUtensorMap rows =
      make_tensor_map({product.x, product.ld_x, product.rows, product.inputs, plan.box_rows, product.number});
  const int clusters = std::min(plan.groups * plan.passes, clusters_[static_cast<size_t>(shape.cluster)]);
  const LaunchShape blocks{dim3(static_cast<unsigned>(clusters * shape.cluster)), dim3(kThreads),
                           static_cast<size_t>(shared_bytes_), static_cast<unsigned>(shape.cluster)};
  launch_early("stream_kernel", kernel_of(product, shape), blocks, stream, product, plan, weights, rows);
}

}  // namespace kvasir::cuda
