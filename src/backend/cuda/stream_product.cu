#include <algorithm>

#include "backend/cuda/hopper.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/stream_product.h"
#include "backend/cuda/tensor_map.h"
#include "base/check.h"

namespace kvasir::cuda {
namespace {

constexpr int kRowsAtOnce = 64;              // wgmma's m
constexpr int kBoxes = 2;                    // of a stage, along k
constexpr int kDepth = kBoxes * kBoxCols;    // k of a stage
constexpr int kBoxRowBytes = kBoxCols * 2;   // a row of a box in shared memory
constexpr int kConsumers = 128;              // threads: one warpgroup
constexpr int kThreads = kConsumers + 32;    // and the warp that asks for copies
constexpr int kMaxStages = 28;

// How the rows of a stage are read: each block of a cluster asks for `parts` boxes of box_rows rows, and all get them.
// A stage's rows lie in two boxes of region_rows rows; what lies behind the rows read is garbage that the tensor cores
// multiply and nobody looks at.
struct StreamPlan {
  int stages = 0;
  int stage_bytes = 0;
  int region_rows = 0;  // a multiple of 8
  int box_rows = 0;     // of one copy
  int copied_bytes = 0;  // of rows and weights, what a stage's barrier waits for
  int cluster = 1;
  int passes = 1;   // over the weights, 64 rows each
  int groups = 0;   // of `cluster` tiles each
  int chunks = 0;   // stages of a tile
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

struct Barriers {
  std::uint32_t full;   // [stages]
  std::uint32_t empty;  // [stages]
};

struct Walk {
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ void next(int stages) {
    if (++stage < stages) return;
    stage = 0;
    parity ^= 1;
  }
};

// One thread: asks for all stages of all tiles of its block.
template <int kTile>
struct Producer {
  const StreamPlan& plan;
  const CUtensorMap* weights;
  const CUtensorMap* rows;
  Barriers barriers;
  std::uint32_t base;
  int first_group;
  int step;  // groups between two of the block's

  // The it-th stage of all that the block walks through.
  __device__ void ask_weights(int it, int stage) const {
    const int group = first_group + it / plan.chunks * step;
    const int col = it % plan.chunks * kDepth;
    const int output = (group % plan.groups * plan.cluster + static_cast<int>(hopper::block_in_cluster())) * kTile;
    const std::uint32_t full = barriers.full + 8 * stage;
    hopper::arrive_and_expect(full, plan.copied_bytes);
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      hopper::copy_box(base + stage * plan.stage_bytes + box * kTile * kBoxRowBytes,
                       {weights, col + box * kBoxCols, output}, full, hopper::kEvictFirst);
    }
  }

  __device__ void ask_rows(int it, int stage) const {
    const int group = first_group + it / plan.chunks * step;
    const int col = it % plan.chunks * kDepth;
    const int row = group / plan.groups * kRowsAtOnce;
    const std::uint32_t full = barriers.full + 8 * stage;
    const std::uint32_t to = base + stage * plan.stage_bytes + kBoxes * kTile * kBoxRowBytes;
    if (plan.cluster == 1) {
#pragma unroll
      for (int box = 0; box < kBoxes; ++box) {
        hopper::copy_box(to + box * plan.region_rows * kBoxRowBytes, {rows, col + box * kBoxCols, row}, full,
                         hopper::kEvictLast);
      }
      return;
    }
    const int rank = static_cast<int>(hopper::block_in_cluster());
    const int box = rank % kBoxes;
    const int first = rank / kBoxes * plan.box_rows;
    hopper::copy_box_to_all(to + (box * plan.region_rows + first) * kBoxRowBytes,
                            {rows, col + box * kBoxCols, row + first}, full,
                            static_cast<std::uint16_t>((1 << plan.cluster) - 1));
  }

  __device__ void run() const {
    const int tiles = (plan.groups * plan.passes - first_group + step - 1) / step;
    const int all = tiles * plan.chunks;
    const int early = min(all, plan.stages);
    for (int it = 0; it < early; ++it) ask_weights(it, it);
    wait_for_forerunners();
    for (int it = 0; it < early; ++it) ask_rows(it, it);
    Walk walk;
    for (int it = early; it < all; ++it) {
      hopper::wait(barriers.empty + 8 * walk.stage, walk.parity);
      ask_weights(it, walk.stage);
      ask_rows(it, walk.stage);
      walk.next(plan.stages);
    }
    let_followers_start();
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

// One warpgroup: multiplies what the producer asked for.
template <class T, int kTile>
__device__ void consume(const Product& p, const StreamPlan& plan, Barriers barriers, std::uint32_t base, int first_group,
                        int step) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const auto give_back = [&](int stage) {
    if (lane < plan.cluster) hopper::arrive_at(barriers.empty + 8 * stage, lane);
  };
  Walk walk;
  for (int group = first_group; group < plan.groups * plan.passes; group += step) {
    float sums[kTile / 2] = {};
    int last = -1;
    for (int chunk = 0; chunk < plan.chunks; ++chunk) {
      hopper::wait(barriers.full + 8 * walk.stage, walk.parity);
      const std::uint32_t weights = base + walk.stage * plan.stage_bytes;
      const std::uint32_t rows = weights + kBoxes * kTile * kBoxRowBytes;
      hopper::wgmma_fence();
#pragma unroll
      for (int box = 0; box < kBoxes; ++box) {
        const std::uint64_t a = hopper::matrix_descriptor(rows + box * plan.region_rows * kBoxRowBytes);
        const std::uint64_t b = hopper::matrix_descriptor(weights + box * kTile * kBoxRowBytes);
#pragma unroll
        for (int k = 0; k < kBoxCols / 16; ++k) hopper::wgmma<T, kTile>(sums, a + 2 * k, b + 2 * k);
      }
      hopper::wgmma_commit();
      hopper::wgmma_wait<1>();
      if (last >= 0) give_back(last);
      last = walk.stage;
      walk.next(plan.stages);
    }
    hopper::wgmma_wait<0>();
    give_back(last);
    const int tile = group % plan.groups * plan.cluster + static_cast<int>(hopper::block_in_cluster());
    store<kTile>(p, tile * kTile, group / plan.groups * kRowsAtOnce, sums);
  }
}

#endif

template <class T, int kTile>
__global__ void __launch_bounds__(kThreads, 1)
    stream_kernel(const __grid_constant__ Product p, const __grid_constant__ StreamPlan plan,
                  const __grid_constant__ CUtensorMap weights, const __grid_constant__ CUtensorMap rows) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint4 stream_stages[];
  __shared__ std::uint64_t full[kMaxStages];
  __shared__ std::uint64_t empty[kMaxStages];
  const Barriers barriers{hopper::shared_address(full), hopper::shared_address(empty)};
  const std::uint32_t base = (hopper::shared_address(stream_stages) + 1023U) & ~1023U;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < plan.stages; ++stage) {
      hopper::barrier_init(barriers.full + 8 * stage, 1);
      hopper::barrier_init(barriers.empty + 8 * stage, plan.cluster * kConsumers / 32);
    }
    hopper::fence_barrier_init();
  }
  if (plan.cluster > 1) {
    hopper::sync_cluster();
  } else {
    __syncthreads();
  }

  const int first_group = static_cast<int>(blockIdx.x) / plan.cluster;
  const int step = static_cast<int>(gridDim.x) / plan.cluster;
  if (threadIdx.x < kConsumers) {
    consume<T, kTile>(p, plan, barriers, base, first_group, step);
  } else if (threadIdx.x == kConsumers) {
    const Producer<kTile> producer{plan, &weights, &rows, barriers, base, first_group, step};
    producer.run();
  }
  // Nobody leaves while a neighbour may still write into its memory or ring at its barriers.
  __syncwarp();
  if (plan.cluster > 1) hopper::sync_cluster();
#endif
}

int round_up(int value, int to) { return (value + to - 1) / to * to; }

StreamPlan plan_for(const Product& product, StreamShape shape, int shared_bytes) {
  StreamPlan plan;
  const int rows = std::min(product.rows, kRowsAtOnce);
  const int parts = std::max(1, shape.cluster / kBoxes);  // of a box's rows
  plan.cluster = shape.cluster;
  plan.region_rows = round_up(rows, 8 * parts);
  plan.box_rows = parts == 1 ? rows : plan.region_rows / parts;
  plan.stage_bytes = kBoxes * (shape.tile + plan.region_rows) * kBoxRowBytes;
  plan.copied_bytes = kBoxes * (shape.tile + plan.box_rows * parts) * kBoxRowBytes;
  // Alignment, and what the tensor cores read behind the last stage's rows.
  const int slack = 1024 + (kRowsAtOnce - plan.region_rows) * kBoxRowBytes;
  plan.stages = std::min(kMaxStages, (shared_bytes - slack) / plan.stage_bytes);
  plan.passes = (product.rows + kRowsAtOnce - 1) / kRowsAtOnce;
  plan.groups = (product.outputs + shape.tile * shape.cluster - 1) / (shape.tile * shape.cluster);
  plan.chunks = (product.inputs + kDepth - 1) / kDepth;
  return plan;
}

}  // namespace

StreamProduct::StreamProduct() : available_(capability() / 10 == 9) {
  if (!available_) return;
  int device = 0;
  check(cudaGetDevice(&device), "asking for the device in use");
  check(cudaDeviceGetAttribute(&shared_bytes_, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
        "asking for the device's shared memory");
  shared_bytes_ -= 2 * kMaxStages * 8;
  for (const auto kernel : {stream_kernel<__nv_bfloat16, 32>, stream_kernel<__nv_bfloat16, 64>,
                            stream_kernel<__half, 32>, stream_kernel<__half, 64>}) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes_),
          "stream_kernel's shared memory");
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
    check(cudaOccupancyMaxActiveClusters(&clusters_[static_cast<size_t>(cluster)], stream_kernel<__nv_bfloat16, 32>,
                                         &config),
          "asking how many clusters run at once");
  }
}

template <class T, int kTile>
void StreamProduct::launch(const Product& product, StreamShape shape, cudaStream_t stream) const {
  const StreamPlan plan = plan_for(product, shape, shared_bytes_);
  const CUtensorMap weights =
      make_tensor_map({product.w, product.ld_w, product.outputs, product.inputs, kTile, product.number});
  const CUtensorMap rows =
      make_tensor_map({product.x, product.ld_x, product.rows, product.inputs, plan.box_rows, product.number});
  const int clusters = std::min(plan.groups * plan.passes, clusters_[static_cast<size_t>(shape.cluster)]);
  const LaunchShape blocks{dim3(static_cast<unsigned>(clusters * shape.cluster)), dim3(kThreads),
                           static_cast<size_t>(shared_bytes_), static_cast<unsigned>(shape.cluster)};
  launch_early("stream_kernel", stream_kernel<T, kTile>, blocks, stream, product, plan, weights, rows);
}

void StreamProduct::multiply(const Product& product, StreamShape shape, cudaStream_t stream) const {
  CHECK(available_ && (shape.tile == 32 || shape.tile == 64));
  CHECK(shape.cluster == 1 || shape.cluster == 2 || shape.cluster == 4);
  const bool half = product.number == Number::kF16;
  if (shape.tile == 64) {
    return half ? launch<__half, 64>(product, shape, stream) : launch<__nv_bfloat16, 64>(product, shape, stream);
  }
  return half ? launch<__half, 32>(product, shape, stream) : launch<__nv_bfloat16, 32>(product, shape, stream);
}

}  // namespace kvasir::cuda
