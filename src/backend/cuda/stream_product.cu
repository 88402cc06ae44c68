#include <algorithm>
#include <array>

#include "backend/cuda/hopper.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/stream_product.h"
#include "backend/cuda/tensor_map.h"
#include "base/check.h"

namespace kvasir::cuda {
namespace {

constexpr int kRowsAtOnce = 64;              // wgmma's m
constexpr int kBoxRowBytes = kBoxCols * 2;   // a row of a box in shared memory
constexpr int kConsumers = 128;              // threads: one warpgroup
constexpr int kThreads = kConsumers + 32;    // and the warp that asks for copies
constexpr int kMaxStages = 28;
constexpr int kFewestStages = 3;
constexpr int kBarrierBytes = 2 * kMaxStages * 8;
constexpr int kEarlyBytes = 64 << 10;        // of a block: with more, small kernels ahead wait long for the memory

// How stages lie in shared memory: `boxes` boxes of the tile's weights, then as many of region_rows rows. Each block of
// a cluster reads some boxes of rows, or some rows of a box (box_rows at a time), for all. What lies behind the rows
// that were read is garbage, which the tensor cores multiply and nobody looks at.
struct StreamPlan {
  int stages = 0;
  int stage_bytes = 0;
  int region_rows = 0;   // a multiple of 8
  int box_rows = 0;      // of one copy
  int copied_bytes = 0;  // of rows and weights, what a stage's barrier waits for
  int cluster = 1;
  int passes = 1;  // over the weights, 64 rows each
  int groups = 0;  // of `cluster` tiles each
  int chunks = 0;  // stages of a tile
  int early = 0;   // stages whose weights are asked for before the rows are known
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

struct Barriers {
  std::uint32_t full;   // [stages]
  std::uint32_t empty;  // [stages]
};

// Where a block is on its way through stages and tiles. A thread that feeds an SM has few cycles for each stage, so
// that nothing is divided on the way but at a tile's start.
struct Cursor {
  std::uint32_t at = 0;  // the stage, from the first one on
  std::uint32_t barrier = 0;
  std::uint32_t parity = 0;
  int stage = 0;
  int col = 0;
  int group;

  __device__ void next_stage(const StreamPlan& plan) {
    at += plan.stage_bytes;
    barrier += 8;
    if (++stage < plan.stages) return;
    at = 0;
    barrier = 0;
    stage = 0;
    parity ^= 1;
  }
};

// One thread: asks for all stages of all tiles of its block.
template <int kTile, int kBoxes>
struct Producer {
  static constexpr int kDepth = kBoxes * kBoxCols;  // k of a stage
  const StreamPlan& plan;
  const CUtensorMap* weights;
  const CUtensorMap* rows;
  Barriers barriers;
  std::uint32_t base;
  int first_group;
  int step;  // groups between two of the block's
  int rank;

  __device__ int output_of(int group) const { return (group % plan.groups * plan.cluster + rank) * kTile; }
  __device__ int row_of(int group) const { return group / plan.groups * kRowsAtOnce; }

  __device__ void ask_weights(const Cursor& cursor, int output) const {
    const std::uint32_t full = barriers.full + cursor.barrier;
    hopper::arrive_and_expect(full, plan.copied_bytes);
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      hopper::copy_box(base + cursor.at + box * kTile * kBoxRowBytes, {weights, cursor.col + box * kBoxCols, output},
                       full, hopper::kEvictFirst);
    }
  }

  __device__ void ask_rows(const Cursor& cursor, int row) const {
    const std::uint32_t full = barriers.full + cursor.barrier;
    const std::uint32_t to = base + cursor.at + kBoxes * kTile * kBoxRowBytes;
    if (plan.cluster == 1) {
#pragma unroll
      for (int box = 0; box < kBoxes; ++box) {
        hopper::copy_box(to + box * plan.region_rows * kBoxRowBytes, {rows, cursor.col + box * kBoxCols, row}, full,
                         hopper::kEvictLast);
      }
      return;
    }
    const auto everybody = static_cast<std::uint16_t>((1 << plan.cluster) - 1);
    const int first = rank / kBoxes * plan.box_rows;
    for (int box = rank % kBoxes; box < kBoxes; box += plan.cluster) {
      hopper::copy_box_to_all(to + (box * plan.region_rows + first) * kBoxRowBytes,
                              {rows, cursor.col + box * kBoxCols, row + first}, full, everybody);
    }
  }

  // The stages of the first tile that fit into shared memory: weights first, which nobody has to wait for.
  __device__ void start(Cursor& cursor) const {
    const int stages = min(plan.chunks, plan.stages);
    const int early = min(stages, plan.early);
    const int output = output_of(first_group);
    const int row = row_of(first_group);
    Cursor ahead = cursor;
    for (int i = 0; i < early; ++i, ahead.col += kDepth, ahead.next_stage(plan)) ask_weights(ahead, output);
    wait_for_forerunners();
    for (int i = 0; i < stages; ++i, cursor.col += kDepth, cursor.next_stage(plan)) {
      if (i >= early) ask_weights(cursor, output);
      ask_rows(cursor, row);
    }
  }

  __device__ void run() const {
    // The first time around, stages are empty: their barriers count as passed with the parity before the first.
    Cursor cursor{.parity = 1, .group = first_group};
    start(cursor);
    for (; cursor.group < plan.groups * plan.passes; cursor.group += step, cursor.col = 0) {
      const int output = output_of(cursor.group);
      const int row = row_of(cursor.group);
      for (; cursor.col < plan.chunks * kDepth; cursor.col += kDepth, cursor.next_stage(plan)) {
        hopper::wait(barriers.empty + cursor.barrier, cursor.parity);
        ask_weights(cursor, output);
        ask_rows(cursor, row);
      }
    }
    // Not before: with followers that wait beside it from its start a chain of products was slower.
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
template <class T, int kTile, int kBoxes>
struct Consumer {
  const Product& p;
  const StreamPlan& plan;
  Barriers barriers;
  std::uint32_t base;
  int rank;

  __device__ void give_back(std::uint32_t barrier) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    if (lane < plan.cluster) hopper::arrive_at(barriers.empty + barrier, lane);
  }

  __device__ void multiply_tile(Cursor& cursor, float (&sums)[kTile / 2]) const {
    const std::uint64_t weights = hopper::matrix_descriptor(base);
    const std::uint64_t rows = hopper::matrix_descriptor(base + kBoxes * kTile * kBoxRowBytes);
    const int rows_box = plan.region_rows * kBoxRowBytes / 16;
    std::uint32_t last = 0;
    for (int chunk = 0; chunk < plan.chunks; ++chunk) {
      hopper::wait(barriers.full + cursor.barrier, cursor.parity);
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
        give_back(last);
      }
      last = cursor.barrier;
      cursor.next_stage(plan);
    }
    hopper::wgmma_wait<0>();
    give_back(last);
  }

  __device__ void run(int first_group, int step) const {
    Cursor cursor{.group = first_group};
    for (; cursor.group < plan.groups * plan.passes; cursor.group += step) {
      float sums[kTile / 2] = {};
      multiply_tile(cursor, sums);
      const int tile = cursor.group % plan.groups * plan.cluster + rank;
      store<kTile>(p, tile * kTile, cursor.group / plan.groups * kRowsAtOnce, sums);
    }
  }
};

#endif

template <class T, int kTile, int kBoxes>
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
  const int rank = plan.cluster == 1 ? 0 : static_cast<int>(hopper::block_in_cluster());
  if (threadIdx.x < kConsumers) {
    const Consumer<T, kTile, kBoxes> consumer{p, plan, barriers, base, rank};
    consumer.run(first_group, step);
  } else if (threadIdx.x == kConsumers) {
    const Producer<kTile, kBoxes> producer{plan, &weights, &rows, barriers, base, first_group, step, rank};
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
  const int depth = shape.boxes * kBoxCols;
  const int parts = std::max(1, shape.cluster / shape.boxes);  // of a box's rows
  plan.cluster = shape.cluster;
  plan.region_rows = round_up(rows, 8 * parts);
  plan.box_rows = parts == 1 ? rows : plan.region_rows / parts;
  plan.stage_bytes = shape.boxes * (shape.tile + plan.region_rows) * kBoxRowBytes;
  plan.copied_bytes = shape.boxes * (shape.tile + plan.box_rows * parts) * kBoxRowBytes;
  // Alignment, and what the tensor cores read behind the last stage's rows.
  const int slack = 1024 + (kRowsAtOnce - plan.region_rows) * kBoxRowBytes;
  plan.stages = std::min(kMaxStages, (shared_bytes - slack) / plan.stage_bytes);
  plan.passes = (product.rows + kRowsAtOnce - 1) / kRowsAtOnce;
  plan.groups = (product.outputs + shape.tile * shape.cluster - 1) / (shape.tile * shape.cluster);
  plan.chunks = (product.inputs + depth - 1) / depth;
  plan.early = std::max(1, kEarlyBytes / (shape.boxes * shape.tile * kBoxRowBytes));
  return plan;
}

using Kernel = void (*)(Product, StreamPlan, CUtensorMap, CUtensorMap);

template <class T>
Kernel kernel_of(StreamShape shape) {
  if (shape.tile == kWideTile) return stream_kernel<T, kWideTile, 2>;
  if (shape.boxes == 2) {
    constexpr std::array<Kernel, 4> kByTile{stream_kernel<T, 16, 2>, stream_kernel<T, 32, 2>, stream_kernel<T, 48, 2>,
                                            stream_kernel<T, 64, 2>};
    return kByTile[static_cast<size_t>(shape.tile / 16 - 1)];
  }
  constexpr std::array<Kernel, 4> kByTile{stream_kernel<T, 16, 4>, stream_kernel<T, 32, 4>, stream_kernel<T, 48, 4>,
                                          stream_kernel<T, 64, 4>};
  return kByTile[static_cast<size_t>(shape.tile / 16 - 1)];
}

}  // namespace

StreamProduct::StreamProduct() : available_(capability() / 10 == 9) {
  if (!available_) return;
  int device = 0;
  check(cudaGetDevice(&device), "asking for the device in use");
  check(cudaDeviceGetAttribute(&shared_bytes_, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
        "asking for the device's shared memory");
  shared_bytes_ -= kBarrierBytes;
  for (const int boxes : {2, 4}) {
    for (const int tile : kStreamTiles) {
      if (!is_stream_shape({tile, 1, boxes})) continue;
      for (const Kernel kernel : {kernel_of<__nv_bfloat16>({tile, 1, boxes}), kernel_of<__half>({tile, 1, boxes})}) {
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
    check(cudaOccupancyMaxActiveClusters(&clusters_[static_cast<size_t>(cluster)], stream_kernel<__nv_bfloat16, 32, 2>,
                                         &config),
          "asking how many clusters run at once");
  }
}

bool is_stream_shape(StreamShape shape) {
  return std::ranges::find(kStreamTiles, shape.tile) != std::end(kStreamTiles) &&
         (shape.cluster == 1 || shape.cluster == 2 || shape.cluster == 4) &&
         (shape.boxes == 2 || (shape.boxes == 4 && shape.tile != kWideTile));
}

bool StreamProduct::can_do(const Product& product, StreamShape shape) const {
  return available_ && plan_for(product, shape, shared_bytes_).stages >= kFewestStages;
}

void StreamProduct::multiply(const Product& product, StreamShape shape, cudaStream_t stream) const {
  CHECK(is_stream_shape(shape) && can_do(product, shape));
  const StreamPlan plan = plan_for(product, shape, shared_bytes_);
  const CUtensorMap weights =
      make_tensor_map({product.w, product.ld_w, product.outputs, product.inputs, shape.tile, product.number});
  const CUtensorMap rows =
      make_tensor_map({product.x, product.ld_x, product.rows, product.inputs, plan.box_rows, product.number});
  const int clusters = std::min(plan.groups * plan.passes, clusters_[static_cast<size_t>(shape.cluster)]);
  const LaunchShape blocks{dim3(static_cast<unsigned>(clusters * shape.cluster)), dim3(kThreads),
                           static_cast<size_t>(shared_bytes_), static_cast<unsigned>(shape.cluster)};
  const Kernel kernel = product.number == Number::kF16 ? kernel_of<__half>(shape) : kernel_of<__nv_bfloat16>(shape);
  launch_early("stream_kernel", kernel, blocks, stream, product, plan, weights, rows);
}

}  // namespace kvasir::cuda
