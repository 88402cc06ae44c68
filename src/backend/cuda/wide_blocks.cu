#include "backend/cuda/wide_blocks.h"

#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/kv_tile.cuh"
#include "backend/cuda/launch.h"
#include "layout/codec.h"

namespace kvasir::cuda {
namespace {

constexpr int kAtOnce = 8;  // numbers that a thread writes together
constexpr int kMostDim = 128;

// The thread's kAtOnce numbers, as load_rows() of kv_tile.cuh has them: tokens of a key's dimension, or dimensions of
// a token's value. number(token, dim), without the scale.
template <Side kSide, class Half, class Codec, class Number>
__device__ uint4 wide_numbers(int dims, const Number& number) {
  constexpr float kFactor = kSide == Side::kKeys ? 1.0F : kValueFactor<Codec>;
  const int first = static_cast<int>(threadIdx.x) * kAtOnce;
  float numbers[kAtOnce];
#pragma unroll
  for (int i = 0; i < kAtOnce; ++i) {
    const int token = kSide == Side::kKeys ? first % kBlockOfTile + i : first / dims;
    const int dim = kSide == Side::kKeys ? first / kBlockOfTile : first % dims + i;
    numbers[i] = __fmul_rn(number(token, dim), 1.0F / kFactor);
  }
  return {Half::pack(numbers[0], numbers[1]), Half::pack(numbers[2], numbers[3]), Half::pack(numbers[4], numbers[5]),
          Half::pack(numbers[6], numbers[7])};
}

template <Side kSide>
__device__ KvFormat format_of(const KvView& view) {
  return kSide == Side::kKeys ? view.layout.k_format : view.layout.v_format;
}
template <Side kSide>
__device__ bool has_scales(const KvView& view) {
  return (kSide == Side::kKeys ? view.layout.k_scale_bytes : view.layout.v_scale_bytes) > 0;
}
// A value's scale, as its numbers want it.
__device__ float scale_of_value(const KvView& view, float scale) {
  visit_on_device(view.layout.v_format, [&](auto codec) { scale = __fmul_rn(scale, kValueFactor<decltype(codec)>); });
  return scale;
}

// The head of a block, in shared memory.
struct HeadRoom {
  uint4 codes[2 * kBlockOfTile * kMostDim * 2 / sizeof(uint4)];  // no format that is widened has more than 16 bits
  std::uint32_t scales[kBlockOfTile];

  static __device__ void copy(void* to, const std::byte* from, std::int64_t bytes) {
    for (int i = static_cast<int>(threadIdx.x); i < bytes / 4; i += static_cast<int>(blockDim.x)) {
      static_cast<std::uint32_t*>(to)[i] = from == nullptr ? 0 : reinterpret_cast<const std::uint32_t*>(from)[i];
    }
  }
};

// Blocks of the cache that have 16 tokens too: their bytes come into shared memory first, all at once. A thread block
// for each block and head, with a thread for each kAtOnce of its keys, and of its values.
template <class KHalf, class VHalf, int kDim>
__global__ void widen_usual(const __grid_constant__ WideBlocks of) {
  __shared__ HeadRoom room;
  let_followers_start();
  const WideBlock& wide = of.list[blockIdx.x];
  const BlockId block = wide.blocks[wide.first / kBlockOfTile];
  const auto head = static_cast<int>(blockIdx.y);
  const auto thread = static_cast<int>(threadIdx.x);
  KvView from = of.from;
  from.layout.block_tokens = kBlockOfTile;  // known to the compiler
  from.layout.shape.k_dim = from.layout.shape.v_dim = kDim;
  const KvLayout& layout = from.layout;
  wait_for_forerunners();
  const bool there = block != kNoBlock;
  const int from_head = of.first_head + head;
  HeadRoom::copy(room.codes, there ? from.k_head(block, from_head) : nullptr, layout.code_bytes());
  HeadRoom::copy(room.scales, there ? from.k_scales(block, from_head) : nullptr, layout.scale_bytes());
  __syncthreads();
  const auto* codes = reinterpret_cast<const std::byte*>(room.codes);
  const auto widen = [&]<Side kSide, class Half>(std::int64_t at, std::byte* to) {
    visit_on_device(format_of<kSide>(from), [&](auto codec) {
      using Codec = decltype(codec);
      reinterpret_cast<uint4*>(to)[thread] = wide_numbers<kSide, Half, Codec>(
          kDim, [&](int token, int dim) { return number_in<Codec, kSide>(codes + at, from, token, dim); });
    });
  };
  const auto to = static_cast<BlockId>(blockIdx.x);
  widen.template operator()<Side::kKeys, KHalf>(0, of.to.k_head(to, head));
  widen.template operator()<Side::kValues, VHalf>(layout.k_head_bytes, of.to.v_head(to, head));
  if (of.scales == nullptr || thread >= 2 * kBlockOfTile) return;
  const bool of_value = thread >= kBlockOfTile;
  float scale = 1.0F;
  if (of_value ? has_scales<Side::kValues>(from) : has_scales<Side::kKeys>(from)) {
    const auto* scales = reinterpret_cast<const std::uint16_t*>(room.scales);
    const std::int64_t first = of_value ? layout.k_scale_bytes / kScaleBytes : 0;
    scale = CodecBF16::decode(scales[first + thread % kBlockOfTile]);
    if (of_value) scale = scale_of_value(from, scale);
  }
  of.scales[(static_cast<std::int64_t>(to) * gridDim.y + head) * 2 * kBlockOfTile + thread] = scale;
}

// Where the tokens of a wide block lie in the cache.
struct Places {
  BlockId blocks[kBlockOfTile];
  int slots[kBlockOfTile];
};

// Of a token: 0 where it was dropped, 1 in a format without scales.
template <Side kSide>
__device__ float wide_scale(const KvView& from, const Places& places, int head, int token) {
  const BlockId block = places.blocks[token];
  if (block == kNoBlock) return 0.0F;
  if (!has_scales<kSide>(from)) return 1.0F;
  const float scale = scale_at<kSide>(from, block, head, places.slots[token]);
  return kSide == Side::kKeys ? scale : scale_of_value(from, scale);
}

// The same for blocks of any number of tokens, slowly.
template <class KHalf, class VHalf>
__global__ void widen_any(const __grid_constant__ WideBlocks of) {
  __shared__ Places places;
  let_followers_start();
  const auto thread = static_cast<int>(threadIdx.x);
  const int dims = of.to.layout.shape.k_dim;
  if (thread < kBlockOfTile) {
    const WideBlock& wide = of.list[blockIdx.x];
    const Position key = wide.first + thread;
    const int tokens = of.from.layout.block_tokens;
    places.blocks[thread] = key < wide.end ? wide.blocks[key / tokens] : kNoBlock;
    places.slots[thread] = static_cast<int>(key % tokens);
  }
  __syncthreads();
  wait_for_forerunners();
  const auto head = static_cast<int>(blockIdx.y);
  const int from_head = of.first_head + head;
  const auto widen = [&]<Side kSide, class Half>(std::byte* to) {
    visit_on_device(format_of<kSide>(of.from), [&](auto codec) {
      using Codec = decltype(codec);
      reinterpret_cast<uint4*>(to)[thread] = wide_numbers<kSide, Half, Codec>(dims, [&](int token, int dim) {
        const BlockId block = places.blocks[token];
        if (block == kNoBlock) return 0.0F;
        return number_at<Codec, kSide>(of.from, block, from_head, places.slots[token], dim);
      });
    });
  };
  const auto to = static_cast<BlockId>(blockIdx.x);
  widen.template operator()<Side::kKeys, KHalf>(of.to.k_head(to, head));
  widen.template operator()<Side::kValues, VHalf>(of.to.v_head(to, head));
  if (of.scales == nullptr || thread >= 2 * kBlockOfTile) return;
  of.scales[(static_cast<std::int64_t>(to) * gridDim.y + head) * 2 * kBlockOfTile + thread] =
      thread < kBlockOfTile ? wide_scale<Side::kKeys>(of.from, places, from_head, thread)
                            : wide_scale<Side::kValues>(of.from, places, from_head, thread - kBlockOfTile);
}

template <class KHalf, class VHalf>
void launch(const WideBlocks& blocks, cudaStream_t stream) {
  const KvLayout& to = blocks.to.layout;
  const auto usual = to.shape.k_dim == 64 ? widen_usual<KHalf, VHalf, 64> : widen_usual<KHalf, VHalf, 128>;
  const auto kernel = blocks.from.layout.block_tokens == kBlockOfTile ? usual : widen_any<KHalf, VHalf>;
  const dim3 grid(static_cast<unsigned>(blocks.count), static_cast<unsigned>(to.shape.heads));
  const int threads = to.shape.k_dim * kBlockOfTile / kAtOnce;
  launch_early("widening blocks", kernel, {grid, dim3(static_cast<unsigned>(threads))}, stream, blocks);
}

}  // namespace

void widen_blocks(const WideBlocks& blocks, cudaStream_t stream) {
  const KvLayout& to = blocks.to.layout;
  if (to.k_format == KvFormat::kBF16) return launch<HalfBF16, HalfBF16>(blocks, stream);
  to.v_format == KvFormat::kBF16 ? launch<HalfF16, HalfBF16>(blocks, stream)
                                 : launch<HalfF16, HalfF16>(blocks, stream);
}

KvLayout wide_layout(const KvLayout& of, int heads) {
  KvGroup group;
  group.layers = {0};
  group.shape = {heads, of.shape.k_dim, of.shape.v_dim};
  group.k_format = multiplies_bf16_keys(of.k_format) ? KvFormat::kBF16 : KvFormat::kF16;
  group.v_format = multiplies_bf16_values(of.v_format) ? KvFormat::kBF16 : KvFormat::kF16;
  return make_layout(group, kBlockOfTile);
}

bool is_wide_with_scales(const KvLayout& wide) { return wide.k_format != wide.v_format; }

bool can_widen(const KvLayout& layout) {
  const int dim = layout.shape.k_dim;
  if (layout.shape.v_dim != dim || (dim != 64 && dim != 128)) return false;
  if (layout.k_format == KvFormat::kF32 || layout.v_format == KvFormat::kF32) return false;
  const KvLayout wide = wide_layout(layout, 1);
  if (is_wide_with_scales(wide)) return wide.k_format == KvFormat::kF16;
  return layout.k_scale_bytes == 0 && layout.v_scale_bytes == 0;
}

std::vector<BlockId> add_wide_blocks(std::vector<WideBlock>& list, const SequenceView& sequence,
                                     const Retention& retention, const BlockId* blocks) {
  constexpr Position kSplit = kSplitTokens;
  const Position end = sequence.start + sequence.rows;
  const Position seen_from = retention.window_begin(sequence.start) / kSplit * kSplit;  // but for sinks
  const Position sinks_end = retention.full() ? 0 : (retention.sinks + kSplit - 1) / kSplit * kSplit;
  std::vector<BlockId> table(static_cast<size_t>((end + kBlockOfTile - 1) / kBlockOfTile), kNoBlock);
  for (size_t i = 0; i < table.size(); ++i) {
    const auto first = static_cast<Position>(i) * kBlockOfTile;
    if (first < seen_from && first >= sinks_end) continue;
    table[i] = static_cast<BlockId>(list.size());
    list.push_back({blocks, first, end});
  }
  return table;
}

}  // namespace kvasir::cuda
