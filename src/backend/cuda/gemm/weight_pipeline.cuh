// The pipeline of the skinny GEMMs on Hopper: a persistent CTA streams tiles of weights and their rows through shared
// memory by TMA, in as many stages as fit. One producer thread issues the loads; the warps of one or two warpgroups
// are consumers.
//
// A Load says how weights come into a stage:
//   kBoxes                         of 64 k in a stage
//   tile(plan), bytes(plan)        outputs of a CTA's tile, and bytes of its weights in a stage
//   issue(box, to, barrier)        their TMA loads
#pragma once

#include <algorithm>

#include "backend/cuda/arch/hopper.cuh"
#include "backend/cuda/arch/tensor_map.h"
#include "backend/cuda/gemm/skinny_gemm.h"
#include "backend/cuda/runtime/pdl_launch.h"

namespace kvasir::cuda {

inline constexpr int kBoxRowBytes = kBoxCols * 2;  // a row of a box in shared memory
inline constexpr int kWarpgroupWarps = 4;
inline constexpr int kMostConsumers = 2 * 32 * kWarpgroupWarps;
inline constexpr int kMaxStages = 28;
inline constexpr int kFewestStages = 3;
inline constexpr int kBarrierBytes = 2 * kMaxStages * 8;
inline constexpr int kBytesBeforeWait = 64 << 10;  // of a CTA: with more, small predecessors wait long for the memory

// The stages in shared memory: `boxes` boxes of the tile's weights, then as many of region_rows rows. Each CTA of a
// cluster loads some boxes of rows, or some rows of a box, for all. Rows beyond those that were loaded are garbage,
// whose products are not stored.
struct PipelinePlan {
  int stages = 0;
  int stage_bytes = 0;
  int region_rows = 0;   // a multiple of 8
  int box_rows = 0;      // of one copy
  int copied_bytes = 0;  // of rows and weights: what a stage's barrier expects
  int consumers = 0;     // threads
  int tile = 0;
  int cluster = 1;
  int rows_at_once = 0;  // of a pass over the weights
  int passes = 1;
  int tile_groups = 0;         // of `cluster` tiles each
  int k_tiles = 0;             // stages of a tile
  int stages_before_wait = 0;  // stages whose weights are loaded before pdl_wait()
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

struct Barriers {
  std::uint32_t full;   // [stages]
  std::uint32_t empty;  // [stages]
};

// Where a CTA is in its stages and tiles. The producer has few cycles a stage, so it divides only at a tile's start.
struct Cursor {
  std::uint32_t at = 0;  // offset of the stage
  std::uint32_t barrier = 0;
  std::uint32_t parity = 0;
  int stage = 0;
  int col = 0;
  int tile_group;

  __device__ void next_stage(const PipelinePlan& plan) {
    at += plan.stage_bytes;
    barrier += 8;
    if (++stage < plan.stages) return;
    at = 0;
    barrier = 0;
    stage = 0;
    parity ^= 1;
  }
};

// What a CTA's threads share.
struct CtaStages {
  Barriers barriers;
  std::uint32_t base;
  int first_tile_group;
  int step;  // tile groups between two of the CTA's
  int rank;  // in its cluster

  // Frees a stage; called by all consumers.
  __device__ void give_back(std::uint32_t barrier, const PipelinePlan& plan) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    if (lane < plan.cluster) hopper::arrive_at(barriers.empty + barrier, lane);
  }
};

// One thread issues the loads of all stages of all tiles of its CTA.
template <class Load>
struct Producer {
  static constexpr int kBoxes = Load::kBoxes;
  static constexpr int kDepth = kBoxes * kBoxCols;  // k of a stage
  const PipelinePlan& plan;
  const CUtensorMap* weights;
  const CUtensorMap* rows;
  const CtaStages& cta;

  __device__ int output_of(int tile_group) const {
    return (tile_group % plan.tile_groups * plan.cluster + cta.rank) * Load::tile(plan);
  }
  __device__ int row_of(int tile_group) const { return tile_group / plan.tile_groups * plan.rows_at_once; }

  __device__ void issue_weights(const Cursor& cursor, int output) const {
    const std::uint32_t full = cta.barriers.full + cursor.barrier;
    hopper::arrive_and_expect(full, plan.copied_bytes);
    Load::issue({weights, cursor.col, output}, cta.base + cursor.at, full);
  }

  __device__ void issue_rows(const Cursor& cursor, int row) const {
    const std::uint32_t full = cta.barriers.full + cursor.barrier;
    const std::uint32_t to = cta.base + cursor.at + Load::bytes(plan);
    if (plan.cluster == 1) {
#pragma unroll
      for (int box = 0; box < kBoxes; ++box) {
        hopper::tma_load(to + box * plan.region_rows * kBoxRowBytes, {rows, cursor.col + box * kBoxCols, row}, full,
                         hopper::kEvictLast);
      }
      return;
    }
    const auto everybody = static_cast<std::uint16_t>((1 << plan.cluster) - 1);
    const int first = cta.rank / kBoxes * plan.box_rows;
    for (int box = cta.rank % kBoxes; box < kBoxes; box += plan.cluster) {
      hopper::tma_load_multicast(to + (box * plan.region_rows + first) * kBoxRowBytes,
                                 {rows, cursor.col + box * kBoxCols, row + first}, full, everybody);
    }
  }

  // The first stages: weights before pdl_wait(), then rows.
  __device__ void start(Cursor& cursor) const {
    const int stages = min(plan.k_tiles, plan.stages);
    const int before_wait = min(stages, plan.stages_before_wait);
    const int output = output_of(cta.first_tile_group);
    const int row = row_of(cta.first_tile_group);
    Cursor ahead = cursor;
    for (int i = 0; i < before_wait; ++i, ahead.col += kDepth, ahead.next_stage(plan)) issue_weights(ahead, output);
    pdl_wait();
    for (int i = 0; i < stages; ++i, cursor.col += kDepth, cursor.next_stage(plan)) {
      if (i >= before_wait) issue_weights(cursor, output);
      issue_rows(cursor, row);
    }
  }

  __device__ void run() const {
    // In the first round stages are empty: waiting for the parity before the first passes at once.
    Cursor cursor{.parity = 1, .tile_group = cta.first_tile_group};
    start(cursor);
    for (; cursor.tile_group < plan.tile_groups * plan.passes; cursor.tile_group += cta.step, cursor.col = 0) {
      const int output = output_of(cursor.tile_group);
      const int row = row_of(cursor.tile_group);
      for (; cursor.col < plan.k_tiles * kDepth; cursor.col += kDepth, cursor.next_stage(plan)) {
        hopper::wait(cta.barriers.empty + cursor.barrier, cursor.parity);
        issue_weights(cursor, output);
        issue_rows(cursor, row);
      }
    }
    // Not earlier: a chain of GEMMs was slower with the next kernel waiting beside this one.
    pdl_trigger();
  }
};

// The body of a kernel; `multiply` runs in each consumer thread.
template <class Load, class Multiply>
__device__ __forceinline__ void run_pipeline(const PipelinePlan& plan, const CUtensorMap* weights,
                                             const CUtensorMap* rows, const void* stages, const Multiply& multiply) {
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

  const CtaStages cta{barriers, base, static_cast<int>(blockIdx.x) / plan.cluster,
                      static_cast<int>(gridDim.x) / plan.cluster,
                      plan.cluster == 1 ? 0 : static_cast<int>(hopper::cta_rank())};
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < plan.consumers) {
    multiply(cta);
  } else if (thread == plan.consumers) {
    const Producer<Load> producer{plan, weights, rows, cta};
    producer.run();
  }
  // No CTA exits while another may still write into its memory or arrive at its barriers.
  __syncwarp();
  if (plan.cluster > 1) hopper::sync_cluster();
}

#endif

struct TileKind {
  int box_bytes = 0;  // of a tile's weights for 64 k
  int rows_at_once = 0;
  int warps = 0;  // consumers
};

// Consumers, and the warp of the producer.
inline unsigned threads_of(const PipelinePlan& plan) { return static_cast<unsigned>(plan.consumers) + 32; }

inline PipelinePlan plan_for(const GemmArgs& gemm, SkinnyShape shape, TileKind kind, int shared_bytes) {
  const auto round_up = [](int value, int to) { return (value + to - 1) / to * to; };
  PipelinePlan plan;
  const int rows = std::min(gemm.rows, kind.rows_at_once);
  const int depth = shape.boxes * kBoxCols;
  const int parts = std::max(1, shape.cluster / shape.boxes);  // of a box's rows
  plan.consumers = kind.warps * 32;
  plan.tile = shape.tile;
  plan.cluster = shape.cluster;
  plan.region_rows = round_up(rows, 8 * parts);
  plan.box_rows = parts == 1 ? rows : plan.region_rows / parts;
  plan.stage_bytes = shape.boxes * (kind.box_bytes + plan.region_rows * kBoxRowBytes);
  plan.copied_bytes = shape.boxes * (kind.box_bytes + plan.box_rows * parts * kBoxRowBytes);
  // Alignment, and what wgmma reads beyond the last stage's rows.
  const int slack = 1024 + std::max(0, kind.rows_at_once - plan.region_rows) * kBoxRowBytes;
  plan.stages = std::min(kMaxStages, (shared_bytes - slack) / plan.stage_bytes);
  plan.rows_at_once = kind.rows_at_once;
  plan.passes = (gemm.rows + kind.rows_at_once - 1) / kind.rows_at_once;
  plan.tile_groups = (gemm.outputs + shape.tile * shape.cluster - 1) / (shape.tile * shape.cluster);
  plan.k_tiles = (gemm.inputs + depth - 1) / depth;
  plan.stages_before_wait = std::max(1, kBytesBeforeWait / (shape.boxes * kind.box_bytes));
  return plan;
}

}  // namespace kvasir::cuda
