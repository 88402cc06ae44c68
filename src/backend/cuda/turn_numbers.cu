// The usual case of turn_and_write_rows(): f16 and bf16.
#include "backend/cuda/launch.h"
#include "backend/cuda/new_rows.cuh"
#include "layout/codec.h"

namespace kvasir::cuda {
namespace {

// The numbers of a row that a thread block turns, pair by pair, as turn_pairs() does: visit(head, dim, turned).
// All that is read is on its way at once.
template <int kAtOnce, class Visit>
__device__ void turn_heads(float* row, int heads, const Turn& by, const Visit& visit) {
  constexpr int kStep = kHeadsAtOnce * 32;
  const int count = heads * by.pairs;
  for (int first = static_cast<int>(threadIdx.y * 32 + threadIdx.x); first < count; first += kStep * kAtOnce) {
    float a[kAtOnce];
    float b[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = min(first + j * kStep, count - 1);
      a[j] = row[i + i / by.pairs * by.pairs];
      b[j] = row[i + i / by.pairs * by.pairs + by.pairs];
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = first + j * kStep;
      if (i >= count) break;
      const int head = i / by.pairs;
      const int pair = i % by.pairs;
      float* at = row + head * 2 * by.pairs + pair;
      at[0] = __fsub_rn(__fmul_rn(a[j], by.cos[pair]), __fmul_rn(b[j], by.sin[pair]));
      at[by.pairs] = __fadd_rn(__fmul_rn(b[j], by.cos[pair]), __fmul_rn(a[j], by.sin[pair]));
      visit(head, pair, at[0]);
      visit(head, pair + by.pairs, at[by.pairs]);
    }
  }
}

// Numbers without scales, heads that are turned whole: each number goes its own way. A thread block has K and V of a
// row, and another one Q.
template <class Codec>
__global__ void __launch_bounds__(kHeadsAtOnce * 32) turn_numbers(const UnturnedRows unturned, const NewRows rows) {
  using Stored = typename Codec::Stored;
  extern __shared__ float angles[];
  let_followers_start();
  const RowPlace at = row_place(rows, static_cast<int>(blockIdx.x));
  const Turn turn = turn_of_row(unturned.table, at.row, angles);
  const KvView& view = rows.view;
  std::byte* block = view.block_at(at.block);
  wait_for_forerunners();
  if (blockIdx.y == 1) {
    return turn_heads<8>(unturned.q.data + at.row * unturned.q.stride, unturned.heads, turn, [](int, int, float) {});
  }
  constexpr int kAtOnce = 4;
  constexpr int kStep = kHeadsAtOnce * 32;
  const int dim = view.layout.shape.v_dim;
  const float* v = rows.v.data + at.row * rows.v.stride;
  for (int first = static_cast<int>(threadIdx.y * 32 + threadIdx.x); first < rows.v.cols; first += kStep * kAtOnce) {
    float values[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) values[j] = v[min(first + j * kStep, rows.v.cols - 1)];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = first + j * kStep;
      if (i >= rows.v.cols) break;
      auto* to = reinterpret_cast<Stored*>(block + view.layout.v_offset(view.layer, i / dim));
      to[view.v_index(at.slot, i % dim)] = Codec::encode(values[j]);
    }
  }
  turn_heads<2>(rows.k.data + at.row * rows.k.stride, unturned.kv_heads, turn, [&](int head, int number, float value) {
    auto* to = reinterpret_cast<Stored*>(block + view.layout.k_offset(view.layer, head));
    to[view.k_index(at.slot, number)] = Codec::encode(value);
  });
}

using TurnAndWrite = void (*)(UnturnedRows, NewRows);

// Null: these need the general one.
TurnAndWrite kernel_for_numbers(const UnturnedRows& unturned, const KvLayout& layout) {
  const int turned = 2 * unturned.table.pairs;
  if (layout.k_format != layout.v_format || unturned.heads * turned != unturned.q.cols ||
      unturned.kv_heads * turned != unturned.k.cols) {
    return nullptr;
  }
  if (layout.k_format == KvFormat::kBF16) return turn_numbers<CodecBF16>;
  return layout.k_format == KvFormat::kF16 ? turn_numbers<CodecF16> : nullptr;
}

}  // namespace

bool turn_and_write_numbers(const UnturnedRows& unturned, const NewRows& rows, cudaStream_t stream) {
  const TurnAndWrite kernel = kernel_for_numbers(unturned, rows.view.layout);
  if (kernel == nullptr) return false;
  const LaunchShape shape{dim3(static_cast<unsigned>(rows.rows), 2), dim3(32, kHeadsAtOnce),
                          sizeof(float) * 2 * static_cast<size_t>(unturned.table.pairs)};
  launch_early("turning rows and writing them into the cache", kernel, shape, stream, unturned, rows);
  return true;
}

}  // namespace kvasir::cuda
