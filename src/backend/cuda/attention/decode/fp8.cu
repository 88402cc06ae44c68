// Decode attention over fp8 in usual blocks on Hopper. Keys are converted to f16. The bits of values are moved to
// where bf16 has them, which divides them by a power of two that scales make up for (kv_tile.cuh). No byte becomes
// NaN that way, so unwritten memory is harmless.
//
// ldmatrix transposes 8 x 8 tiles of byte pairs: a pair is two tokens of a key's dimension, or two dimensions of a
// token's value. TMA loads values with the 128-byte swizzle.
#include <algorithm>

#include "backend/cuda/attention/attention_kernels.h"
#include "backend/cuda/attention/decode/scaled.cuh"
#include "backend/cuda/attention/decode/tma_codes.cuh"
#include "backend/cuda/attention/dispatch.cuh"
#include "backend/cuda/attention/kv_tile.cuh"
#include "backend/cuda/runtime/cuda_check.h"
#include "layout/codec.h"
#include "layout/row_numbers.h"

namespace kvasir::cuda {
namespace {

// As many warps as fit; for whole rows, a number that chunk groups are mostly a multiple of.
template <class Source>
inline constexpr int kWarps = 12;
template <>
inline constexpr int kWarps<RowScheduler> = kWarpsOfByteRows;
struct Maps {
  ByteMaps keys;
  ByteMaps values;
};

// One tile.
template <int kDim>
struct alignas(kBoxAlignment) WarpSmem {
  std::byte values[kBlocksOfTile][kBlockOfTile * kDim];  // swizzled [token][dim]
  std::byte keys[kBlocksOfTile][kDim * kBlockOfTile];    // [dim][token]
};
struct WarpScales {
  struct {
    std::uint32_t k[kBlockOfTile / 2];  // two tokens each
    std::uint32_t v[kBlockOfTile / 2];
  } blocks[kBlocksOfTile];
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Rows g and g + 8 of the mma have tokens 2g and 2g + 1, swapped from g = 4 on, so that the 8 tokens that are loaded
// together lie in different banks.
template <class Codec, int kDim>
struct Fp8Format {
  static constexpr int kKeyBytes = kDim * kBlockOfTile;
  static constexpr int kValueBytes = kKeyBytes;
  static constexpr bool kScalesApart = true;
  static constexpr bool kHadamard = false;
  static constexpr float kValueFactor = cuda::kValueFactor<Codec>;

  const AttentionArgs& args;
  const Maps& maps;
  WarpSmem<kDim>& smem;
  WarpScales& scales;
  std::uint32_t first, second;  // selectors of the bytes of rows g and g + 8
  std::uint32_t q[kDim / 16][2];

  static __device__ int token_of(int half) { return lane_group() * 2 + (half ^ lane_group() / 4); }

  __device__ void copy_keys(int block, const std::byte* from, std::uint32_t barrier) {
    load_bytes(smem.keys[block], maps.keys, from - args.view.arena, barrier);
  }
  __device__ void copy_values(int block, const std::byte* from, std::uint32_t barrier) {
    load_bytes(smem.values[block], maps.values, from - args.view.arena, barrier);
  }
  __device__ void prefetch_values(const std::byte* from) const {
    prefetch_bytes(maps.values, from - args.view.arena);
  }
  __device__ void* scales_of(int block) const { return &scales.blocks[block]; }

  // Casts float32 queries, which is all that the keys want.
  __device__ void load_queries(const TileRows& rows) {
    const int row = lane_group();
    const bool there = row < rows.count();
    const Matrix& all = args.queries;
    const float* from = all.data + rows.batch_row(row) * all.stride + rows.head(row) * kDim + lane_pair() * 2;
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i) {
      const float2 two = there ? *reinterpret_cast<const float2*>(from + i * 8) : float2{0.0F, 0.0F};
      q[i / 2][i % 2] = HalfF16::pack(held(two.x), held(two.y));
    }
  }
  __device__ std::uint32_t k_scales(int block) const { return scales.blocks[block].k[lane_group()]; }
  __device__ std::uint32_t v_scales(int block) const { return scales.blocks[block].v[lane_group()]; }

  __device__ void multiply_keys(int block, float (&s)[4]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::uint32_t at = shared_address(smem.keys[block]) + lane * kBlockOfTile;
    s[0] = s[1] = s[2] = s[3] = 0.0F;
#pragma unroll
    for (int step = 0; step < kDim / 32; ++step) {
      std::uint32_t words[4];  // of 8 dimensions each; a half has both of the thread's tokens
      load_tiles_transposed(words, at + step * 32 * kBlockOfTile);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        std::uint32_t a[4];
        keys_of(words[i * 2], a[0], a[1]);
        keys_of(words[i * 2 + 1], a[2], a[3]);
        HalfF16::multiply(s, a, q[step * 2 + i][0], q[step * 2 + i][1]);
      }
    }
  }

  __device__ void add_values(int block, const WeightTile& weights, Sums<kDim>& sums) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = lane % 8;  // of the 8 x 8 tiles, in the token order of scores
    const int token = row * 2 + ((lane / 8 % 2) ^ row / 4);
    const std::uint32_t at = shared_address(smem.values[block]);
#pragma unroll
    for (int tile = 0; tile < kDim / 16; tile += 2) {
      std::uint32_t words[4];
      load_tiles_transposed(words, at + TmaSmemLayout<kDim>::swizzled(token * kDim + (tile + lane / 16) * 16));
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        std::uint32_t a[4];
        values_of(words[i * 2], a[0], a[1]);
        values_of(words[i * 2 + 1], a[2], a[3]);
        HalfBF16::multiply(sums.o[tile + i], a, weights.b[0], weights.b[1]);
      }
    }
  }

  // A tile has dimensions 2g and 2g + 1 of its 16.
  static __device__ void write_sums(const Sums<kDim>& sums, int i, float* to) {
#pragma unroll
    for (int tile = 0; tile < kDim / 16; ++tile) {
      hopper::store_evict_last(to + tile * 16 + lane_group() * 2, float2{sums.o[tile][i], sums.o[tile][i + 2]});
    }
  }

  template <class Take>
  static __device__ void each(const Sums<kDim>& sums, int i, const Take& take) {
#pragma unroll
    for (int tile = 0; tile < kDim / 16; ++tile) {
      take(tile * 16 + lane_group() * 2, sums.o[tile][i]);
      take(tile * 16 + lane_group() * 2 + 1, sums.o[tile][i + 2]);
    }
  }

  static constexpr bool kE4M3 = Codec::kFormat == KvFormat::kE4M3;
  __device__ void choose_bytes() {
    const bool swapped = lane_group() >= 4;
    if constexpr (kE4M3) {
      first = swapped ? 0x2031 : 0x3120;
    } else {
      first = swapped ? 0x3414 : 0x2404;  // above zero bytes
      second = swapped ? 0x2404 : 0x3414;
    }
  }

 private:
  // Splits two dimensions of two tokens, a dimension in each half, into f16 of one token and of the other.
  __device__ void keys_of(std::uint32_t word, std::uint32_t& one, std::uint32_t& other) const {
    if constexpr (kE4M3) {
      asm("{.reg .b16 low, high;\n"
          "mov.b32 {low, high}, %2;\n"
          "cvt.rn.f16x2.e4m3x2 %0, low;\n"
          "cvt.rn.f16x2.e4m3x2 %1, high;}"
          : "=r"(one), "=r"(other)
          : "r"(__byte_perm(word, 0, first)));
    } else {
      one = __byte_perm(word, 0, first);
      other = __byte_perm(word, 0, second);
    }
  }
  // Splits two dimensions of two tokens, a token in each half, into bf16 of one dimension and of the other.
  static __device__ void values_of(std::uint32_t word, std::uint32_t& one, std::uint32_t& other) {
    constexpr int kShift = kE4M3 ? 4 : 3;  // from the upper byte of bf16 to its exponent
    constexpr std::uint32_t kNumber = (0x7f00U >> kShift) * 0x10001U;
    const auto placed = [](std::uint32_t upper) {
      std::uint32_t out;
      asm("lop3.b32 %0, %1, %2, %3, 0xea;"
          : "=r"(out)
          : "r"(upper), "n"(0x80008000U), "r"(upper >> kShift & kNumber));
      return out;
    };
    one = placed(word << 8);
    other = placed(word);
  }
};

#endif

// Shared memory of the merge.
template <int kDim, class Source>
struct MergeSmem {
  GroupMergeSmem<kDim> chunk_groups;
};
template <int kDim>
struct MergeSmem<kDim, RowScheduler> {
  RowMergeSmem<kDim, kWarpsOfByteRows> rows;
};
template <int kDim, class Source>
struct CtaSmem {
  WarpSmem<kDim> tiles[kWarps<Source>];
  MergeSmem<kDim, Source> merge;
  alignas(16) WarpScales scales[kWarps<Source>];
};

template <class Codec, int kDim, class Source>
__global__ void __launch_bounds__(kWarps<Source> * 32, 1)
    attend_fp8(const AttentionArgs args, const __grid_constant__ Maps maps) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Format = Fp8Format<Codec, kDim>;
  extern __shared__ uint4 shared[];
  __shared__ ScaledSmem<typename Source::Item> warps[kWarps<Source>];
  pdl_trigger();
  auto& smem = *align_smem<CtaSmem<kDim, Source>>(shared);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  Format format{args, maps, smem.tiles[warp], smem.scales[warp], 0, 0, {}};
  format.choose_bytes();
  if constexpr (std::is_same_v<Source, RowScheduler>) {
    OnRow<Format, kDim, kWarps<Source>> on_complete{RowMerge<kDim, kWarps<Source>>(smem.merge.rows)};
    attend_scaled_items<Source, Format, kDim>(args, format, warps[warp], on_complete);
  } else {
    OnGroup<Format, kDim> on_complete{args, GroupMerge<kDim>(smem.merge.chunk_groups)};
    attend_scaled_items<Source, Format, kDim>(args, format, warps[warp], on_complete);
  }
#endif
}

template <class Codec, int kDim, class Source>
void launch(const AttentionArgs& args, cudaStream_t stream) {
  const auto kernel = attend_fp8<Codec, kDim, Source>;
  constexpr size_t kSmemBytes = sizeof(CtaSmem<kDim, Source>) + kBoxAlignment;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSmemBytes),
        "attention's shared memory");
  const int items = args.item_count * args.view.layout.shape.heads;
  const int ctas = args.whole_rows != nullptr ? args.sm_count : std::min(args.sm_count, items);
  const Maps maps{make_byte_maps(args.view.arena, kBlockOfTile * kDim, TmaSwizzle::kNone),
                  make_byte_maps(args.view.arena, kBlockOfTile * kDim, TmaSwizzle::k128)};
  launch_pdl("fp8 attention", kernel, {dim3(static_cast<unsigned>(ctas)), dim3(kWarps<Source> * 32), kSmemBytes},
             stream, args, maps);
}

template <class Codec, int kDim>
void launch(const AttentionArgs& args, cudaStream_t stream) {
  args.whole_rows != nullptr ? launch<Codec, kDim, RowScheduler>(args, stream)
                             : launch<Codec, kDim, GroupSource<>>(args, stream);
}

}  // namespace

bool supports_fp8(const KvView& view) {
  const KvFormat format = view.layout.k_format;
  return usual_blocks(view, kByteAlignment) && (format == KvFormat::kE4M3 || format == KvFormat::kE5M2);
}

void fp8_attention(const AttentionArgs& args, cudaStream_t stream) {
  launch_dim(args.view.layout, [&]<int kDim>() {
    args.view.layout.k_format == KvFormat::kE4M3 ? launch<CodecE4M3, kDim>(args, stream)
                                                 : launch<CodecE5M2, kDim>(args, stream);
  });
}

}  // namespace kvasir::cuda
