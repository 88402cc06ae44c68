// Attention over integers of 8, 4 or 2 bits in blocks of 16 tokens on Hopper: codes are multiplied as they come from
// the cache, keys on the integer units of the tensor cores.
//
// A thread's keys and values lie in 32-bit words of the cache: four dimensions of a key, and four tokens of a value.
// Tokens and dimensions are given to the columns of the tensor cores in such an order that a word is a fragment
// (TokenOrder::kQuads); sums of integers are exact, and those of weighted values have one order.
#include <algorithm>

#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/hopper.cuh"
#include "backend/cuda/item_walk.cuh"
#include "layout/codec.h"

namespace kvasir::cuda {
namespace {

// K, V and scales of a block and head, as they lie in the cache.
template <class Codec, int kDim>
struct BlockRoom {
  std::uint32_t k[kDim / (kCodeQuad * Codec::kPerByte)][kBlockOfTile];  // four dimensions of a token
  std::uint32_t v[kBlockOfTile / 4][kDim / Codec::kPerByte];            // four tokens of a column
  std::uint16_t k_scales[kBlockOfTile];
  std::uint16_t v_scales[kBlockOfTile];
};

template <class Codec, int kDim>
struct WarpRoom {
  BlockRoom<Codec, kDim> blocks[2][kBlocksOfTile];  // the tile at hand, and the next
};

template <class Codec, int kDim>
inline constexpr int kWarps = Codec::kBits == 8 && kDim == 128 ? 6 : 8;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

struct Barriers {
  std::uint64_t full[2];
};

template <class Codec, int kDim>
struct Copies {
  const AttentionArgs& args;
  WarpRoom<Codec, kDim>& room;
  Barriers& barriers;
  ItemWalk walk;
  int tile = 0;
  int slot = 0;
  WalkItem begun{};  // the last item of which a tile was copied
  int begun_head = 0;

  // A lane for each block; blocks that are not there leave what lay in their place.
  __device__ void next() {
    if (!walk.at().valid()) return;
    if (tile == 0) {
      begun = walk.at();
      begun_head = walk.kv_head();
    }
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const BlockId id = walk.at().block(tile * kBlocksOfTile + lane % kBlocksOfTile);
    const bool copies = lane < kBlocksOfTile && id != kNoBlock;
    const auto count = static_cast<std::uint32_t>(__popc(__ballot_sync(0xffffffff, copies)));
    const std::uint32_t barrier = hopper::shared_address(&barriers.full[slot]);
    constexpr auto kBytes = static_cast<std::uint32_t>(sizeof(BlockRoom<Codec, kDim>));
    if (lane == 0) hopper::arrive_and_expect(barrier, count * kBytes);
    __syncwarp();
    if (copies) {
      hopper::copy_bytes(hopper::shared_address(&room.blocks[slot][lane]), args.view.k_head(id, begun_head), kBytes,
                         barrier);
    }
    slot ^= 1;
    if (++tile == walk.at().tiles()) {
      tile = 0;
      walk.advance();
    }
  }
};

// Queries of this thread's two rows, as bytes in the order in which words hold keys' dimensions.
template <class Codec, int kDim>
struct QueryCodes {
  static constexpr int kSteps = kDim / 32;
  std::uint32_t a[kSteps][4];
  int sums[2];  // of all dimensions

  // The first dimension of fragment `part` of a step: a word has them in parts of a byte.
  static __device__ int dim(int step, int part) {
    const int t = static_cast<int>(threadIdx.x) % 4;
    if constexpr (Codec::kPerByte == 1) return step * 32 + part * 16 + t * 4;
    if constexpr (Codec::kPerByte == 2) return step * 32 + t * 8 + part * 4;
    return step / 2 * 64 + t * 16 + step % 2 * 8 + part * 4;
  }

  __device__ void load(const TileRows& rows) {
    const int g = static_cast<int>(threadIdx.x) % 32 / 4;
    sums[0] = sums[1] = 0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = g + i * 8;
      const std::uint16_t* from = rows.args.q + (row < rows.count() ? rows.state(row) : 0) * rows.args.k_stride;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int part = 0; part < 2; ++part) {
          uint2 four{0, 0};
          if (row < rows.count()) four = *reinterpret_cast<const uint2*>(from + dim(step, part));
          const std::uint32_t codes = bytes_of(four);
          a[step][part * 2 + i] = codes;
          sums[i] = __dp4a(static_cast<int>(codes), 0x01010101, sums[i]);
        }
      }
      sums[i] += __shfl_xor_sync(0xffffffff, sums[i], 1);
      sums[i] += __shfl_xor_sync(0xffffffff, sums[i], 2);
    }
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

__device__ void multiply_bytes(int (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Scores with their keys' scales, of one block: columns 16 block … of s.
template <class Codec, int kDim>
__device__ void multiply_block(const QueryCodes<Codec, kDim>& q, const BlockRoom<Codec, kDim>& room, float (&low)[4],
                               float (&high)[4]) {
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  int sums[2][4] = {};
#pragma unroll
  for (int step = 0; step < QueryCodes<Codec, kDim>::kSteps; ++step) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int token = g / 2 * 4 + half * 2 + g % 2;
      std::uint32_t b0;
      std::uint32_t b1;
      if constexpr (Codec::kPerByte == 1) {
        b0 = room.k[step * 8 + t][token];
        b1 = room.k[step * 8 + 4 + t][token];
      } else if constexpr (Codec::kPerByte == 2) {
        const std::uint32_t word = room.k[step * 4 + t][token];
        b0 = word & 0x0f0f0f0fU;
        b1 = word >> 4 & 0x0f0f0f0fU;
      } else {
        const std::uint32_t word = room.k[step / 2 * 4 + t][token] >> step % 2 * 4;
        b0 = word & 0x03030303U;
        b1 = word >> 2 & 0x03030303U;
      }
      multiply_bytes(sums[half], q.a[step], b0, b1);
    }
  }
  const auto* scales = reinterpret_cast<const std::uint32_t*>(room.k_scales) + t * 2;  // of four tokens
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::uint32_t pair = scales[half];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int sum = sums[half][i] * Codec::kFactor - Codec::kZero * q.sums[i / 2];
      const float scale = __uint_as_float(i % 2 == 0 ? pair << 16 : pair & 0xffff0000U);
      (half == 0 ? low : high)[i] = __fmul_rn(static_cast<float>(sum), scale);
    }
  }
}

// Two tokens' codes, 16 bits apart, as bf16: exactly what they stand for, without the scale.
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

// Tile j of the sums has dimension 32 (j / 4 of its part) + 4 column + j % 4 of the part of a byte that it is of.
template <class Codec, int kDim>
__device__ void add_block(const float (&low)[4], const float (&high)[4], const BlockRoom<Codec, kDim>& room,
                          Sums<kDim>& sums) {
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const auto* scales = reinterpret_cast<const std::uint32_t*>(room.v_scales) + t * 2;
  const auto weight = [](float w, std::uint32_t pair, int i) {  // of a token that nobody sees: 0, whatever its scale
    const float scale = __uint_as_float(i % 2 == 0 ? pair << 16 : pair & 0xffff0000U);
    return w == 0.0F ? 0.0F : __fmul_rn(w, scale);
  };
  const std::uint32_t first = scales[0];
  const std::uint32_t second = scales[1];
  const std::uint32_t a[4] = {HalfBF16::pack(weight(low[0], first, 0), weight(low[1], first, 1)),
                              HalfBF16::pack(weight(low[2], first, 0), weight(low[3], first, 1)),
                              HalfBF16::pack(weight(high[0], second, 0), weight(high[1], second, 1)),
                              HalfBF16::pack(weight(high[2], second, 0), weight(high[3], second, 1))};
  constexpr int kColumns = kDim / Codec::kPerByte;
#pragma unroll
  for (int group = 0; group < kColumns / 32; ++group) {
    const uint4 words = *reinterpret_cast<const uint4*>(&room.v[t][group * 32 + g * 4]);
    const std::uint32_t word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t front = __byte_perm(word[i], 0, 0x4140);  // of the first two tokens
      const std::uint32_t back = __byte_perm(word[i], 0, 0x4342);
#pragma unroll
      for (int part = 0; part < Codec::kPerByte; ++part) {
        HalfBF16::multiply(sums.o[part * (kColumns / 8) + group * 4 + i], a, values_of<Codec>(front, part),
                           values_of<Codec>(back, part));
      }
    }
  }
}

// As write_part(), with dimensions where add_block() has them.
template <class Codec, int kDim>
__device__ void write_quads(const TileRows& rows, std::int64_t index, const Sums<kDim>& sums) {
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (g + i * 8 >= rows.count()) continue;
    const std::int64_t row = index * kTileRows + g + i * 8;
    float* to = rows.args.part_out + row * rows.args.v_stride + t * 8;
#pragma unroll
    for (int quad = 0; quad < kDim / 32; ++quad) {  // parts follow each other: 32 dimensions for every four tiles
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const auto at = [&](int k) { return sums.o[quad * 4 + k][i * 2 + j]; };
        *reinterpret_cast<float4*>(to + quad * 32 + j * 4) = {at(0), at(1), at(2), at(3)};
      }
    }
    if (t == 0) rows.args.part_states[row] = {sums.m[i], sums.d[i]};
  }
}

template <class Codec, int kDim>
__device__ void attend_to_items(const AttentionArgs& args, WarpRoom<Codec, kDim>& room, Barriers& barriers) {
  Copies<Codec, kDim> copies{args, room, barriers, ItemWalk(args, args.taken)};
  copies.next();
  unsigned count = 0;
  for (WalkItem now = copies.begun; now.valid();) {
    const TileRows tile_rows{args, now.item, copies.begun_head};
    const RowsOfWarp rows = tile_rows.seen();
    QueryCodes<Codec, kDim> q;
    q.load(tile_rows);
    Sums<kDim> sums;
    sums.clear();
    for (int tile = 0; tile < now.tiles(); ++tile, ++count) {
      copies.next();
      hopper::wait(hopper::shared_address(&barriers.full[count & 1U]), count >> 1 & 1U);
      const auto& blocks = room.blocks[count & 1U];
      Scores s;
#pragma unroll
      for (int block = 0; block < kBlocksOfTile; ++block) {
        multiply_block(q, blocks[block], s[block * 2], s[block * 2 + 1]);
      }
      scale_and_mask(args.view, rows, now.first_key() + tile * kTileTokens, nullptr, TokenOrder::kQuads, s);
      soften(rows.factor, s, sums);
#pragma unroll
      for (int block = 0; block < kBlocksOfTile; ++block) {
        add_block<Codec, kDim>(s[block * 2], s[block * 2 + 1], blocks[block], sums);
      }
      __syncwarp();
    }
    sums.end_split();
    write_quads<Codec, kDim>(tile_rows, now.index, sums);
    now = copies.begun.index == now.index ? WalkItem{} : copies.begun;
  }
}

#endif

template <class Codec, int kDim>
__global__ void __launch_bounds__(kWarps<Codec, kDim> * 32, 1) attend_to_codes(const AttentionArgs args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint4 shared[];
  __shared__ Barriers barriers[kWarps<Codec, kDim>];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x % 32 == 0) {
    hopper::barrier_init(hopper::shared_address(&barriers[warp].full[0]), 1);
    hopper::barrier_init(hopper::shared_address(&barriers[warp].full[1]), 1);
    hopper::fence_barrier_init();
  }
  __syncwarp();
  attend_to_items<Codec, kDim>(args, reinterpret_cast<WarpRoom<Codec, kDim>*>(shared)[warp], barriers[warp]);
#endif
}

template <class Codec, int kDim>
void launch(const AttentionArgs& args, cudaStream_t stream) {
  const auto kernel = attend_to_codes<Codec, kDim>;
  constexpr size_t kRoom = kWarps<Codec, kDim> * sizeof(WarpRoom<Codec, kDim>);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoom),
        "attention's shared memory");
  int device = 0;
  int processors = 0;
  check(cudaGetDevice(&device), "attention");
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "attention");
  const int items = args.item_count * args.view.layout.shape.heads;
  kernel<<<static_cast<unsigned>(std::min(processors, items)), kWarps<Codec, kDim> * 32, kRoom, stream>>>(args);
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
  const KvView& view = args.view;
  const KvLayout& layout = view.layout;
  const int dim = layout.shape.k_dim;
  if (layout.block_tokens != kBlockOfTile || layout.k_format != layout.v_format) return false;
  if (layout.shape.v_dim != dim || (dim != 64 && dim != 128) || view.page_bytes % 16 != 0) return false;
  switch (layout.k_format) {
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
