// What becomes of a row's sums when they are complete, one query head at a time, by a warp: outputs, for the product
// behind them too, turned where values are.
#pragma once

#include "backend/cuda/attention_math.cuh"
#include "backend/cuda/product_rows.cuh"
#include "backend/cuda/row_walk.cuh"

namespace kvasir::cuda {

// What a row has at four dimensions: of splits, or of spans.
struct MergedSums {
  float4 o = {0, 0, 0, 0};
  SoftmaxState state;

  __device__ void add(const MergedSums& next) {
    const Fold by = fold(state, next.state);
    state = by.state;
    o = {fold(by, o.x, next.o.x), fold(by, o.y, next.o.y), fold(by, o.z, next.o.z), fold(by, o.w, next.o.w)};
  }
};

// As whoever asked for it wants it: m for powers of e.
__device__ inline SoftmaxState natural(const SoftmaxState& state) {
  constexpr float kLn2 = 0.6931471805599453F;
  return {__fmul_rn(state.m, kLn2), state.d};
}

inline constexpr int kDimsAtOnce = 128;  // four of each lane
static_assert(kTurnedAtOnce == kDimsAtOnce);

// Where sums of a row lie, from a lane's four dimensions on, and their states.
struct Parts {
  const float* sums;
  const SoftmaxState* states;
  int step;  // from one to the next, in rows
};

// Where a row of a tile has its sums, for one KV head.
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
  // Its sums over what its sequence shares, and over splits; of the dimensions from `dim` on, or of the last ones.
  __device__ Parts begun(int dim) const {
    const std::int64_t at = tile.begun.at + token() * heads() + head();
    return {args.begun_out + at * args.v_stride + within(dim), args.begun_states + at,
            static_cast<int>(tile.begun.step)};
  }
  __device__ Parts own(int dim) const {
    const int step = args.view.layout.shape.heads * kTileRows;
    const std::int64_t at =
        static_cast<std::int64_t>(tile.first_item - args.first_item) * step + kv_head * kTileRows + row;
    return {args.part_out + at * args.v_stride + within(dim), args.part_states + at, step};
  }

 private:
  __device__ int within(int dim) const { return min(dim, args.v_stride - 4); }
};

// `room` is in shared memory, for v_dim numbers, where lanes alone cannot turn the row.
class FinishedRow {
 public:
  __device__ FinishedRow(const AttentionArgs& args, int head, int batch_row, float* room)
      : args_(args),
        head_(head),
        state_(static_cast<std::int64_t>(batch_row) * args.heads_per_kv * args.view.layout.shape.heads + head),
        product_{args.also, batch_row},
        turns_lanes_(args.turns && v_dim() == kTurnedAtOnce),
        turns_row_(args.turns && !turns_lanes_),
        out_(args.out.data + batch_row * args.out.stride + head_ * v_dim()),
        to_(turns_row_ ? room : out_) {}

  // The lane's numbers from `dim` on.
  __device__ void write(const MergedSums& sums, int dim) const {
    const float inverse = inverse_of(sums.state);
    float four[4] = {sums.o.x, sums.o.y, sums.o.z, sums.o.w};
#pragma unroll
    for (float& one : four) one = normalized(one, inverse);
    if (turns_lanes_) turn_lanes(four);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (dim + i >= v_dim()) break;
      to_[dim + i] = four[i];
      if (!turns_row_) product_.put(head_ * v_dim() + dim + i, four[i]);
    }
    if (dim >= kDimsAtOnce) return;
    if (head_ == 0) product_.pad(args_.out.cols, lane(), 32);
    if (dim == 0 && args_.states != nullptr) {
      args_.states[state_] = natural(sums.state);
    }
  }
  // When all were written.
  __device__ void finish() const {
    if (!turns_row_) return;
    __syncwarp();
    turn_row(to_, v_dim());
    for (int i = lane(); i < v_dim(); i += 32) {
      out_[i] = to_[i];
      product_.put(head_ * v_dim() + i, to_[i]);
    }
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ int v_dim() const { return args_.view.layout.shape.v_dim; }

  const AttentionArgs& args_;
  int head_;
  std::int64_t state_;
  ProductRow product_;
  bool turns_lanes_, turns_row_;
  float* out_;
  float* to_;
};

}  // namespace kvasir::cuda
