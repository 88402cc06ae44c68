#include "backend/cuda/kv/kv_write.h"

#include <algorithm>
#include <type_traits>

#include "backend/cuda/attention/kv_tile.cuh"
#include "backend/cuda/kv/new_rows.cuh"
#include "backend/cuda/runtime/pdl_launch.h"
#include "layout/row_numbers.h"

namespace kvasir::cuda {
namespace {

// Everything rounds step by step, as row_codec.cpp does on the host: the bytes are the same.

struct RowSmem {        // shared memory of one warp
  float* row;           // [dim]
  std::uint8_t* codes;  // [dim, padded to whole bytes]
};

__device__ float largest_of(const float* row, int dim) {
  float largest = 0;
  for (int i = threadIdx.x; i < dim; i += 32) largest = fmaxf(largest, fabsf(row[i]));
  return warp_max(largest);
}

// The code of a number and, through `value`, what it decodes to.
template <class Codec>
__device__ float quantize_number(float number, float inverse, float scale, float& value) {
  const auto zero = static_cast<float>(Codec::kZero);
  constexpr float kPart = 1.0F / static_cast<float>(Codec::kFactor);
  const float level = __fmul_rn(__fadd_rn(__fmul_rn(number, inverse), zero), kPart);
  constexpr float kLow = Codec::kBits == 8 ? 1.0F : 0.0F;
  constexpr auto kHigh = static_cast<float>(Codec::kMask);
  const float bounded = level < kLow ? kLow : kHigh < level ? kHigh : level;
  const float code = __fsub_rn(__fadd_rn(bounded, kRounder), kRounder);
  value = __fmul_rn(__fsub_rn(__fmul_rn(code, static_cast<float>(Codec::kFactor)), zero), scale);
  return code;
}

// The candidate scale of least squared error; a lane tries each, in the order of the dimensions.
template <class Codec>
__device__ float best_scale(const float* row, int dim, float whole) {
  constexpr int kTries = 8;
  constexpr float kLeast = Codec::kBits == 2 ? 0.4F : 0.65F;
  const int lane = threadIdx.x;
  const float part = __fdiv_rn(__fmul_rn(1.0F - kLeast, static_cast<float>(lane)), static_cast<float>(kTries - 1));
  const float scale = CodecBF16::decode(CodecBF16::encode(__fmul_rn(whole, __fsub_rn(1.0F, part))));
  float error = INFINITY;
  if (lane < kTries) {
    error = 0;
    const float inverse = __fdiv_rn(1.0F, scale);
    for (int i = 0; i < dim; ++i) {
      float value;
      quantize_number<Codec>(row[i], inverse, scale, value);
      const float off = __fsub_rn(row[i], value);
      error = __fadd_rn(error, __fmul_rn(off, off));
    }
  }
  float best = whole;
  float least = INFINITY;
  for (int i = 0; i < kTries; ++i) {
    const float other = __shfl_sync(kAllLanes, error, i);
    const float its_scale = __shfl_sync(kAllLanes, scale, i);
    if (other < least) least = other, best = its_scale;
  }
  return best;
}

// Quantizes a row in shared memory; returns its scale.
template <class Codec>
__device__ float quantize(const RowSmem& smem, int dim) {
  const float largest = largest_of(smem.row, dim);
  const int lane = threadIdx.x;
  if (largest < kTiniestHeld) {
    for (int i = lane; i < dim; i += 32) smem.codes[i] = 0;
    __syncwarp();
    return 0.0F;
  }
  const float whole = scale_above(__fdiv_rn(largest, static_cast<float>(Codec::kLevels)));
  float scale = whole;
  if constexpr (Codec::kBits != 8) scale = best_scale<Codec>(smem.row, dim, whole);
  const float inverse = __fdiv_rn(1.0F, scale);
  for (int i = lane; i < dim; i += 32) {
    float value;
    smem.codes[i] = static_cast<std::uint8_t>(quantize_number<Codec>(smem.row[i], inverse, scale, value));
  }
  __syncwarp();
  if constexpr (Codec::kBits == 8) return scale;
  float dot = 0;
  float squares = 0;
  for (int i = 0; i < dim; ++i) {
    const auto value = static_cast<float>(smem.codes[i] * Codec::kFactor - Codec::kZero);
    dot = __fadd_rn(dot, __fmul_rn(smem.row[i], value));
    squares = __fadd_rn(squares, __fmul_rn(value, value));
  }
  return CodecBF16::decode(CodecBF16::encode(__fdiv_rn(dot, squares)));
}

struct CacheRow {
  const KvView& view;
  std::byte* head;    // its codes
  std::byte* scales;  // of the head's rows
  int dim;
  int token_in_block;
};

template <class Codec, Side kSide>
__device__ int byte_count(int dim) {
  return kSide == Side::kKeys ? kCodeQuad * Codec::k_groups(dim) : Codec::v_columns(dim);
}

// The codes that share byte `index` of a row: dimensions first, first + apart, ...
template <class Codec, Side kSide>
struct CodesOfByte {
  int first, apart;
  std::int64_t byte;

  __device__ CodesOfByte(const CacheRow& cache_row, int index) {
    const int tokens = cache_row.view.layout.block_tokens;
    if constexpr (kSide == Side::kKeys) {
      apart = kCodeQuad;
      first = index / kCodeQuad * kCodeQuad * Codec::kPerByte + index % kCodeQuad;
      byte = Codec::k_place(tokens, cache_row.token_in_block, first).byte;
    } else {
      apart = Codec::v_columns(cache_row.dim);
      first = index;
      byte = Codec::v_place(tokens, cache_row.dim, cache_row.token_in_block, first).byte;
    }
  }
};

template <class Codec, Side kSide>
__device__ void write_packed(const CacheRow& cache_row, const RowSmem& smem) {
  const int lane = threadIdx.x;
  for (int i = lane; i < cache_row.dim; i += 32) smem.row[i] = held(smem.row[i]);
  __syncwarp();
  hadamard_row(smem.row, cache_row.dim);
  const int bytes = byte_count<Codec, kSide>(cache_row.dim);
  for (int i = cache_row.dim + lane; i < bytes * Codec::kPerByte; i += 32) smem.codes[i] = 0;
  const float scale = quantize<Codec>(smem, cache_row.dim);
  for (int i = lane; i < bytes; i += 32) {
    const CodesOfByte<Codec, kSide> from(cache_row, i);
    unsigned byte = 0;
    for (int j = 0; j < Codec::kPerByte; ++j) byte |= smem.codes[from.first + j * from.apart] << j * Codec::kBits;
    cache_row.head[from.byte] = static_cast<std::byte>(byte);
  }
  if (lane == 0)
    reinterpret_cast<std::uint16_t*>(cache_row.scales)[cache_row.token_in_block] = CodecBF16::encode(scale);
}

template <class Codec, Side kSide>
__device__ void write_numbers(const CacheRow& cache_row, const RowSmem& smem) {
  using Stored = typename Codec::Stored;
  const int lane = threadIdx.x;
  float scale = 1.0F;
  if constexpr (kHasScale<Codec>) {
    for (int i = lane; i < cache_row.dim; i += 32) smem.row[i] = held(smem.row[i]);
    __syncwarp();
    const float largest = largest_of(smem.row, cache_row.dim);
    scale = largest < kTiniestHeld ? 0.0F : scale_above(__fdiv_rn(largest, Codec::kLargest));
    if (lane == 0)
      reinterpret_cast<std::uint16_t*>(cache_row.scales)[cache_row.token_in_block] = CodecBF16::encode(scale);
  }
  for (int i = lane; i < cache_row.dim; i += 32) {
    float value = smem.row[i];
    if constexpr (kHasScale<Codec>) value = scale == 0.0F ? 0.0F : __fdiv_rn(value, scale);
    const std::int64_t at = kSide == Side::kKeys ? cache_row.view.k_index(cache_row.token_in_block, i)
                                                 : cache_row.view.v_index(cache_row.token_in_block, i);
    reinterpret_cast<Stored*>(cache_row.head)[at] = Codec::encode(value);
  }
}

template <class Codec>
__device__ void write_pruned(const CacheRow& cache_row, const RowSmem& smem) {
  const int lane = threadIdx.x;
  for (int i = lane; i < cache_row.dim; i += 32) smem.row[i] = held(smem.row[i]);
  __syncwarp();
  std::byte* mask =
      cache_row.head + static_cast<std::int64_t>(cache_row.token_in_block) * Codec::row_bytes(cache_row.dim);
  auto* values = reinterpret_cast<std::uint16_t*>(mask + Codec::mask_bytes(cache_row.dim));
  int before = 0;  // kept numbers of lower dimensions
  for (int first = 0; first < cache_row.dim; first += 32) {
    const int dim = first + lane;
    int larger = 0;
    const float own = dim < cache_row.dim ? fabsf(smem.row[dim]) : 0.0F;
    for (int i = 0; i < cache_row.dim; ++i) {
      const float other = fabsf(smem.row[i]);
      larger += other > own || (other == own && i < dim);
    }
    const bool kept = dim < cache_row.dim && larger < Codec::kept(cache_row.dim);
    const unsigned all = __ballot_sync(kAllLanes, kept);
    if (kept) values[before + __popc(all & ((1U << lane) - 1U))] = CodecF16::encode(smem.row[dim]);
    before += __popc(all);
    if (lane < 4 && first / 8 + lane < Codec::mask_bytes(cache_row.dim)) {
      mask[first / 8 + lane] = static_cast<std::byte>(all >> lane * 8 & 0xffU);
    }
  }
}

template <Side kSide>
__device__ CacheRow cache_row_of(const KvView& view, BlockId block, int head, int token_in_block) {
  if (kSide == Side::kKeys) {
    return {view, view.k_head(block, head), view.k_scales(block, head), view.layout.shape.k_dim, token_in_block};
  }
  return {view, view.v_head(block, head), view.v_scales(block, head), view.layout.shape.v_dim, token_in_block};
}

// rope() of a head; `from` and `to` may be the same.
__device__ void rope_pairs(const float* from, const RopeAngles& by, int dim, float* to) {
  for (int i = threadIdx.x; i < by.pairs; i += 32) {
    const float a = from[i];
    const float b = from[i + by.pairs];
    to[i] = __fsub_rn(__fmul_rn(a, by.cos[i]), __fmul_rn(b, by.sin[i]));
    to[i + by.pairs] = __fadd_rn(__fmul_rn(b, by.cos[i]), __fmul_rn(a, by.sin[i]));
  }
  for (int i = 2 * by.pairs + static_cast<int>(threadIdx.x); i < dim; i += 32) to[i] = from[i];
}

// Called by one warp.
template <Side kSide>
__device__ void write_row(const NewRows& rows, const RowAddress& at, int head, const RopeAngles& rope,
                          float* shared) {
  const KvLayout& layout = rows.view.layout;
  const CacheRow cache_row = cache_row_of<kSide>(rows.view, at.block, head, at.token_in_block);
  const Matrix& from = kSide == Side::kKeys ? rows.k : rows.v;
  const RowSmem smem{shared, reinterpret_cast<std::uint8_t*>(shared + cache_row.dim)};
  float* row = from.data + at.row * from.stride + head * cache_row.dim;
  if (rope.cos != nullptr) {
    rope_pairs(row, rope, cache_row.dim, smem.row);
    __syncwarp();
    for (int i = threadIdx.x; i < cache_row.dim; i += 32) row[i] = smem.row[i];
  } else {
    for (int i = threadIdx.x; i < cache_row.dim; i += 32) smem.row[i] = row[i];
  }
  __syncwarp();
  visit_codec(kSide == Side::kKeys ? layout.k_format : layout.v_format, [&](auto codec) {
    using Codec = decltype(codec);
    if constexpr (kIsPacked<Codec>) {
      write_packed<Codec, kSide>(cache_row, smem);
    } else if constexpr (kIsPruned<Codec>) {
      write_pruned<Codec>(cache_row, smem);
    } else {
      write_numbers<Codec, kSide>(cache_row, smem);
    }
  });
}

// Floats of a row and its padded codes.
__host__ __device__ int floats_of_warp(int dim) { return dim + (dim + 16 + 3) / 4; }

__device__ float* smem_of_warp(float* shared, const KvShape& shape) {
  return shared + static_cast<int>(threadIdx.y) * floats_of_warp(max(shape.k_dim, shape.v_dim));
}

// K and V, or K alone where V is a part of it.
__host__ __device__ int sides(const KvShape& shape) { return shape.has_v() ? 2 : 1; }

// A warp for each row and head, of K and then of V.
__global__ void __launch_bounds__(kHeadsAtOnce * 32) write(const NewRows rows) {
  extern __shared__ float shared[];
  pdl_trigger();
  const RowAddress at = row_address(rows, static_cast<int>(blockIdx.x));
  pdl_wait();
  const int head = static_cast<int>(blockIdx.y * kHeadsAtOnce + threadIdx.y);
  const int heads = rows.view.layout.shape.heads;
  float* smem = smem_of_warp(shared, rows.view.layout.shape);
  if (head < heads) {
    write_row<Side::kKeys>(rows, at, head, {}, smem);
  } else if (head < sides(rows.view.layout.shape) * heads) {
    write_row<Side::kValues>(rows, at, head - heads, {}, smem);
  }
}

// A warp for each row and head, of Q, of K and then of V.
__global__ void __launch_bounds__(kHeadsAtOnce * 32) rope_and_write(const QkvRows qkv, const NewRows rows) {
  extern __shared__ float all[];
  pdl_trigger();
  const KvShape& shape = rows.view.layout.shape;
  const RowAddress at = row_address(rows, static_cast<int>(blockIdx.x));
  const int row = at.row;
  float* angles = all + kHeadsAtOnce * floats_of_warp(max(shape.k_dim, shape.v_dim));
  const RopeAngles rope = rope_of_row(qkv.table, row, angles);
  float* shared = smem_of_warp(all, shape);
  const int head = static_cast<int>(blockIdx.y * kHeadsAtOnce + threadIdx.y);
  pdl_wait();
  if (head >= qkv.heads + sides(shape) * qkv.kv_heads) return;
  if (head < qkv.heads) {
    const int dim = qkv.q.cols / qkv.heads;
    float* q = qkv.q.data + row * qkv.q.stride + head * dim;
    rope_pairs(q, rope, dim, q);
  } else if (head < qkv.heads + qkv.kv_heads) {
    write_row<Side::kKeys>(rows, at, head - qkv.heads, rope, shared);
  } else {
    write_row<Side::kValues>(rows, at, head - qkv.heads - qkv.kv_heads, {}, shared);
  }
}

template <Side kSide>
__device__ void move_row(const CacheRow& from, const CacheRow& to) {
  const KvLayout& layout = from.view.layout;
  const int lane = threadIdx.x;
  visit_codec(kSide == Side::kKeys ? layout.k_format : layout.v_format, [&](auto codec) {
    using Codec = decltype(codec);
    if constexpr (kIsPacked<Codec>) {
      for (int i = lane; i < byte_count<Codec, kSide>(from.dim); i += 32) {
        to.head[CodesOfByte<Codec, kSide>(to, i).byte] = from.head[CodesOfByte<Codec, kSide>(from, i).byte];
      }
    } else if constexpr (kIsPruned<Codec>) {
      const int bytes = Codec::row_bytes(from.dim);
      for (int i = lane; i < bytes; i += 32) {
        to.head[static_cast<std::int64_t>(to.token_in_block) * bytes + i] =
            from.head[static_cast<std::int64_t>(from.token_in_block) * bytes + i];
      }
    } else {
      using Stored = typename Codec::Stored;
      const auto at = [&](const CacheRow& cache_row, int i) {
        return kSide == Side::kKeys ? cache_row.view.k_index(cache_row.token_in_block, i)
                                    : cache_row.view.v_index(cache_row.token_in_block, i);
      };
      for (int i = lane; i < from.dim; i += 32) {
        reinterpret_cast<Stored*>(to.head)[at(to, i)] = reinterpret_cast<const Stored*>(from.head)[at(from, i)];
      }
    }
    if (kHasScale<Codec> && lane == 0) {
      reinterpret_cast<std::uint16_t*>(to.scales)[to.token_in_block] =
          reinterpret_cast<const std::uint16_t*>(from.scales)[from.token_in_block];
    }
  });
}

// A warp for each head, once for K and once for V. The moves of a head may depend on each other.
__global__ void move(const MovedRows rows) {
  const int head = blockIdx.x;
  const int tokens = rows.view.layout.block_tokens;
  for (int i = head == 0 ? 0 : rows.heads_end[head - 1]; i < rows.heads_end[head]; ++i) {
    const RowMove one = rows.moves[i];
    const BlockId from = rows.blocks[one.from / tokens];
    const BlockId to = rows.blocks[one.to / tokens];
    if (blockIdx.y == 0) {
      move_row<Side::kKeys>(cache_row_of<Side::kKeys>(rows.view, from, head, one.from % tokens),
                            cache_row_of<Side::kKeys>(rows.view, to, head, one.to % tokens));
    } else {
      move_row<Side::kValues>(cache_row_of<Side::kValues>(rows.view, from, head, one.from % tokens),
                              cache_row_of<Side::kValues>(rows.view, to, head, one.to % tokens));
    }
    __syncwarp();
  }
}

LaunchShape shape_of_launch(int rows, int heads, const KvShape& shape, int angles) {
  const int floats = kHeadsAtOnce * floats_of_warp(std::max(shape.k_dim, shape.v_dim)) + angles;
  return {dim3(static_cast<unsigned>(rows), static_cast<unsigned>((heads + kHeadsAtOnce - 1) / kHeadsAtOnce)),
          dim3(32, kHeadsAtOnce), sizeof(float) * static_cast<size_t>(floats)};
}

}  // namespace

void write_rows(const NewRows& rows, cudaStream_t stream) {
  if (rows.rows == 0) return;
  const KvShape& shape = rows.view.layout.shape;
  launch_pdl("kv_write", write, shape_of_launch(rows.rows, sides(shape) * shape.heads, shape, 0), stream, rows);
}

void rope_and_write_rows(const QkvRows& qkv, const NewRows& rows, cudaStream_t stream) {
  if (rope_and_write_f16(qkv, rows, stream)) return;
  const int heads = qkv.heads + sides(rows.view.layout.shape) * qkv.kv_heads;
  launch_pdl("rope_kv_write", rope_and_write,
             shape_of_launch(rows.rows, heads, rows.view.layout.shape, 2 * qkv.table.pairs), stream, qkv, rows);
}

void move_rows(const MovedRows& rows, cudaStream_t stream) {
  const KvShape& shape = rows.view.layout.shape;
  const dim3 grid(static_cast<unsigned>(shape.heads), static_cast<unsigned>(sides(shape)));
  move<<<grid, 32, 0, stream>>>(rows);
  check_launch("kv_move");
}

}  // namespace kvasir::cuda
