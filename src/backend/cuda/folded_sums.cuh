// A warp's sums in shared memory, for those of the next split or span to be folded into.
#pragma once

#include "backend/cuda/attention_math.cuh"

namespace kvasir::cuda {

template <int kDim>
struct FoldedSums {
  float o[kDim / 16][4][32];  // each lane's, as in Sums
  float2 states[kTileRows];   // m and d

  __device__ SoftmaxState state(int row) const { return {states[row].x, states[row].y}; }
};

// How a thread block's warps fold, and walk through, what is in such a room of theirs: Fold, Walk.
template <class Room>
struct FoldIn;

// `sums` become those of all that is in `room` and of themselves, which come behind it. `opens`: nothing is.
template <int kDim>
__device__ void fold_onto(const FoldedSums<kDim>& room, bool opens, Sums<kDim>& sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    SoftmaxState before;
    if (!opens) before = room.state(lane_pair() * 2 + i);
    const Fold by = fold(before, {sums.m[i], sums.d[i]});
    sums.m[i] = by.state.m;
    sums.d[i] = by.state.d;
#pragma unroll
    for (int j = 0; j < kDim / 8; ++j) {
      float& one = sums.o[j / 2][j % 2 * 2 + i];
      one = fold(by, opens ? 0.0F : room.o[j / 2][j % 2 * 2 + i][lane], one);
    }
  }
}

// As they are there.
template <int kDim>
__device__ void load(const FoldedSums<kDim>& room, Sums<kDim>& sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int tile = 0; tile < kDim / 16; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums.o[tile][i] = room.o[tile][i][lane];
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const SoftmaxState state = room.state(lane_pair() * 2 + i);
    sums.m[i] = state.m;
    sums.d[i] = state.d;
  }
}

// By a warp, all of whose lanes see them then.
template <int kDim>
__device__ void keep(const Sums<kDim>& sums, FoldedSums<kDim>& room) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  __syncwarp();  // states were read by all
#pragma unroll
  for (int tile = 0; tile < kDim / 16; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) room.o[tile][i][lane] = sums.o[tile][i];
  }
  if (lane_group() == 0) {
#pragma unroll
    for (int i = 0; i < 2; ++i) room.states[lane_pair() * 2 + i] = {sums.m[i], sums.d[i]};
  }
  __syncwarp();
}

}  // namespace kvasir::cuda
