// How the kernels of few rows on Hopper get what they multiply: a persistent block streams tiles of weights and the
// rows they meet through shared memory by the copy engine, in stages as deep as the memory goes. One thread asks for
// them (Producer), the warps of one or two warpgroups multiply them (the kernels' own).
//
// A Feed says how weights come into a stage:
//   kBoxes                          of 64 k in a stage
//   tile(plan), bytes(plan)         outputs of a block's tile, and bytes of its weights in a stage
//   ask(at, to, barrier)            their copies
#pragma once

#include <algorithm>

#include "backend/cuda/hopper.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/stream_product.h"
#include "backend/cuda/tensor_map.h"

namespace kvasir::cuda {

inline constexpr int kBoxRowBytes = kBoxCols * 2;  // a row of a box in shared memory
inline constexpr int kGroupWarps = 4;              // of a warpgroup
inline constexpr int kMostConsumers = 2 * 32 * kGroupWarps;
inline constexpr int kMaxStages = 28;
inline constexpr int kFewestStages = 3;
inline constexpr int kBarrierBytes = 2 * kMaxStages * 8;
inline constexpr int kEarlyBytes = 64 << 10;  // of a block: with more, small kernels ahead wait long for the memory

// How stages lie in shared memory: `boxes` boxes of the tile's weights, then as many of region_rows rows. Each block
// of a cluster reads some boxes of rows, or some rows of a box (box_rows at a time), for all. What lies behind the
// rows that were read is garbage, which the tensor cores multiply and nobody looks at.
struct StreamPlan {
  int stages = 0;
  int stage_bytes = 0;
  int region_rows = 0;   // a multiple of 8
  int box_rows = 0;      // of one copy
  int copied_bytes = 0;  // of rows and weights, what a stage's barrier waits for
  int consumers = 0;     // threads that multiply
  int tile = 0;
  int cluster = 1;
  int rows_at_once = 0;  // of a pass over the weights
  int passes = 1;
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

// What a block's threads share.
struct BlockStages {
  Barriers barriers;
  std::uint32_t base;
  int first_group;
  int step;  // groups between two of the block's
  int rank;  // in its cluster

  // A stage, by all threads that multiply.
  __device__ void give_back(std::uint32_t barrier, const StreamPlan& plan) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    if (lane < plan.cluster) hopper::arrive_at(barriers.empty + barrier, lane);
  }
};

// One thread: asks for all stages of all tiles of its block.
template <class Feed>
struct Producer {
  static constexpr int kBoxes = Feed::kBoxes;
  static constexpr int kDepth = kBoxes * kBoxCols;  // k of a stage
  const StreamPlan& plan;
  const CUtensorMap* weights;
  const CUtensorMap* rows;
  const BlockStages& block;

  __device__ int output_of(int group) const {
    return (group % plan.groups * plan.cluster + block.rank) * Feed::tile(plan);
  }
  __device__ int row_of(int group) const { return group / plan.groups * plan.rows_at_once; }

  __device__ void ask_weights(const Cursor& cursor, int output) const {
    const std::uint32_t full = block.barriers.full + cursor.barrier;
    hopper::arrive_and_expect(full, plan.copied_bytes);
    Feed::ask({weights, cursor.col, output}, block.base + cursor.at, full);
  }

  __device__ void ask_rows(const Cursor& cursor, int row) const {
    const std::uint32_t full = block.barriers.full + cursor.barrier;
    const std::uint32_t to = block.base + cursor.at + Feed::bytes(plan);
    if (plan.cluster == 1) {
#pragma unroll
      for (int box = 0; box < kBoxes; ++box) {
        hopper::copy_box(to + box * plan.region_rows * kBoxRowBytes, {rows, cursor.col + box * kBoxCols, row}, full,
                         hopper::kEvictLast);
      }
      return;
    }
    const auto everybody = static_cast<std::uint16_t>((1 << plan.cluster) - 1);
    const int first = block.rank / kBoxes * plan.box_rows;
    for (int box = block.rank % kBoxes; box < kBoxes; box += plan.cluster) {
      hopper::copy_box_to_all(to + (box * plan.region_rows + first) * kBoxRowBytes,
                              {rows, cursor.col + box * kBoxCols, row + first}, full, everybody);
    }
  }

  // The stages of the first tile that fit into shared memory: weights first, which nobody has to wait for.
  __device__ void start(Cursor& cursor) const {
    const int stages = min(plan.chunks, plan.stages);
    const int early = min(stages, plan.early);
    const int output = output_of(block.first_group);
    const int row = row_of(block.first_group);
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
    Cursor cursor{.parity = 1, .group = block.first_group};
    start(cursor);
    for (; cursor.group < plan.groups * plan.passes; cursor.group += block.step, cursor.col = 0) {
      const int output = output_of(cursor.group);
      const int row = row_of(cursor.group);
      for (; cursor.col < plan.chunks * kDepth; cursor.col += kDepth, cursor.next_stage(plan)) {
        hopper::wait(block.barriers.empty + cursor.barrier, cursor.parity);
        ask_weights(cursor, output);
        ask_rows(cursor, row);
      }
    }
    // Not before: with followers that wait beside it from its start a chain of products was slower.
    let_followers_start();
  }
};

// A kernel's body: `multiply` is what each of the threads does that do so.
template <class Feed, class Multiply>
__device__ __forceinline__ void stream_through(const StreamPlan& plan, const CUtensorMap* weights,
                                               const CUtensorMap* rows, const void* stages,
                                               const Multiply& multiply) {
  __shared__ std::uint64_t full[kMaxStages];
  __shared__ std::uint64_t empty[kMaxStages];
  const Barriers barriers{hopper::shared_address(full), hopper::shared_address(empty)};
  const std::uint32_t base = (hopper::shared_address(stages) + 1023U) & ~1023U;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < plan.stages; ++stage) {
      hopper::barrier_init(barriers.full + 8 * stage, 1);
      hopper::barrier_init(barriers.empty + 8 * stage, plan.cluster * plan.consumers / 32);
    }
    hopper::fence_barrier_init();
  }
  if (plan.cluster > 1) {
    hopper::sync_cluster();
  } else {
    __syncthreads();
  }

  const BlockStages block{barriers, base, static_cast<int>(blockIdx.x) / plan.cluster,
                          static_cast<int>(gridDim.x) / plan.cluster,
                          plan.cluster == 1 ? 0 : static_cast<int>(hopper::block_in_cluster())};
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < plan.consumers) {
    multiply(block);
  } else if (thread == plan.consumers) {
    const Producer<Feed> producer{plan, weights, rows, block};
    producer.run();
  }
  // Nobody leaves while a neighbour may still write into its memory or ring at its barriers.
  __syncwarp();
  if (plan.cluster > 1) hopper::sync_cluster();
}

#endif

struct StreamKind {
  int box_bytes = 0;  // of a tile's weights for 64 k
  int rows_at_once = 0;
  int warps = 0;  // that multiply
};

// The warps that multiply, and the one that asks for copies.
inline unsigned threads_of(const StreamPlan& plan) { return static_cast<unsigned>(plan.consumers) + 32; }

inline StreamPlan plan_for(const Product& product, StreamShape shape, StreamKind kind, int shared_bytes) {
  const auto round_up = [](int value, int to) { return (value + to - 1) / to * to; };
  StreamPlan plan;
  const int rows = std::min(product.rows, kind.rows_at_once);
  const int depth = shape.boxes * kBoxCols;
  const int parts = std::max(1, shape.cluster / shape.boxes);  // of a box's rows
  plan.consumers = kind.warps * 32;
  plan.tile = shape.tile;
  plan.cluster = shape.cluster;
  plan.region_rows = round_up(rows, 8 * parts);
  plan.box_rows = parts == 1 ? rows : plan.region_rows / parts;
  plan.stage_bytes = shape.boxes * (kind.box_bytes + plan.region_rows * kBoxRowBytes);
  plan.copied_bytes = shape.boxes * (kind.box_bytes + plan.box_rows * parts * kBoxRowBytes);
  // Alignment, and what the tensor cores read behind the last stage's rows.
  const int slack = 1024 + std::max(0, kind.rows_at_once - plan.region_rows) * kBoxRowBytes;
  plan.stages = std::min(kMaxStages, (shared_bytes - slack) / plan.stage_bytes);
  plan.rows_at_once = kind.rows_at_once;
  plan.passes = (product.rows + kind.rows_at_once - 1) / kind.rows_at_once;
  plan.groups = (product.outputs + shape.tile * shape.cluster - 1) / (shape.tile * shape.cluster);
  plan.chunks = (product.inputs + depth - 1) / depth;
  plan.early = std::max(1, kEarlyBytes / (shape.boxes * kind.box_bytes));
  return plan;
}

}  // namespace kvasir::cuda
