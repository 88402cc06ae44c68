// Attention over integers of 8, 4 or 2 bits in blocks of 16 tokens on Hopper:
// codes are multiplied as they come from the cache, keys on the integer units
// of the tensor cores.
//
// A thread's keys and values lie in 32-bit words of the cache: four dimensions
// of a key, and four tokens of a value. Tokens and dimensions are given to the
// rows of the tensor cores in such an order that words are fragments; sums of
// integers are exact, and sums over 16 tokens have no order.
#include <algorithm>

#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/hopper.cuh"
#include "backend/cuda/item_walk.cuh"
#include "layout/codec.h"

namespace kvasir::cuda {
namespace {

// As they lie in the cache: of a block and head first K, then V, then the
// scales of both.
template <class Codec, int kDim>
struct Keys {
  std::uint32_t words[kDim / (kCodeQuad * Codec::kPerByte)][kBlockOfTile];  // four dimensions of a token
};
template <class Codec, int kDim>
struct Values {
  std::uint32_t words[kBlockOfTile / 4][kDim / Codec::kPerByte];  // four tokens of a column
  std::uint16_t k_scales[kBlockOfTile];
  std::uint16_t v_scales[kBlockOfTile];
};

// Of one tile: the next one's keys are on their way as soon as these were
// multiplied, and so are its values.
template <class Codec, int kDim>
struct WarpRoom {
  Keys<Codec, kDim> keys[kBlocksOfTile];
  Values<Codec, kDim> values[kBlocksOfTile];
};

inline constexpr int kWarps = 12;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

struct Barriers {
  std::uint64_t k;
  std::uint64_t v;
};

template <class Codec, int kDim>
struct Copies {
  const AttentionArgs& args;
  WarpRoom<Codec, kDim>& room;
  Barriers& barriers;
  ItemWalk walk;
  int tile = 0;
  WalkItem begun{};  // the last item of which a tile was copied
  int begun_head = 0;

  static constexpr auto kKeyBytes = static_cast<std::uint32_t>(sizeof(Keys<Codec, kDim>));

  // A lane for each block; blocks that are not there leave what lay in their
  // place.
  template <class Part>
  __device__ void copy_blocks(Part* to, std::uint64_t& barrier, std::int64_t offset) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const BlockId id = walk.at().block(tile * kBlocksOfTile + lane % kBlocksOfTile);
    const bool copies = lane < kBlocksOfTile && id != kNoBlock;
    const auto count = static_cast<std::uint32_t>(__popc(__ballot_sync(0xffffffff, copies)));
    const std::uint32_t at = hopper::shared_address(&barrier);
    if (lane == 0) hopper::arrive_and_expect(at, count * static_cast<std::uint32_t>(sizeof(Part)));
    __syncwarp();
    if (!copies) return;
    hopper::copy_bytes(hopper::shared_address(to + lane), args.view.k_head(id, begun_head) + offset, sizeof(Part),
                       at);
  }

  __device__ void next_keys() {
    if (!walk.at().valid()) return;
    if (tile == 0) {
      begun = walk.at();
      begun_head = walk.kv_head();
    }
    copy_blocks(room.keys, barriers.k, 0);
  }
  __device__ void next_values() {
    if (!walk.at().valid()) return;
    copy_blocks(room.values, barriers.v, kKeyBytes);
    if (++tile == walk.at().tiles()) {
      tile = 0;
      walk.advance();
    }
  }
};

// The thread's row of queries, g, as bytes in the order in which words hold
// keys' dimensions; the sums of rows 2t and 2t + 1.
template <class Codec, int kDim>
struct QueryCodes {
  static constexpr int kSteps = kDim / 32;
  std::uint32_t b[kSteps][2];
  int sums[2];  // of all dimensions

  // The first dimension of fragment `part` of a step: a word has them in parts
  // of a byte.
  static __device__ int dim(int step, int part) {
    const int t = lane_pair();
    if constexpr (Codec::kPerByte == 1) return step * 32 + part * 16 + t * 4;
    if constexpr (Codec::kPerByte == 2) return step * 32 + t * 8 + part * 4;
    return step / 2 * 64 + t * 16 + step % 2 * 8 + part * 4;
  }

  __device__ void load(const TileRows& rows) {
    const int row = lane_group();
    const bool has = row < rows.count();
    const std::uint16_t* from = rows.args.q + (has ? rows.state(row) : 0) * rows.args.k_stride;
    int sum = 0;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        uint2 four{0, 0};
        if (has) four = *reinterpret_cast<const uint2*>(from + dim(step, part));
        b[step][part] = bytes_of(four);
        sum = __dp4a(static_cast<int>(b[step][part]), 0x01010101, sum);
      }
    }
    sum += __shfl_xor_sync(0xffffffff, sum, 1);
    sum += __shfl_xor_sync(0xffffffff, sum, 2);
    sums[0] = __shfl_sync(0xffffffff, sum,
                          lane_pair() * 8);  // the first lane of row 2t
    sums[1] = __shfl_sync(0xffffffff, sum, lane_pair() * 8 + 4);
  }

 private:
  // Integers that lie there as f16.
  static __device__ std::uint32_t bytes_of(uint2 four) {
    const auto byte = [](std::uint32_t pair, int shift) {
      return static_cast<std::uint32_t>(__half2int_rn(__ushort_as_half(pair >> shift & 0xffffU))) & 0xffU;
    };
    return byte(four.x, 0) | byte(four.x, 16) << 8 | byte(four.y, 0) << 16 | byte(four.y, 16) << 24;
  }
};

// Of 16: rows g and g + 8 of the tensor cores have such tokens that a thread's
// weights, turned over, are of four neighbours, as words of values are.
__device__ int token_of(int half) { return lane_group() / 2 * 4 + half * 2 + lane_group() % 2; }

__device__ float scale_of(const std::uint16_t* scales, int token) {
  return __uint_as_float(static_cast<std::uint32_t>(scales[token]) << 16);
}

__device__ void multiply_bytes(int (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, "
      "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Scores of one block, without their keys' scales.
template <class Codec, int kDim>
__device__ void multiply_block(const QueryCodes<Codec, kDim>& q, const Keys<Codec, kDim>& keys, float (&s)[4]) {
  const int t = lane_pair();
  int sums[4] = {};
#pragma unroll
  for (int step = 0; step < QueryCodes<Codec, kDim>::kSteps; ++step) {
    std::uint32_t a[4];  // of tokens 0 and 1 of the thread, then of the next
                         // dimensions of both
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int token = token_of(half);
      if constexpr (Codec::kPerByte == 1) {
        a[half] = keys.words[step * 8 + t][token];
        a[half + 2] = keys.words[step * 8 + 4 + t][token];
      } else if constexpr (Codec::kPerByte == 2) {
        const std::uint32_t word = keys.words[step * 4 + t][token];
        a[half] = word & 0x0f0f0f0fU;
        a[half + 2] = word >> 4 & 0x0f0f0f0fU;
      } else {
        const std::uint32_t word = keys.words[step / 2 * 4 + t][token] >> step % 2 * 4;
        a[half] = word & 0x03030303U;
        a[half + 2] = word >> 2 & 0x03030303U;
      }
    }
    multiply_bytes(sums, a, q.b[step][0], q.b[step][1]);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int sum = sums[i] * Codec::kFactor - Codec::kZero * q.sums[i % 2];
    s[i] = static_cast<float>(sum);
  }
}

__device__ void scale_scores(const std::uint16_t* k_scales, float (&s)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) s[i] = __fmul_rn(s[i], scale_of(k_scales, token_of(i / 2)));
}

// Two tokens' codes, 16 bits apart, as bf16: exactly what they stand for,
// without the scale.
template <class Codec>
__device__ std::uint32_t values_of(std::uint32_t codes, int part) {
  if constexpr (Codec::kPerByte == 1) {
    // 128 + the lower seven bits, less 128 or 256.
    const std::uint32_t low = (codes & 0x007f007fU) | 0x43004300U;
    const std::uint32_t high = (codes & 0x00800080U) ^ 0x43804380U;
    std::uint32_t out;
    asm("sub.bf16x2 %0, %1, %2;" : "=r"(out) : "r"(low), "r"(high));
    return out;
  } else {
    // 8 + code / 2, times 4, less 32 and the zero.
    constexpr std::uint32_t kMask =
        static_cast<std::uint32_t>(Codec::kMask) << 3 | static_cast<std::uint32_t>(Codec::kMask) << 19;
    const int shift = 3 - part * Codec::kBits;
    const std::uint32_t x = ((shift >= 0 ? codes << shift : codes >> -shift) & kMask) | 0x41004100U;
    constexpr std::uint32_t kFour = 0x40804080U;
    constexpr std::uint32_t kLess = Codec::kBits == 4 ? 0xC23CC23CU : 0xC20CC20CU;  // -47, -35
    std::uint32_t out;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(x), "r"(kFour), "r"(kLess));
    return out;
  }
}

// Which columns of values a thread has: neighbours, half of them for rows g of
// the tiles and half for rows g + 8.
template <class Codec, int kDim>
struct Columns {
  static constexpr int kAll = kDim / Codec::kPerByte;
  static constexpr int kGroup = kAll < 64 ? kAll : 64;  // that a warp reads at once
  static constexpr int kOwn = kGroup / 8;
  static constexpr int kTiles = kOwn / 2;  // of a group and a part of a byte
  static_assert(kOwn % 4 == 0 && kAll % kGroup == 0);

  // The dimension of row g + 8 half of a tile.
  static __device__ int dim(int tile, int half) {
    return tile / kTiles * kGroup + lane_group() * kOwn + half * kTiles + tile % kTiles;
  }
};

// The values of one block, by weights that have their scales.
template <class Codec, int kDim>
__device__ void add_block(const WeightTile& weights, const Values<Codec, kDim>& values, Sums<kDim>& sums) {
  using Own = Columns<Codec, kDim>;
#pragma unroll
  for (int group = 0; group < Own::kAll / Own::kGroup; ++group) {
    std::uint32_t words[Own::kOwn];
#pragma unroll
    for (int i = 0; i < Own::kOwn; i += 4) {
      const auto* from = &values.words[lane_pair()][group * Own::kGroup + lane_group() * Own::kOwn + i];
      const uint4 four = *reinterpret_cast<const uint4*>(from);
      words[i] = four.x, words[i + 1] = four.y, words[i + 2] = four.z, words[i + 3] = four.w;
    }
#pragma unroll
    for (int i = 0; i < Own::kTiles; ++i) {
      const std::uint32_t codes[4] = {__byte_perm(words[i], 0, 0x4140),
                                      __byte_perm(words[i + Own::kTiles], 0,
                                                  0x4140),  // of the first two tokens
                                      __byte_perm(words[i], 0, 0x4342),
                                      __byte_perm(words[i + Own::kTiles], 0, 0x4342)};
#pragma unroll
      for (int part = 0; part < Codec::kPerByte; ++part) {
        const std::uint32_t a[4] = {values_of<Codec>(codes[0], part), values_of<Codec>(codes[1], part),
                                    values_of<Codec>(codes[2], part), values_of<Codec>(codes[3], part)};
        const int tile = (part * (Own::kAll / Own::kGroup) + group) * Own::kTiles + i;
        HalfBF16::multiply(sums.o[tile], a, weights.b[0], weights.b[1]);
      }
    }
  }
}

// Weights become those of values with scales: of a token that nobody sees 0,
// whatever lies in the place of its scale.
__device__ void scale_weights(const std::uint16_t* v_scales, float (&weights)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    weights[i] = weights[i] == 0.0F ? 0.0F : __fmul_rn(weights[i], scale_of(v_scales, token_of(i / 2)));
  }
}

template <class Codec, int kDim>
__device__ void attend_to_items(const AttentionArgs& args, WarpRoom<Codec, kDim>& room, Barriers& barriers) {
  Copies<Codec, kDim> copies{args, room, barriers, ItemWalk(args, args.taken)};
  copies.next_keys();
  copies.next_values();
  unsigned parity = 0;
  for (WalkItem now = copies.begun; now.valid();) {
    const TileRows tile_rows{args, now.item, copies.begun_head};
    const RowsOfWarp rows = tile_rows.seen();
    QueryCodes<Codec, kDim> q;
    q.load(tile_rows);
    Sums<kDim> sums;
    sums.clear();
    for (int tile = 0; tile < now.tiles(); ++tile, parity ^= 1U) {
      Scores s;
      hopper::wait(hopper::shared_address(&barriers.k), parity);
#pragma unroll
      for (int block = 0; block < kBlocksOfTile; ++block) multiply_block(q, room.keys[block], s[block]);
      __syncwarp();
      copies.next_keys();
      hopper::wait(hopper::shared_address(&barriers.v), parity);
#pragma unroll
      for (int block = 0; block < kBlocksOfTile; ++block) scale_scores(room.values[block].k_scales, s[block]);
      mask(
          args.view, rows, now.first_key() + tile * kTileTokens, [](int half) { return token_of(half); }, s);
      soften(rows.factor, s, sums);
#pragma unroll
      for (int block = 0; block < kBlocksOfTile; ++block) {
        add_weights<HalfBF16>(turned_over<HalfBF16>(s[block]), sums);
        scale_weights(room.values[block].v_scales, s[block]);
        add_block(turned_over<HalfBF16>(s[block]), room.values[block], sums);
      }
      __syncwarp();
      copies.next_values();
    }
    write_part(
        tile_rows, now.index, [](int tile, int half) { return Columns<Codec, kDim>::dim(tile, half); }, sums);
    now = copies.begun.index == now.index ? WalkItem{} : copies.begun;
  }
}

#endif

template <class Codec, int kDim>
__global__ void __launch_bounds__(kWarps * 32, 1) attend_to_codes(const AttentionArgs args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint4 shared[];
  __shared__ Barriers barriers[kWarps];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x % 32 == 0) {
    hopper::barrier_init(hopper::shared_address(&barriers[warp].k), 1);
    hopper::barrier_init(hopper::shared_address(&barriers[warp].v), 1);
    hopper::fence_barrier_init();
  }
  __syncwarp();
  attend_to_items<Codec, kDim>(args, reinterpret_cast<WarpRoom<Codec, kDim>*>(shared)[warp], barriers[warp]);
#endif
}

template <class Codec, int kDim>
void launch(const AttentionArgs& args, cudaStream_t stream) {
  const auto kernel = attend_to_codes<Codec, kDim>;
  constexpr size_t kRoom = kWarps * sizeof(WarpRoom<Codec, kDim>);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoom),
        "attention's shared memory");
  const int items = args.item_count * args.view.layout.shape.heads;
  kernel<<<static_cast<unsigned>(std::min(args.processors, items)), kWarps * 32, kRoom, stream>>>(args);
  check_launch("attention over codes");
}

template <class Codec>
bool launch_for(const AttentionArgs& args, cudaStream_t stream) {
  const int dim = args.view.layout.shape.k_dim;
  if (dim == 128) {
    launch<Codec, 128>(args, stream);
    return true;
  }
  if constexpr (Codec::kBits > 2) {  // of 64 dimensions in 2 bits there are too few columns
    launch<Codec, 64>(args, stream);
    return true;
  }
  return false;
}

}  // namespace

bool packed_attention(const AttentionArgs& args, cudaStream_t stream) {
  if (!usual_blocks(args.view, 16)) return false;
  switch (args.view.layout.k_format) {
    case KvFormat::kInt8:
      return launch_for<CodecInt8>(args, stream);
    case KvFormat::kInt4:
      return launch_for<CodecInt4>(args, stream);
    case KvFormat::kInt2:
      return launch_for<CodecInt2>(args, stream);
    default:
      return false;
  }
}

}  // namespace kvasir::cuda
