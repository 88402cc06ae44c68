// Row after row of a sequence, in each head with its matrix S.
//
// The columns of S do not depend on each other. Four lanes have one, each a quarter of its rows, in registers from the
// first row of the chunk to the last: S is read and written once a chunk. What a lane adds up and how the four sums
// are added follows from k_dim alone.
#include "backend/cuda/arch/tensor_core.cuh"
#include "backend/cuda/ops/warp_rows.cuh"
#include "backend/cuda/recurrent/recurrent.h"
#include "backend/cuda/runtime/pdl_launch.h"
#include "base/check.h"

namespace kvasir::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;
constexpr int kParts = 4;                        // lanes of a column
constexpr int kWarpColumns = 32 / kParts;        // lane `l` has part l / kWarpColumns of column l % kWarpColumns
constexpr int kColumns = kWarps * kWarpColumns;  // of a CTA

// A few rows of the batch, as one head sees them. Columns from k_dim on are zeros.
template <int kHeld>
struct alignas(16) Rows {
  static constexpr int kCount = kHeld > 32 ? 4 : 8;
  static constexpr int kStateRows = kHeld * kParts;

  float q[kCount][kStateRows];
  float k[kCount][kStateRows];
  float decay[kCount][kStateRows];  // where S has one for all its rows, the first number
  float v[kCount][kColumns];
  float strength[kCount];
};

// Where a head's part of the batch's rows lies.
struct Source {
  const float* q;
  const float* k;
  const float* v;
  const float* decay;
  const float* strength;
  int decays;   // of a row
  int columns;  // of v, in this CTA
};

__device__ const float* at(const Matrix& x, int row, int column) { return x.data + row * x.stride + column; }

__device__ Source source_of(const RecurrenceOp& op, int first_row, int head, int first_column) {
  const StateShape& shape = op.state.shape;
  const int k_head = head / (shape.heads / op.k_heads());
  const int decays = op.decays_by_row() ? shape.k_dim : 1;
  return {at(op.q, first_row, k_head * shape.k_dim),
          at(op.k, first_row, k_head * shape.k_dim),
          at(op.v, first_row, head * shape.v_dim + first_column),
          at(op.decay, first_row, head * decays),
          at(op.strength, first_row, head),
          decays,
          min(kColumns, shape.v_dim - first_column)};
}

__device__ void copy_floats(float* to, const float* from, int count) {
  for (int i = static_cast<int>(threadIdx.x % 32); i < count; i += 32) copy_async_float(shared_address(to + i), from + i);
}

// Begins to load the rows from `first` on, a row a warp.
template <int kHeld>
__device__ void load_rows(Rows<kHeld>& to, const RecurrenceOp& op, const Source& from, int first, int count) {
  const int k_dim = op.state.shape.k_dim;
  for (int r = static_cast<int>(threadIdx.x / 32); r < count; r += kWarps) {
    const std::int64_t row = first + r;
    copy_floats(to.q[r], from.q + row * op.q.stride, k_dim);
    copy_floats(to.k[r], from.k + row * op.k.stride, k_dim);
    copy_floats(to.decay[r], from.decay + row * op.decay.stride, from.decays);
    copy_floats(to.v[r], from.v + row * op.v.stride, from.columns);
    copy_floats(&to.strength[r], from.strength + row * op.strength.stride, 1);
  }
}

template <int kHeld>
__device__ void pad_rows(Rows<kHeld>& rows, int k_dim) {
  for (int r = 0; r < Rows<kHeld>::kCount; ++r) {
    for (int i = k_dim + static_cast<int>(threadIdx.x); i < Rows<kHeld>::kStateRows; i += kThreads) {
      rows.q[r][i] = rows.k[r][i] = rows.decay[r][i] = 0.0F;
    }
  }
}

// Row of S of a lane's number i: neighbouring parts have neighbouring fours.
__device__ int state_row(int i, int part) { return i / 4 * 4 * kParts + part * 4 + i % 4; }
__device__ float4 four_of(const float* row, int i, int part) {
  return *reinterpret_cast<const float4*>(row + state_row(i, part));
}

// Of the lanes that have a column, all with the same bits.
__device__ float column_sum(const float (&sums)[4]) {
  float sum = __fadd_rn(__fadd_rn(sums[0], sums[1]), __fadd_rn(sums[2], sums[3]));
#pragma unroll
  for (int step = kWarpColumns; step < 32; step *= 2) sum = __fadd_rn(sum, __shfl_xor_sync(kAllLanes, sum, step));
  return sum;
}

// S times the decay; what the keys then find in it.
template <bool kByRow, int kHeld>
__device__ float decayed(float (&s)[kHeld], const float* decay, const float* k, int part) {
  const float all = decay[0];
  float seen[4] = {};
#pragma unroll
  for (int i = 0; i < kHeld; i += 4) {
    const float4 keys = four_of(k, i, part);
    const float4 left = kByRow ? four_of(decay, i, part) : float4{all, all, all, all};
    s[i] = __fmul_rn(s[i], left.x);
    s[i + 1] = __fmul_rn(s[i + 1], left.y);
    s[i + 2] = __fmul_rn(s[i + 2], left.z);
    s[i + 3] = __fmul_rn(s[i + 3], left.w);
    seen[0] = __fmaf_rn(keys.x, s[i], seen[0]);
    seen[1] = __fmaf_rn(keys.y, s[i + 1], seen[1]);
    seen[2] = __fmaf_rn(keys.z, s[i + 2], seen[2]);
    seen[3] = __fmaf_rn(keys.w, s[i + 3], seen[3]);
  }
  return column_sum(seen);
}

// S and the keys times what is written; what the queries then find in it.
template <int kHeld>
__device__ float written(float (&s)[kHeld], const float* q, const float* k, float value, int part) {
  float found[4] = {};
#pragma unroll
  for (int i = 0; i < kHeld; i += 4) {
    const float4 keys = four_of(k, i, part);
    const float4 queries = four_of(q, i, part);
    s[i] = __fmaf_rn(keys.x, value, s[i]);
    s[i + 1] = __fmaf_rn(keys.y, value, s[i + 1]);
    s[i + 2] = __fmaf_rn(keys.z, value, s[i + 2]);
    s[i + 3] = __fmaf_rn(keys.w, value, s[i + 3]);
    found[0] = __fmaf_rn(queries.x, s[i], found[0]);
    found[1] = __fmaf_rn(queries.y, s[i + 1], found[1]);
    found[2] = __fmaf_rn(queries.z, s[i + 2], found[2]);
    found[3] = __fmaf_rn(queries.w, s[i + 3], found[3]);
  }
  return column_sum(found);
}

// The rows that lie in shared memory. `out`: of the lane's column, in the first of them.
template <int kHeld>
__device__ void run_rows(const RecurrenceOp& op, const Rows<kHeld>& rows, int count, float skip, float (&s)[kHeld],
                         float* out) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int part = lane / kWarpColumns;
  const int column = static_cast<int>(threadIdx.x / 32) * kWarpColumns + lane % kWarpColumns;
  const bool delta = op.rule == RecurrenceOp::Rule::kDelta;
  float strengths = lane < count ? rows.strength[lane] : 0.0F;  // of row `lane`
  if (delta) strengths = __fdiv_rn(1.0F, __fadd_rn(1.0F, expf(-strengths)));
  for (int r = 0; r < count; ++r) {
    const float strength = __shfl_sync(kAllLanes, strengths, r);
    const float v = rows.v[r][column];
    const float seen = op.decays_by_row() ? decayed<true>(s, rows.decay[r], rows.k[r], part)
                                          : decayed<false>(s, rows.decay[r], rows.k[r], part);
    const float value = __fmul_rn(strength, delta ? __fsub_rn(v, seen) : v);
    float found = written(s, rows.q[r], rows.k[r], value, part);
    if (op.skip != nullptr) found = __fmaf_rn(skip, v, found);
    if (part == 0 && out != nullptr) out[r * op.out.stride] = found;
  }
}

// A CTA for kColumns columns of each head of each sequence.
template <int kHeld>
__global__ void __launch_bounds__(kThreads) recur_rows(const RecurrenceOp op, const SequenceView* sequences) {
  constexpr int kAtOnce = Rows<kHeld>::kCount;
  __shared__ Rows<kHeld> rows[2];
  pdl_trigger();
  const StateShape& shape = op.state.shape;
  const SequenceView sequence = sequences[blockIdx.z];
  const int head = static_cast<int>(blockIdx.y);
  const int first_column = static_cast<int>(blockIdx.x) * kColumns;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int part = lane / kWarpColumns;
  const int column = first_column + static_cast<int>(threadIdx.x / 32) * kWarpColumns + lane % kWarpColumns;
  const bool mine = column < shape.v_dim;
  float* matrix = op.state.matrix(sequence.blocks[0], head) + column;
  const Source source = source_of(op, sequence.first_row, head, first_column);
  float* out = mine ? op.out.data + sequence.first_row * op.out.stride + head * shape.v_dim + column : nullptr;
  for (Rows<kHeld>& one : rows) pad_rows(one, shape.k_dim);
  pdl_wait();
  load_rows(rows[0], op, source, 0, min(kAtOnce, sequence.rows));
  end_copies();
  const float skip = op.skip == nullptr ? 0.0F : op.skip[head];
  float s[kHeld];
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int row = state_row(i, part);
    const bool there = sequence.start > 0 && mine && row < shape.k_dim;
    s[i] = there ? matrix[static_cast<std::int64_t>(row) * shape.v_dim] : 0.0F;
  }
  for (int first = 0, turn = 0; first < sequence.rows; first += kAtOnce, turn ^= 1) {
    const int next = first + kAtOnce;
    if (next < sequence.rows) load_rows(rows[turn ^ 1], op, source, next, min(kAtOnce, sequence.rows - next));
    end_copies();
    wait_copies<1>();
    __syncthreads();
    run_rows(op, rows[turn], min(kAtOnce, sequence.rows - first), skip, s,
             out == nullptr ? nullptr : out + first * op.out.stride);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int row = state_row(i, part);
    if (mine && row < shape.k_dim) matrix[static_cast<std::int64_t>(row) * shape.v_dim] = s[i];
  }
}

template <int kHeld>
void launch(const RecurrenceOp& op, const SequenceView* sequences, cudaStream_t stream) {
  const StateShape& shape = op.state.shape;
  const dim3 grid(static_cast<unsigned>((shape.v_dim + kColumns - 1) / kColumns), static_cast<unsigned>(shape.heads),
                  static_cast<unsigned>(op.sequences.size()));
  launch_pdl("recurrence", recur_rows<kHeld>, {grid, dim3(kThreads)}, stream, op, sequences);
}

}  // namespace

void recur(const RecurrenceOp& op, const SequenceView* sequences, cudaStream_t stream) {
  const int k_dim = op.state.shape.k_dim;
  CHECK(k_dim <= kMostStateRows);
  if (op.sequences.empty()) return;
  if (k_dim <= 8 * kParts) return launch<8>(op, sequences, stream);
  if (k_dim <= 16 * kParts) return launch<16>(op, sequences, stream);
  if (k_dim <= 32 * kParts) return launch<32>(op, sequences, stream);
  launch<kMostStateRows / kParts>(op, sequences, stream);
}

}  // namespace kvasir::cuda
