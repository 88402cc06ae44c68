// How kernels find the rows of a batch, and how a warp reduces or rotates a row.
#pragma once

#include "backend/tensor.h"
#include "layout/kv_view.h"

namespace kvasir::cuda {

inline constexpr unsigned kAllLanes = 0xffffffff;

// The sequence of row `row`, counted over all sequences' rows, and the row inside it.
struct RowOfBatch {
  int sequence = 0;
  int row = 0;
};
__device__ inline RowOfBatch row_of_batch(const SequenceView* sequences, int row) {
  RowOfBatch out;
  while (row >= sequences[out.sequence].rows) row -= sequences[out.sequence++].rows;
  out.row = row;
  return out;
}

// The sequence that has part `part` of all sequences' parts, and the part inside it, by a warp, for `count` sequences
// of parts_of(sequence) parts.
template <class PartsOf>
__device__ inline RowOfBatch part_of_batch_by_warp(const SequenceView* sequences, int count, int part,
                                                   const PartsOf& parts_of) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int first = 0; first < count; first += 32) {
    const int parts = first + lane < count ? parts_of(sequences[first + lane]) : 0;
    int end = parts;  // parts of the sequences up to this lane's
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(kAllLanes, end, step);
      if (lane >= step) end += other;
    }
    const unsigned behind = __ballot_sync(kAllLanes, part < end);
    if (behind != 0) {
      const int at = __ffs(static_cast<int>(behind)) - 1;
      return {first + at, part - __shfl_sync(kAllLanes, end - parts, at)};
    }
    part -= __shfl_sync(kAllLanes, end, 31);
  }
  return {};
}

// The same of rows.
__device__ inline RowOfBatch row_of_batch_by_warp(const SequenceView* sequences, int count, int row) {
  return part_of_batch_by_warp(sequences, count, row, [](const SequenceView& sequence) { return sequence.rows; });
}

__device__ inline float warp_max(float value) {
  for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, step));
  return value;
}
// All lanes get the same bits: both sides of an exchange add the same two numbers.
__device__ inline float warp_sum(float value) {
  for (int step = 16; step > 0; step /= 2) value = __fadd_rn(value, __shfl_xor_sync(kAllLanes, value, step));
  return value;
}

// hadamard() of a row in shared memory, by one warp. The same sums and differences give the same bits.
__device__ inline void hadamard_row(float* row, int dim) {
  const int lane = threadIdx.x % 32;
  while (dim > 0) {
    int part = 1;
    float norm = 1.0F;
    for (; 2 * part <= dim; part *= 2) norm *= 0.5F;
    for (int half = 1; half < part; half *= 2) {
      __syncwarp();
      for (int pair = lane; pair < part / 2; pair += 32) {
        const int at = pair / half * 2 * half + pair % half;
        const float a = row[at];
        const float b = row[at + half];
        row[at] = __fadd_rn(a, b);
        row[at + half] = __fsub_rn(a, b);
      }
    }
    float root = 1.0F;
    for (; norm < 0.5F; norm *= 4.0F) root *= 0.5F;
    if (norm == 0.5F) root *= 0.70710678F;
    __syncwarp();
    for (int i = lane; i < part; i += 32) row[i] = __fmul_rn(row[i], root);
    row += part;
    dim -= part;
  }
  __syncwarp();
}

// The same for rows of kHadamardDim, four neighbours a lane.
inline constexpr int kHadamardDim = 128;
__device__ inline void hadamard_lanes(float (&own)[4]) {
#pragma unroll
  for (int half = 1; half < 4; half *= 2) {
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      float& a = own[half == 1 ? pair * 2 : pair];
      float& b = own[half == 1 ? pair * 2 + 1 : pair + 2];
      const float sum = __fadd_rn(a, b);
      b = __fsub_rn(a, b);
      a = sum;
    }
  }
#pragma unroll
  for (int apart = 1; apart < 32; apart *= 2) {
    const bool second = (threadIdx.x & static_cast<unsigned>(apart)) != 0;
#pragma unroll
    for (float& one : own) {
      const float other = __shfl_xor_sync(kAllLanes, one, apart);
      one = second ? __fsub_rn(other, one) : __fadd_rn(one, other);
    }
  }
  constexpr float kRoot = 0.125F * 0.70710678F;
#pragma unroll
  for (float& one : own) one = __fmul_rn(one, kRoot);
}

}  // namespace kvasir::cuda
