// A warp's partials in shared memory, into which those of the next chunk or chunk group merge.
#pragma once

#include "backend/cuda/attention/attention_math.cuh"

namespace kvasir::cuda {

template <int kDim>
struct PartialSums {
  float o[kDim / 16][4][32];  // each lane's, as in Sums
  float2 states[kTileRows];   // m and d

  __device__ SoftmaxState state(int row) const { return {states[row].x, states[row].y}; }
};

// Maps the shared memory of a merge to its classes: Merge and Scheduler.
template <class Smem>
struct MergeIn;

// Merges `sums` after what `smem` holds; `empty`: it holds nothing yet.
template <int kDim>
__device__ void merge_onto(const PartialSums<kDim>& smem, bool empty, Sums<kDim>& sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    SoftmaxState before;
    if (!empty) before = smem.state(lane_pair() * 2 + i);
    const MergeScales by = merge_scales(before, {sums.m[i], sums.d[i]});
    sums.m[i] = by.state.m;
    sums.d[i] = by.state.d;
#pragma unroll
    for (int j = 0; j < kDim / 8; ++j) {
      float& one = sums.o[j / 2][j % 2 * 2 + i];
      one = merge_sums(by, empty ? 0.0F : smem.o[j / 2][j % 2 * 2 + i][lane], one);
    }
  }
}

// Loads them as they are.
template <int kDim>
__device__ void load(const PartialSums<kDim>& smem, Sums<kDim>& sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int tile = 0; tile < kDim / 16; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums.o[tile][i] = smem.o[tile][i][lane];
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const SoftmaxState state = smem.state(lane_pair() * 2 + i);
    sums.m[i] = state.m;
    sums.d[i] = state.d;
  }
}

// Stores them, by a warp, whose lanes all see them afterwards.
template <int kDim>
__device__ void keep(const Sums<kDim>& sums, PartialSums<kDim>& smem) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  __syncwarp();  // all lanes have read the states
#pragma unroll
  for (int tile = 0; tile < kDim / 16; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) smem.o[tile][i][lane] = sums.o[tile][i];
  }
  if (lane_group() == 0) {
#pragma unroll
    for (int i = 0; i < 2; ++i) smem.states[lane_pair() * 2 + i] = {sums.m[i], sums.d[i]};
  }
  __syncwarp();
}

}  // namespace kvasir::cuda
