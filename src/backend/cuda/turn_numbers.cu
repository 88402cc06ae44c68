// The usual case of turn_and_write_rows(): f16 and bf16.
#include "backend/cuda/launch.h"
#include "backend/cuda/new_rows.cuh"
#include "layout/codec.h"

namespace kvasir::cuda {
namespace {

// The numbers of a row that a thread block turns, pair by pair, as turn_pairs() does: visit(head, dim, turned).
// All that is read is on its way at once. kPairs: of a head, or 0 for any number, which takes longer to divide by.
template <int kPairs, int kAtOnce, class Visit>
__device__ void turn_heads(float* row, int heads, const Turn& by, const Visit& visit) {
  constexpr int kStep = kHeadsAtOnce * 32;
  const int pairs = kPairs != 0 ? kPairs : by.pairs;
  const int count = heads * pairs;
  for (int first = static_cast<int>(threadIdx.y * 32 + threadIdx.x); first < count; first += kStep * kAtOnce) {
    float a[kAtOnce];
    float b[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = min(first + j * kStep, count - 1);
      a[j] = row[i + i / pairs * pairs];
      b[j] = row[i + i / pairs * pairs + pairs];
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = first + j * kStep;
      if (i >= count) break;
      const int head = i / pairs;
      const int pair = i % pairs;
      float* at = row + head * 2 * pairs + pair;
      const float first_turned = __fsub_rn(__fmul_rn(a[j], by.cos[pair]), __fmul_rn(b[j], by.sin[pair]));
      const float second_turned = __fadd_rn(__fmul_rn(b[j], by.cos[pair]), __fmul_rn(a[j], by.sin[pair]));
      at[0] = first_turned;
      at[pairs] = second_turned;
      visit(head, pair, first_turned);
      visit(head, pair + pairs, second_turned);
    }
  }
}

// Numbers without scales, heads that are turned whole: each number goes its own way. A thread block has K and V of a
// row, and another one Q: of the row of its own number, since every row is somebody's.
template <class Codec, int kPairs>
__global__ void __launch_bounds__(kHeadsAtOnce * 32) turn_numbers(const UnturnedRows unturned, const NewRows rows) {
  using Stored = typename Codec::Stored;
  extern __shared__ float angles[];
  let_followers_start();
  if (blockIdx.y == 1) {
    const auto row = static_cast<int>(blockIdx.x);
    const Turn turn = turn_of_row(unturned.table, row, angles);
    wait_for_forerunners();
    return turn_heads<kPairs, 8>(unturned.q.data + row * unturned.q.stride, unturned.heads, turn,
                                 [](int, int, float) {});
  }
  const RowPlace at = row_place(rows, static_cast<int>(blockIdx.x));
  const Turn turn = turn_of_row(unturned.table, at.row, angles);
  const KvView& view = rows.view;
  std::byte* block = view.block_at(at.block);
  wait_for_forerunners();
  constexpr int kAtOnce = 4;
  constexpr int kStep = kHeadsAtOnce * 32;
  const int dim = kPairs != 0 ? 2 * kPairs : view.layout.shape.v_dim;
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
  turn_heads<kPairs, 2>(rows.k.data + at.row * rows.k.stride, unturned.kv_heads, turn,
                        [&](int head, int number, float value) {
                          auto* to = reinterpret_cast<Stored*>(block + view.layout.k_offset(view.layer, head));
                          to[view.k_index(at.slot, number)] = Codec::encode(value);
                        });
}

constexpr int kUsualPairs = 64;
constexpr int kRowsTogether = 16;
constexpr int kManyRows = 256;  // fewer of kRowsTogether would not fill a device

// Of a thread block, in shared memory.
template <class Stored>
struct RowsTogether {
  RowPlace places[kRowsTogether];
  std::int64_t angles[kRowsTogether];  // see RopeTable::first()
  Stored k[kRowsTogether][2 * kUsualPairs + 2];  // turned; so that tokens lie in different banks
};

// Of the rows from `first` on; behind the last one that one again.
template <class Stored>
__device__ void find_places(const NewRows& rows, const RopeTable& table, int first, RowsTogether<Stored>& together) {
  for (int i = static_cast<int>(threadIdx.y); i < kRowsTogether; i += kHeadsAtOnce) {
    const RowPlace at = row_place(rows, min(first + i, rows.rows - 1));
    if (threadIdx.x != 0) continue;
    together.places[i] = at;
    together.angles[i] = table.first(at.row);
  }
  __syncthreads();
}

// K and V of a KV head: V goes into the cache, K to where all threads find it.
template <class Codec, class Stored>
__device__ void turn_head(const NewRows& rows, const RopeTable& table, int head, RowsTogether<Stored>& together) {
  constexpr int kPairs = kUsualPairs;
  constexpr int kStep = kHeadsAtOnce * 32 / kPairs;  // rows at once
  constexpr int kSteps = kRowsTogether / kStep;
  const int thread = static_cast<int>(threadIdx.y * 32 + threadIdx.x);
  const int column = head * 2 * kPairs + thread % kPairs;
  float k[kSteps][2], v[kSteps][2], cos[kSteps], sin[kSteps];
#pragma unroll
  for (int j = 0; j < kSteps; ++j) {
    const std::int64_t row = together.places[thread / kPairs + j * kStep].row;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      k[j][half] = rows.k.data[row * rows.k.stride + column + half * kPairs];
      v[j][half] = rows.v.data[row * rows.v.stride + column + half * kPairs];
    }
    const std::int64_t angle = together.angles[thread / kPairs + j * kStep] + thread % kPairs;
    cos[j] = table.cos[angle];
    sin[j] = table.sin[angle];
  }
  __syncthreads();  // a row that is there twice was read before it is written
#pragma unroll
  for (int j = 0; j < kSteps; ++j) {
    const int i = thread / kPairs + j * kStep;
    const RowPlace at = together.places[i];
    const float turned[2] = {__fsub_rn(__fmul_rn(k[j][0], cos[j]), __fmul_rn(k[j][1], sin[j])),
                             __fadd_rn(__fmul_rn(k[j][1], cos[j]), __fmul_rn(k[j][0], sin[j]))};
    auto* to =
        reinterpret_cast<Stored*>(rows.view.block_at(at.block) + rows.view.layout.v_offset(rows.view.layer, head));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int dim = thread % kPairs + half * kPairs;
      rows.k.data[at.row * rows.k.stride + column + half * kPairs] = turned[half];
      together.k[i][dim] = Codec::encode(turned[half]);
      to[rows.view.v_index(at.slot, dim)] = Codec::encode(v[j][half]);
    }
  }
}

// The same for many rows: a thread block has one KV head of 16 of them, since K of neighbouring tokens lies side by
// side in the cache, and is written so. Others have Q, a row each.
template <class Codec>
__global__ void __launch_bounds__(kHeadsAtOnce * 32) turn_many(const UnturnedRows unturned, const NewRows rows) {
  using Stored = typename Codec::Stored;
  __shared__ float angles[2 * kUsualPairs];
  __shared__ RowsTogether<Stored> together;
  let_followers_start();
  const int first = static_cast<int>(blockIdx.x) * kRowsTogether;
  const int head = static_cast<int>(blockIdx.y);
  if (head >= unturned.kv_heads) {
    const int row = first + head - unturned.kv_heads;
    if (row >= rows.rows) return;
    const Turn turn = turn_of_row(unturned.table, row, angles);
    wait_for_forerunners();
    return turn_heads<kUsualPairs, 8>(unturned.q.data + row * unturned.q.stride, unturned.heads, turn,
                                      [](int, int, float) {});
  }
  find_places(rows, unturned.table, first, together);
  wait_for_forerunners();
  turn_head<Codec>(rows, unturned.table, head, together);
  __syncthreads();
  const int token = static_cast<int>(threadIdx.x) % kRowsTogether;
  const RowPlace at = together.places[token];
  auto* to =
      reinterpret_cast<Stored*>(rows.view.block_at(at.block) + rows.view.layout.k_offset(rows.view.layer, head));
  const int of_warp = static_cast<int>(threadIdx.y) * 2 + static_cast<int>(threadIdx.x) / kRowsTogether;
#pragma unroll
  for (int dim = 0; dim < 2 * kUsualPairs; dim += kHeadsAtOnce * 2) {
    to[rows.view.k_index(at.slot, dim + of_warp)] = together.k[token][dim + of_warp];
  }
}

using TurnAndWrite = void (*)(UnturnedRows, NewRows);

bool is_usual(const UnturnedRows& unturned, const KvLayout& layout) {
  return unturned.table.pairs == kUsualPairs && layout.shape.v_dim == 2 * kUsualPairs;
}

// Null: these need the general one.
TurnAndWrite kernel_for_numbers(const UnturnedRows& unturned, const KvLayout& layout) {
  const int turned = 2 * unturned.table.pairs;
  if (layout.k_format != layout.v_format || unturned.heads * turned != unturned.q.cols ||
      unturned.kv_heads * turned != unturned.k.cols) {
    return nullptr;
  }
  const bool usual = is_usual(unturned, layout);
  if (layout.k_format == KvFormat::kBF16) {
    return usual ? turn_numbers<CodecBF16, kUsualPairs> : turn_numbers<CodecBF16, 0>;
  }
  if (layout.k_format != KvFormat::kF16) return nullptr;
  return usual ? turn_numbers<CodecF16, kUsualPairs> : turn_numbers<CodecF16, 0>;
}

}  // namespace

bool turn_and_write_numbers(const UnturnedRows& unturned, const NewRows& rows, cudaStream_t stream) {
  const TurnAndWrite kernel = kernel_for_numbers(unturned, rows.view.layout);
  if (kernel == nullptr) return false;
  if (rows.rows >= kManyRows && is_usual(unturned, rows.view.layout)) {
    const auto many = rows.view.layout.k_format == KvFormat::kBF16 ? turn_many<CodecBF16> : turn_many<CodecF16>;
    const dim3 grid(static_cast<unsigned>((rows.rows + kRowsTogether - 1) / kRowsTogether),
                    static_cast<unsigned>(unturned.kv_heads + kRowsTogether));
    launch_early("turning many rows and writing them into the cache", many, {grid, dim3(32, kHeadsAtOnce)}, stream,
                 unturned, rows);
    return true;
  }
  const LaunchShape shape{dim3(static_cast<unsigned>(rows.rows), 2), dim3(32, kHeadsAtOnce),
                          sizeof(float) * 2 * static_cast<size_t>(unturned.table.pairs)};
  launch_early("turning rows and writing them into the cache", kernel, shape, stream, unturned, rows);
  return true;
}

}  // namespace kvasir::cuda
