// The usual case of rope_and_write_rows(): f16 and bf16.
#include "backend/cuda/kv/new_rows.cuh"
#include "backend/cuda/runtime/pdl_launch.h"
#include "layout/codec.h"

namespace kvasir::cuda {
namespace {

// Rotates a row's pairs, as rope_pairs(), by a CTA: visit(head, dim, rotated). All loads are issued together. kPairs:
// of a head, or 0 for any number, which divides more slowly.
template <int kPairs, int kAtOnce, class Visit>
__device__ void rope_heads(float* row, int heads, const RopeAngles& by, const Visit& visit) {
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
      const float first_rotated = __fsub_rn(__fmul_rn(a[j], by.cos[pair]), __fmul_rn(b[j], by.sin[pair]));
      const float second_rotated = __fadd_rn(__fmul_rn(b[j], by.cos[pair]), __fmul_rn(a[j], by.sin[pair]));
      at[0] = first_rotated;
      at[pairs] = second_rotated;
      visit(head, pair, first_rotated);
      visit(head, pair + pairs, second_rotated);
    }
  }
}

// A CTA rotates and writes K and V of a row, another one rotates Q of the row of its own number: every row of the
// batch belongs to a sequence.
template <class Codec, int kPairs>
__global__ void __launch_bounds__(kHeadsAtOnce * 32) rope_and_write_token(const QkvRows qkv, const NewRows rows) {
  using Stored = typename Codec::Stored;
  extern __shared__ float angles[];
  pdl_trigger();
  if (blockIdx.y == 1) {
    const auto row = static_cast<int>(blockIdx.x);
    const RopeAngles rope = rope_of_row(qkv.table, row, angles);
    pdl_wait();
    return rope_heads<kPairs, 8>(qkv.q.data + row * qkv.q.stride, qkv.heads, rope, [](int, int, float) {});
  }
  const RowAddress at = row_address(rows, static_cast<int>(blockIdx.x));
  const RopeAngles rope = rope_of_row(qkv.table, at.row, angles);
  const KvView& view = rows.view;
  std::byte* block = view.block_at(at.block);
  pdl_wait();
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
      to[view.v_index(at.token_in_block, i % dim)] = Codec::encode(values[j]);
    }
  }
  rope_heads<kPairs, 2>(rows.k.data + at.row * rows.k.stride, qkv.kv_heads, rope,
                        [&](int head, int number, float value) {
                          auto* to = reinterpret_cast<Stored*>(block + view.layout.k_offset(view.layer, head));
                          to[view.k_index(at.token_in_block, number)] = Codec::encode(value);
                        });
}

constexpr int kUsualPairs = 64;
constexpr int kRowsTogether = 16;
constexpr int kManyRows = 256;  // with fewer, CTAs of kRowsTogether rows do not fill a device

// Shared memory of a CTA.
template <class Stored>
struct RowsTogether {
  RowAddress addresses[kRowsTogether];
  std::int64_t angles[kRowsTogether];            // see RopeTable::first()
  Stored k[kRowsTogether][2 * kUsualPairs + 2];  // rotated; padded so that tokens lie in different banks
};

// Finds the addresses of rows from `first` on; past the end the last row is repeated.
template <class Stored>
__device__ void find_addresses(const NewRows& rows, const RopeTable& table, int first,
                               RowsTogether<Stored>& together) {
  for (int i = static_cast<int>(threadIdx.y); i < kRowsTogether; i += kHeadsAtOnce) {
    const RowAddress at = row_address(rows, min(first + i, rows.rows - 1));
    if (threadIdx.x != 0) continue;
    together.addresses[i] = at;
    together.angles[i] = table.first(at.row);
  }
  __syncthreads();
}

// K and V of a KV head: V goes into the cache, K into shared memory.
template <class Codec, class Stored>
__device__ void rope_head(const NewRows& rows, const RopeTable& table, int head, RowsTogether<Stored>& together) {
  constexpr int kPairs = kUsualPairs;
  constexpr int kStep = kHeadsAtOnce * 32 / kPairs;  // rows at once
  constexpr int kSteps = kRowsTogether / kStep;
  const int thread = static_cast<int>(threadIdx.y * 32 + threadIdx.x);
  const int column = head * 2 * kPairs + thread % kPairs;
  float k[kSteps][2], v[kSteps][2], cos[kSteps], sin[kSteps];
#pragma unroll
  for (int j = 0; j < kSteps; ++j) {
    const std::int64_t row = together.addresses[thread / kPairs + j * kStep].row;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      k[j][half] = rows.k.data[row * rows.k.stride + column + half * kPairs];
      v[j][half] = rows.v.data[row * rows.v.stride + column + half * kPairs];
    }
    const std::int64_t angle = together.angles[thread / kPairs + j * kStep] + thread % kPairs;
    cos[j] = table.cos[angle];
    sin[j] = table.sin[angle];
  }
  __syncthreads();  // repeated rows are read before they are written
#pragma unroll
  for (int j = 0; j < kSteps; ++j) {
    const int i = thread / kPairs + j * kStep;
    const RowAddress at = together.addresses[i];
    const float rotated[2] = {__fsub_rn(__fmul_rn(k[j][0], cos[j]), __fmul_rn(k[j][1], sin[j])),
                              __fadd_rn(__fmul_rn(k[j][1], cos[j]), __fmul_rn(k[j][0], sin[j]))};
    auto* to =
        reinterpret_cast<Stored*>(rows.view.block_at(at.block) + rows.view.layout.v_offset(rows.view.layer, head));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int dim = thread % kPairs + half * kPairs;
      rows.k.data[at.row * rows.k.stride + column + half * kPairs] = rotated[half];
      together.k[i][dim] = Codec::encode(rotated[half]);
      to[rows.view.v_index(at.token_in_block, dim)] = Codec::encode(v[j][half]);
    }
  }
}

// For many rows: a CTA has one KV head of 16 rows, since K of neighbouring tokens is contiguous in the cache. Other
// CTAs rotate Q, a row each.
template <class Codec>
__global__ void __launch_bounds__(kHeadsAtOnce * 32) rope_and_write_many(const QkvRows qkv, const NewRows rows) {
  using Stored = typename Codec::Stored;
  __shared__ float angles[2 * kUsualPairs];
  __shared__ RowsTogether<Stored> together;
  pdl_trigger();
  const int first = static_cast<int>(blockIdx.x) * kRowsTogether;
  const int head = static_cast<int>(blockIdx.y);
  if (head >= qkv.kv_heads) {
    const int row = first + head - qkv.kv_heads;
    if (row >= rows.rows) return;
    const RopeAngles rope = rope_of_row(qkv.table, row, angles);
    pdl_wait();
    return rope_heads<kUsualPairs, 8>(qkv.q.data + row * qkv.q.stride, qkv.heads, rope, [](int, int, float) {});
  }
  find_addresses(rows, qkv.table, first, together);
  pdl_wait();
  rope_head<Codec>(rows, qkv.table, head, together);
  __syncthreads();
  const int token = static_cast<int>(threadIdx.x) % kRowsTogether;
  const RowAddress at = together.addresses[token];
  auto* to =
      reinterpret_cast<Stored*>(rows.view.block_at(at.block) + rows.view.layout.k_offset(rows.view.layer, head));
  const int of_warp = static_cast<int>(threadIdx.y) * 2 + static_cast<int>(threadIdx.x) / kRowsTogether;
#pragma unroll
  for (int dim = 0; dim < 2 * kUsualPairs; dim += kHeadsAtOnce * 2) {
    to[rows.view.k_index(at.token_in_block, dim + of_warp)] = together.k[token][dim + of_warp];
  }
}

using RopeAndWrite = void (*)(QkvRows, NewRows);

bool is_usual(const QkvRows& qkv, const KvLayout& layout) {
  return qkv.table.pairs == kUsualPairs && layout.shape.v_dim == 2 * kUsualPairs;
}

// Null: the general kernel of kv_write.cu is needed.
RopeAndWrite f16_kernel_for(const QkvRows& qkv, const KvLayout& layout) {
  const int rotated = 2 * qkv.table.pairs;
  if (!layout.shape.has_v() || layout.k_format != layout.v_format || qkv.heads * rotated != qkv.q.cols ||
      qkv.kv_heads * rotated != qkv.k.cols) {
    return nullptr;
  }
  const bool usual = is_usual(qkv, layout);
  if (layout.k_format == KvFormat::kBF16) {
    return usual ? rope_and_write_token<CodecBF16, kUsualPairs> : rope_and_write_token<CodecBF16, 0>;
  }
  if (layout.k_format != KvFormat::kF16) return nullptr;
  return usual ? rope_and_write_token<CodecF16, kUsualPairs> : rope_and_write_token<CodecF16, 0>;
}

}  // namespace

bool rope_and_write_f16(const QkvRows& qkv, const NewRows& rows, cudaStream_t stream) {
  const RopeAndWrite kernel = f16_kernel_for(qkv, rows.view.layout);
  if (kernel == nullptr) return false;
  if (rows.rows >= kManyRows && is_usual(qkv, rows.view.layout)) {
    const auto many =
        rows.view.layout.k_format == KvFormat::kBF16 ? rope_and_write_many<CodecBF16> : rope_and_write_many<CodecF16>;
    const dim3 grid(static_cast<unsigned>((rows.rows + kRowsTogether - 1) / kRowsTogether),
                    static_cast<unsigned>(qkv.kv_heads + kRowsTogether));
    launch_pdl("rope_kv_write_f16, many rows", many, {grid, dim3(32, kHeadsAtOnce)}, stream, qkv, rows);
    return true;
  }
  const LaunchShape shape{dim3(static_cast<unsigned>(rows.rows), 2), dim3(32, kHeadsAtOnce),
                          sizeof(float) * 2 * static_cast<size_t>(qkv.table.pairs)};
  launch_pdl("rope_kv_write_f16", kernel, shape, stream, qkv, rows);
  return true;
}

}  // namespace kvasir::cuda
