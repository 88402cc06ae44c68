// Attention over fp8 in blocks of 16 tokens on Hopper. Keys become f16, as which they are multiplied; of values the
// bits are put where bf16 has them, which makes them smaller by a power of two that is put into their scales
// (kv_tile.cuh), and never makes what is no number of what was never written.
//
// Tiles of 8 by 8 pairs of bytes are turned over on their way into registers: a pair is two tokens of a key's
// dimension, and two dimensions of a token's value. The copy engine brings values with the 128-byte swizzle.
#include <algorithm>

#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/code_boxes.cuh"
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/kv_tile.cuh"
#include "backend/cuda/scaled_attention.cuh"
#include "layout/codec.h"
#include "layout/row_numbers.h"

namespace kvasir::cuda {
namespace {

// As many as have room; where rows are whole, as many as spans are mostly a multiple of.
template <class Source>
inline constexpr int kWarps = 12;
template <>
inline constexpr int kWarps<RowWalk> = kWarpsOfByteRows;
struct Maps {
  CodeMaps keys;
  CodeMaps values;
};

// Of one tile.
template <int kDim>
struct alignas(kBoxAlignment) WarpRoom {
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

// Rows g and g + 8 of the tensor cores have tokens 2g and 2g + 1, of which the second comes first from g = 4 on: so
// do the 8 tokens that are loaded together lie in different banks.
template <class Codec, int kDim>
struct Fp8Format {
  static constexpr int kKeyBytes = kDim * kBlockOfTile;
  static constexpr int kValueBytes = kKeyBytes;
  static constexpr bool kScalesApart = true;
  static constexpr bool kTurned = false;
  static constexpr float kValueFactor = cuda::kValueFactor<Codec>;

  const AttentionArgs& args;
  const Maps& maps;
  WarpRoom<kDim>& room;
  WarpScales& scales;
  std::uint32_t first, second;  // selects a key's bytes of rows g and g + 8
  std::uint32_t q[kDim / 16][2];

  static __device__ int token_of(int half) { return lane_group() * 2 + (half ^ lane_group() / 4); }

  __device__ void copy_keys(int block, const std::byte* from, std::uint32_t barrier) {
    copy_codes(room.keys[block], maps.keys, from - args.view.arena, barrier);
  }
  __device__ void copy_values(int block, const std::byte* from, std::uint32_t barrier) {
    copy_codes(room.values[block], maps.values, from - args.view.arena, barrier);
  }
  __device__ void fetch_values(const std::byte* from) const { fetch_codes(maps.values, from - args.view.arena); }
  __device__ void* scales_of(int block) const { return &scales.blocks[block]; }

  // As they came: keys want no more than rounding.
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
    const std::uint32_t at = shared_address(room.keys[block]) + lane * kBlockOfTile;
    s[0] = s[1] = s[2] = s[3] = 0.0F;
#pragma unroll
    for (int step = 0; step < kDim / 32; ++step) {
      std::uint32_t words[4];  // of 8 dimensions each: both of the thread's tokens in each half
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
    const int row = lane % 8;  // of the tiles: the token that rows of scores have there
    const int token = row * 2 + ((lane / 8 % 2) ^ row / 4);
    const std::uint32_t at = shared_address(room.values[block]);
#pragma unroll
    for (int tile = 0; tile < kDim / 16; tile += 2) {
      std::uint32_t words[4];
      load_tiles_transposed(words, at + BoxedPlaces<kDim>::swizzled(token * kDim + (tile + lane / 16) * 16));
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
      hopper::store_and_keep(to + tile * 16 + lane_group() * 2, float2{sums.o[tile][i], sums.o[tile][i + 2]});
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
      first = swapped ? 0x3414 : 0x2404;  // above bytes of 0
      second = swapped ? 0x2404 : 0x3414;
    }
  }

 private:
  // Two dimensions of two tokens, a dimension in each half: f16 of one token, and of the other.
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
  // Two dimensions of two tokens, a token in each half: bf16 of one dimension, and of the other.
  static __device__ void values_of(std::uint32_t word, std::uint32_t& one, std::uint32_t& other) {
    constexpr int kShift = kE4M3 ? 4 : 3;  // from the upper byte of bf16 to where its exponent is as long
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

// What a thread block has beside its tiles.
template <int kDim, class Source>
struct Folds {
  SpanRoom<kDim> spans;
};
template <int kDim>
struct Folds<kDim, RowWalk> {
  RowRoom<kDim, kWarpsOfByteRows> rows;
};
template <int kDim, class Source>
struct BlockRoom {
  WarpRoom<kDim> tiles[kWarps<Source>];
  Folds<kDim, Source> folds;
  alignas(16) WarpScales scales[kWarps<Source>];
};

template <class Codec, int kDim, class Source>
__global__ void __launch_bounds__(kWarps<Source> * 32, 1)
    attend_to_fp8(const AttentionArgs args, const __grid_constant__ Maps maps) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Format = Fp8Format<Codec, kDim>;
  extern __shared__ uint4 shared[];
  __shared__ ScaledRoom<typename Source::Item> warps[kWarps<Source>];
  let_followers_start();
  auto& room = *room_for_boxes<BlockRoom<kDim, Source>>(shared);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  Format format{args, maps, room.tiles[warp], room.scales[warp], 0, 0, {}};
  format.choose_bytes();
  if constexpr (std::is_same_v<Source, RowWalk>) {
    EveryRow<Format, kDim, kWarps<Source>> finished{RowFold<kDim, kWarps<Source>>(room.folds.rows)};
    attend_to_scaled_items<Source, Format, kDim>(args, format, warps[warp], finished);
  } else {
    EverySpan<Format, kDim> finished{args, SpanFold<kDim>(room.folds.spans)};
    attend_to_scaled_items<Source, Format, kDim>(args, format, warps[warp], finished);
  }
#endif
}

template <class Codec, int kDim, class Source>
void launch(const AttentionArgs& args, cudaStream_t stream) {
  const auto kernel = attend_to_fp8<Codec, kDim, Source>;
  constexpr size_t kRoom = sizeof(BlockRoom<kDim, Source>) + kBoxAlignment;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoom),
        "attention's shared memory");
  const int items = args.item_count * args.view.layout.shape.heads;
  const int blocks = args.rows != nullptr ? args.processors : std::min(args.processors, items);
  const Maps maps{make_code_maps(args.view.arena, kBlockOfTile * kDim, BoxSwizzle::kNone),
                  make_code_maps(args.view.arena, kBlockOfTile * kDim, BoxSwizzle::k128)};
  launch_early("attention over fp8", kernel, {dim3(static_cast<unsigned>(blocks)), dim3(kWarps<Source> * 32), kRoom},
               stream, args, maps);
}

template <class Codec, int kDim>
void launch(const AttentionArgs& args, cudaStream_t stream) {
  args.rows != nullptr ? launch<Codec, kDim, RowWalk>(args, stream) : launch<Codec, kDim, SpanSource<>>(args, stream);
}

template <class Codec>
void launch_for(const AttentionArgs& args, cudaStream_t stream) {
  args.view.layout.shape.k_dim == 128 ? launch<Codec, 128>(args, stream) : launch<Codec, 64>(args, stream);
}

}  // namespace

bool takes_fp8(const KvView& view) {
  const KvFormat format = view.layout.k_format;
  return usual_blocks(view, kCodeAlignment) && (format == KvFormat::kE4M3 || format == KvFormat::kE5M2);
}

void fp8_attention(const AttentionArgs& args, cudaStream_t stream) {
  args.view.layout.k_format == KvFormat::kE4M3 ? launch_for<CodecE4M3>(args, stream)
                                               : launch_for<CodecE5M2>(args, stream);
}

}  // namespace kvasir::cuda
