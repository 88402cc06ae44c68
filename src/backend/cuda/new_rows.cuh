// Where the new rows of a batch go in the cache, and how they are turned.
#pragma once

#include "backend/cuda/cache_rows.h"
#include "backend/cuda/row_walk.cuh"

namespace kvasir::cuda {

inline constexpr int kHeadsAtOnce = 8;  // warps of a thread block: one row's heads

struct RowPlace {
  int row;  // of the batch
  BlockId block;
  int slot;
};

// Tables lie on the device long before the rows do: nothing to wait for.
__device__ inline RowPlace row_place(const NewRows& rows, int row) {
  const int tokens = rows.view.layout.block_tokens;
  const RowOfBatch at = row_of_batch_by_warp(rows.sequences, rows.count, row);
  const SequenceView sequence = rows.sequences[at.sequence];
  const Position position = sequence.start + at.row;
  return {sequence.first_row + at.row, sequence.block_of(position, tokens), static_cast<int>(position % tokens)};
}

struct Turn {
  const float* cos = nullptr;  // of the row; null: it stays as it is
  const float* sin = nullptr;
  int pairs = 0;
};

// The angles of a thread block's row, in shared memory.
__device__ inline Turn turn_of_row(const RopeTable& table, int row, float* to) {
  const std::int64_t first = table.first(row);
  for (int i = static_cast<int>(threadIdx.y * 32 + threadIdx.x); i < table.pairs; i += kHeadsAtOnce * 32) {
    to[i] = table.cos[first + i];
    to[table.pairs + i] = table.sin[first + i];
  }
  __syncthreads();
  return {to, to + table.pairs, table.pairs};
}

}  // namespace kvasir::cuda
