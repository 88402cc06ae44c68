// Decode attention over int8, int4 or int2 in usual blocks on Hopper. Keys are multiplied as integers, as they lie in
// the cache.
//
// The cache holds 32-bit words: four dimensions of a key, or four tokens of a value. Tokens and dimensions are
// assigned to mma rows so that words are fragments; sums of integers are exact, and sums over 16 tokens do not depend
// on their order.
#include <algorithm>

#include "backend/cuda/attention/attention_kernels.h"
#include "backend/cuda/attention/decode/scaled.cuh"
#include "backend/cuda/attention/decode/tma_codes.cuh"
#include "backend/cuda/attention/dispatch.cuh"
#include "backend/cuda/runtime/cuda_check.h"
#include "layout/codec.h"

namespace kvasir::cuda {
namespace {

// A block's keys, as in the cache.
template <class Codec, int kDim>
struct Keys {
  std::uint32_t words[kDim / (kCodeQuad * Codec::kPerByte)][kBlockOfTile];  // four dimensions of a token
};

// int8 comes by TMA, its scales by another copy. Fewer bits come by bulk copies with the scales that follow the
// values: for blocks so small, TMA and a third copy cost more than they save.
template <class Codec>
inline constexpr bool kByTma = Codec::kBits == 8;

template <class Codec, int kDim>
struct alignas(kByTma<Codec> ? kRowBytes : 16) Values {
  static constexpr int kColumns = kDim / Codec::kPerByte;
  std::uint32_t words[kBlockOfTile / kCodeQuad][kColumns];  // four tokens of a column
  std::uint32_t k_scales[kBlockOfTile / 2];                 // two tokens each
  std::uint32_t v_scales[kBlockOfTile / 2];
};

template <class Codec, int kDim>
struct TileSmem {
  Keys<Codec, kDim> keys[kBlocksOfTile];
  Values<Codec, kDim> values[kBlocksOfTile];
};

// As many warps as fit into shared memory and registers; for whole rows, a number that chunk groups are mostly a
// multiple of.
template <class Codec, class Source>
inline constexpr int kWarps = Codec::kBits == 8 ? 12 : 16;
template <class Codec>
inline constexpr int kWarps<Codec, RowScheduler> = Codec::kBits == 8 ? kWarpsOfByteRows : kWarpsOfInt4Rows;

// Fewer bits have no registers left for it.
template <class Codec>
inline constexpr bool kMergesChunkGroups = Codec::kBits == 8;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// The thread's row of queries, g, as bytes in the dimension order of key words; and the sums of rows 2t and 2t + 1.
template <class Codec, int kDim>
struct IntQueries {
  static constexpr int kSteps = kDim / 32;
  std::uint32_t b[kSteps][2];
  int sums[2];  // over all dimensions

  // The first dimension of fragment `part` of a step; a word has several dimensions in a byte.
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
    sums[0] = __shfl_sync(0xffffffff, sum, lane_pair() * 8);  // first lane of row 2t
    sums[1] = __shfl_sync(0xffffffff, sum, lane_pair() * 8 + 4);
  }

 private:
  // The integers are stored as f16. Adding 1,536 puts them into the low bits.
  static __device__ std::uint32_t bytes_of(uint2 four) {
    const auto integers = [](std::uint32_t pair) {
      std::uint32_t out;
      asm("add.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(pair), "r"(0x66006600U));
      return out;
    };
    return __byte_perm(integers(four.x), integers(four.y), 0x6420);
  }
};

__device__ void multiply_bytes(int (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, "
      "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Tokens `pair` and `pair` + 2 of a word, part `part` of their bytes, as bf16: the codes' exact values without scale.
template <class Codec>
__device__ std::uint32_t values_of(std::uint32_t word, int pair, int part) {
  if constexpr (Codec::kPerByte == 1) {
    // 128 + the low seven bits, minus 128 or 256.
    const std::uint32_t codes = word >> pair * 8;
    const std::uint32_t low = masked_or<0x007f007fU, 0x43004300U>(codes);
    std::uint32_t out;
    std::uint32_t high;
    asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(high) : "r"(codes), "n"(0x00800080U), "n"(0x43804380U));
    asm("sub.bf16x2 %0, %1, %2;" : "=r"(out) : "r"(low), "r"(high));
    return out;
  } else {
    // 8 + code / 2, times 4, minus 32 and the zero point.
    constexpr std::uint32_t kMask =
        static_cast<std::uint32_t>(Codec::kMask) << 3 | static_cast<std::uint32_t>(Codec::kMask) << 19;
    const int shift = 3 - part * Codec::kBits - pair * 8;
    const std::uint32_t x = masked_or<kMask, 0x41004100U>(shift >= 0 ? word << shift : word >> -shift);
    constexpr std::uint32_t kFour = 0x40804080U;
    constexpr std::uint32_t kLess = Codec::kBits == 4 ? 0xC23CC23CU : 0xC20CC20CU;  // -47, -35
    std::uint32_t out;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(x), "r"(kFour), "r"(kLess));
    return out;
  }
}

// Rows g and g + 8 of the mma have tokens 2g and 2g + 1: a thread's transposed weights are of four neighbours, as
// value words are, the first and third in one register. A thread has 4 neighbouring columns of values in every 32:
// two are rows g of two tiles, two are rows g + 8.
template <class Codec, int kDim>
struct IntFormat {
  using KeysOfBlock = Keys<Codec, kDim>;
  using ValuesOfBlock = Values<Codec, kDim>;
  static constexpr int kKeyBytes = static_cast<int>(sizeof(KeysOfBlock));
  static constexpr int kValueBytes = static_cast<int>(sizeof(ValuesOfBlock::words));
  static constexpr bool kScalesApart = kByTma<Codec>;
  static constexpr bool kHadamard = true;
  static constexpr float kValueFactor = 1.0F;
  static constexpr int kGroups = ValuesOfBlock::kColumns / 32;
  static_assert(ValuesOfBlock::kColumns % 32 == 0);

  const AttentionArgs& args;
  const ByteMaps& maps;
  TileSmem<Codec, kDim>& smem;
  IntQueries<Codec, kDim> q;

  static __device__ int token_of(int half) { return lane_group() * 2 + half; }

  __device__ void load_queries(const TileRows& rows) { q.load(rows); }

  __device__ void copy_keys(int block, const std::byte* from, std::uint32_t barrier) const {
    copy<kKeyBytes>(&smem.keys[block], from, barrier);
  }
  __device__ void copy_values(int block, const std::byte* from, std::uint32_t barrier) const {
    copy<sizeof(ValuesOfBlock)>(&smem.values[block], from, barrier);
  }
  __device__ void prefetch_values(const std::byte* from) const {
    if constexpr (kByTma<Codec>) {
      prefetch_bytes(maps, from - args.view.arena);
    } else {
      hopper::bulk_prefetch(from, sizeof(ValuesOfBlock));
    }
  }
  __device__ void* scales_of(int block) const { return smem.values[block].k_scales; }
  __device__ std::uint32_t k_scales(int block) const { return smem.values[block].k_scales[lane_group()]; }
  __device__ std::uint32_t v_scales(int block) const { return smem.values[block].v_scales[lane_group()]; }

  __device__ void multiply_keys(int block, float (&s)[4]) const {
    const KeysOfBlock& keys = smem.keys[block];
    int sums[4] = {};
#pragma unroll
    for (int step = 0; step < IntQueries<Codec, kDim>::kSteps; ++step) {
      std::uint32_t a[4];  // the thread's two tokens, then the next dimensions of both
      if constexpr (Codec::kPerByte == 1) {
        const uint2 first = two_keys(keys, step * 8);
        const uint2 second = two_keys(keys, step * 8 + 4);
        a[0] = first.x, a[1] = first.y, a[2] = second.x, a[3] = second.y;
      } else {
        constexpr std::uint32_t kMask = Codec::kPerByte == 2 ? 0x0f0f0f0fU : 0x03030303U;
        const uint2 two = two_keys(keys, Codec::kPerByte == 2 ? step * 4 : step / 2 * 4);
        const int shift = Codec::kPerByte == 2 ? 0 : step % 2 * 4;
        a[0] = two.x >> shift & kMask, a[1] = two.y >> shift & kMask;
        a[2] = two.x >> (shift + Codec::kBits) & kMask, a[3] = two.y >> (shift + Codec::kBits) & kMask;
      }
      multiply_bytes(sums, a, q.b[step][0], q.b[step][1]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      s[i] = static_cast<float>(sums[i] * Codec::kFactor - Codec::kZero * q.sums[i % 2]);
    }
  }

  __device__ void add_values(int block, const WeightTile& weights, Sums<kDim>& sums) const {
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const auto* from = &smem.values[block].words[lane_pair()][group * 32 + lane_group() * 4];
      const uint4 four = *reinterpret_cast<const uint4*>(from);
#pragma unroll
      for (int part = 0; part < Codec::kPerByte; ++part) {
        const int tile = (part * kGroups + group) * 2;
        multiply_words(sums.o[tile], four.x, four.z, part, weights);
        multiply_words(sums.o[tile + 1], four.y, four.w, part, weights);
      }
    }
  }

  static __device__ void write_sums(const Sums<kDim>& sums, int i, float* to) {
#pragma unroll
    for (int at = 0; at < kDim / 32; ++at) {
      const float4 four{sums.o[at * 2][i], sums.o[at * 2 + 1][i], sums.o[at * 2][i + 2], sums.o[at * 2 + 1][i + 2]};
      hopper::store_evict_last(to + at * 32 + lane_group() * 4, four);
    }
  }

  template <class Take>
  static __device__ void each(const Sums<kDim>& sums, int i, const Take& take) {
#pragma unroll
    for (int at = 0; at < kDim / 16; ++at) {
      take(at / 2 * 32 + lane_group() * 4 + at % 2, sums.o[at][i]);
      take(at / 2 * 32 + lane_group() * 4 + at % 2 + 2, sums.o[at][i + 2]);
    }
  }

 private:
  // Copies a block, by TMA or kBytes in bulk.
  template <int kBytes>
  __device__ void copy(void* to, const std::byte* from, std::uint32_t barrier) const {
    if constexpr (kByTma<Codec>) {
      load_bytes(to, maps, from - args.view.arena, barrier);
    } else {
      hopper::bulk_load(hopper::shared_address(to), from, kBytes, barrier);
    }
  }
  // Four dimensions of the thread's two tokens.
  static __device__ uint2 two_keys(const KeysOfBlock& keys, int group) {
    return *reinterpret_cast<const uint2*>(&keys.words[group + lane_pair()][lane_group() * 2]);
  }
  static __device__ void multiply_words(float (&to)[4], std::uint32_t first, std::uint32_t second, int part,
                                        const WeightTile& weights) {
    const std::uint32_t a[4] = {values_of<Codec>(first, 0, part), values_of<Codec>(second, 0, part),
                                values_of<Codec>(first, 1, part), values_of<Codec>(second, 1, part)};
    HalfBF16::multiply(to, a, weights.b[0], weights.b[1]);
  }
};

#endif

template <class Codec, int kDim, class Source>
struct CtaSmem {
  TileSmem<Codec, kDim> tiles[kWarps<Codec, Source>];
};
template <class Codec, int kDim>
struct CtaSmem<Codec, kDim, RowScheduler> {
  TileSmem<Codec, kDim> tiles[kWarps<Codec, RowScheduler>];
  RowMergeSmem<kDim, kWarps<Codec, RowScheduler>> rows;
};

template <class Codec, int kDim, class Source>
__global__ void __launch_bounds__(kWarps<Codec, Source> * 32, 1)
    attend_int(const AttentionArgs args, const __grid_constant__ ByteMaps maps) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Format = IntFormat<Codec, kDim>;
  constexpr int kCount = kWarps<Codec, Source>;
  extern __shared__ uint4 shared[];
  __shared__ ScaledSmem<typename Source::Item> smems[kCount];
  pdl_trigger();
  auto& smem = *align_smem<CtaSmem<Codec, kDim, Source>>(shared);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  Format format{args, maps, smem.tiles[warp], {}};
  if constexpr (std::is_same_v<Source, RowScheduler>) {
    OnRow<Format, kDim, kCount> on_complete{RowMerge<kDim, kCount>(smem.rows)};
    attend_scaled_items<Source, Format, kDim>(args, format, smems[warp], on_complete);
  } else if constexpr (kMergesChunkGroups<Codec>) {
    __shared__ GroupMergeSmem<kDim> merge_smem;
    OnGroup<Format, kDim> on_complete{args, GroupMerge<kDim>(merge_smem)};
    attend_scaled_items<Source, Format, kDim>(args, format, smems[warp], on_complete);
  } else {
    attend_scaled_items<Source, Format, kDim>(args, format, smems[warp], OnChunk<Format>{});
  }
#endif
}

template <class Codec, int kDim, class Source>
void launch(const AttentionArgs& args, cudaStream_t stream) {
  const auto kernel = attend_int<Codec, kDim, Source>;
  constexpr size_t kSmemBytes = sizeof(CtaSmem<Codec, kDim, Source>) + kBoxAlignment;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSmemBytes),
        "attention's shared memory");
  const int items = args.item_count * args.view.layout.shape.heads;
  const int ctas = args.whole_rows != nullptr ? args.sm_count : std::min(args.sm_count, items);
  launch_pdl("int attention", kernel,
             {dim3(static_cast<unsigned>(ctas)), dim3(kWarps<Codec, Source> * 32), kSmemBytes}, stream, args,
             make_byte_maps(args.view.arena, sizeof(Keys<Codec, kDim>), TmaSwizzle::kNone));
}

template <class Codec, int kDim>
void launch(const AttentionArgs& args, cudaStream_t stream) {
  using Source = std::conditional_t<kMergesChunkGroups<Codec>, GroupSource<>, TicketSource>;
  args.whole_rows != nullptr ? launch<Codec, kDim, RowScheduler>(args, stream)
                             : launch<Codec, kDim, Source>(args, stream);
}

}  // namespace

bool supports_int(const KvView& view) {
  const KvFormat format = view.layout.k_format;
  if (!usual_blocks(view, format == KvFormat::kInt8 ? kByteAlignment : 16)) return false;
  if (format == KvFormat::kInt2) return view.layout.shape.k_dim == 128;  // with 64 there are too few columns
  return format == KvFormat::kInt8 || format == KvFormat::kInt4;
}

void int_attention(const AttentionArgs& args, cudaStream_t stream) {
  switch (args.view.layout.k_format) {
    case KvFormat::kInt8:
      return launch_dim(args.view.layout, [&]<int kDim>() { launch<CodecInt8, kDim>(args, stream); });
    case KvFormat::kInt4:
      return launch_dim(args.view.layout, [&]<int kDim>() { launch<CodecInt4, kDim>(args, stream); });
    default:
      return launch<CodecInt2, 128>(args, stream);
  }
}

}  // namespace kvasir::cuda
