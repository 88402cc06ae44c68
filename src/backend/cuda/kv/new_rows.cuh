// Where the new rows of a batch go in the cache, and their rope angles.
#pragma once

#include "backend/cuda/kv/kv_write.h"
#include "backend/cuda/ops/warp_rows.cuh"

namespace kvasir::cuda {

inline constexpr int kHeadsAtOnce = 8;  // warps of a CTA, for the heads of one row

struct RowAddress {
  int row;  // of the batch
  BlockId block;
  int token_in_block;
};

// Reads block tables, which were uploaded before the batch: it needs no pdl_wait().
__device__ inline RowAddress row_address(const NewRows& rows, int row) {
  const int tokens = rows.view.layout.block_tokens;
  const RowOfBatch at = row_of_batch_by_warp(rows.sequences, rows.count, row);
  const SequenceView sequence = rows.sequences[at.sequence];
  const Position position = sequence.start + at.row;
  return {sequence.first_row + at.row, sequence.block_of(position, tokens), static_cast<int>(position % tokens)};
}

struct RopeAngles {
  const float* cos = nullptr;  // of the row; null: no rope
  const float* sin = nullptr;
  int pairs = 0;
};

// Loads the angles of a CTA's row into shared memory.
__device__ inline RopeAngles rope_of_row(const RopeTable& table, int row, float* to) {
  const std::int64_t first = table.first(row);
  for (int i = static_cast<int>(threadIdx.y * 32 + threadIdx.x); i < table.pairs; i += kHeadsAtOnce * 32) {
    to[i] = table.cos[first + i];
    to[table.pairs + i] = table.sin[first + i];
  }
  __syncthreads();
  return {to, to + table.pairs, table.pairs};
}

}  // namespace kvasir::cuda
