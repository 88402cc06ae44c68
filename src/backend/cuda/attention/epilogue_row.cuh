// The epilogue of a row, one query head at a time, by a warp: normalizes, rotates if hadamard_out, writes out and the
// next GEMM's input.
#pragma once

#include "backend/cuda/attention/attention_math.cuh"
#include "backend/cuda/gemm/gemm_rows.cuh"
#include "backend/cuda/ops/warp_rows.cuh"

namespace kvasir::cuda {

// A row's state (FlashInfer's state_t) at four dimensions.
struct MergedState {
  float4 o = {0, 0, 0, 0};
  SoftmaxState state;

  __device__ void merge(const MergedState& next) {
    const MergeScales by = merge_scales(state, next.state);
    state = by.state;
    o = {merge_sums(by, o.x, next.o.x), merge_sums(by, o.y, next.o.y), merge_sums(by, o.z, next.o.z),
         merge_sums(by, o.w, next.o.w)};
  }
};

// Callers want m for powers of e.
__device__ inline SoftmaxState natural(const SoftmaxState& state) {
  constexpr float kLn2 = 0.6931471805599453F;
  return {__fmul_rn(state.m, kLn2), state.d};
}

inline constexpr int kDimsAtOnce = 128;  // four a lane
static_assert(kHadamardDim == kDimsAtOnce);

// Partials of a row from a lane's four dimensions on.
struct Partials {
  const float* sums;
  const SoftmaxState* states;
  int step;  // to the next partial, in rows
};

// A row of a tile, for one KV head.
struct RowOfTile {
  const AttentionArgs& args;
  const AttentionTile& tile;
  int row;
  int kv_head;

  __device__ int token() const { return row / args.heads_of_tile; }
  __device__ int head() const { return kv_head * args.heads_per_kv + tile.first_head + row % args.heads_of_tile; }
  __device__ std::int64_t heads() const {
    return static_cast<std::int64_t>(args.heads_per_kv) * args.view.layout.shape.heads;
  }
  // Partials over the shared prefix, and over the row's own chunks; from `dim` on, or from the last four dimensions.
  __device__ Partials prefix(int dim) const {
    const std::int64_t at = tile.prefix.at + token() * heads() + head();
    return {args.prefix_out + at * args.v_stride + within(dim), args.prefix_states + at,
            static_cast<int>(tile.prefix.step)};
  }
  __device__ Partials own(int dim) const {
    const int step = args.view.layout.shape.heads * kTileRows;
    const std::int64_t at =
        static_cast<std::int64_t>(tile.first_item - args.first_item) * step + kv_head * kTileRows + row;
    return {args.partial_out + at * args.v_stride + within(dim), args.partial_states + at, step};
  }

 private:
  __device__ int within(int dim) const { return min(dim, args.v_stride - 4); }
};

// `smem` holds v_dim floats. It is used if lanes alone cannot rotate the row.
class RowEpilogue {
 public:
  __device__ RowEpilogue(const AttentionArgs& args, int head, int batch_row, float* smem)
      : args_(args),
        head_(head),
        state_(static_cast<std::int64_t>(batch_row) * args.heads_per_kv * args.view.layout.shape.heads + head),
        gemm_row_{args.also, batch_row},
        hadamard_lanes_(args.hadamard_out && v_dim() == kHadamardDim),
        hadamard_row_(args.hadamard_out && !hadamard_lanes_),
        out_(args.out.data + batch_row * args.out.stride + head_ * v_dim()),
        to_(hadamard_row_ ? smem : out_) {}

  // Writes the lane's four dimensions from `dim` on.
  __device__ void write(const MergedState& sums, int dim) const {
    const float inverse = inverse_of(sums.state);
    float four[4] = {sums.o.x, sums.o.y, sums.o.z, sums.o.w};
#pragma unroll
    for (float& one : four) one = normalized(one, inverse);
    if (hadamard_lanes_) hadamard_lanes(four);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (dim + i >= v_dim()) break;
      to_[dim + i] = four[i];
      if (!hadamard_row_) gemm_row_.put(head_ * v_dim() + dim + i, four[i]);
    }
    if (dim >= kDimsAtOnce) return;
    if (head_ == 0) gemm_row_.pad(args_.out.cols, lane(), 32);
    if (dim == 0 && args_.states != nullptr) {
      args_.states[state_] = natural(sums.state);
    }
  }
  // Called after all dimensions were written.
  __device__ void finish() const {
    if (!hadamard_row_) return;
    __syncwarp();
    hadamard_row(to_, v_dim());
    for (int i = lane(); i < v_dim(); i += 32) {
      out_[i] = to_[i];
      gemm_row_.put(head_ * v_dim() + i, to_[i]);
    }
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ int v_dim() const { return args_.view.layout.shape.v_dim; }

  const AttentionArgs& args_;
  int head_;
  std::int64_t state_;
  GemmInputRow gemm_row_;
  bool hadamard_lanes_, hadamard_row_;
  float* out_;
  float* to_;
};

}  // namespace kvasir::cuda
