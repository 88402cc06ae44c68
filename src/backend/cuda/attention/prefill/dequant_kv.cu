#include "backend/cuda/attention/prefill/dequant_kv.h"

#include "backend/cuda/attention/attention_kernels.h"
#include "backend/cuda/attention/kv_tile.cuh"
#include "backend/cuda/runtime/pdl_launch.h"
#include "layout/codec.h"

namespace kvasir::cuda {
namespace {

constexpr int kAtOnce = 8;  // numbers that a thread writes together
constexpr int kMostDim = 128;

// The thread's kAtOnce numbers, as load_rows() of kv_tile.cuh converts them: tokens of a key's dimension, or
// dimensions of a token's value. number(token, dim) has no scale.
template <Side kSide, class Half, class Codec, class Number>
__device__ uint4 to_16_bit(int dims, const Number& number) {
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
// The scale of a value whose numbers are divided by kValueFactor.
__device__ float scale_of_value(const KvView& view, float scale) {
  visit_codec(view.layout.v_format, [&](auto codec) { scale = __fmul_rn(scale, kValueFactor<decltype(codec)>); });
  return scale;
}

// A head's codes of a block.
struct HeadSmem {
  uint4 codes[2 * kBlockOfTile * kMostDim * 2 / sizeof(uint4)];  // formats have at most 16 bits
  std::uint32_t scales[kBlockOfTile];

  static __device__ void copy(void* to, const std::byte* from, std::int64_t bytes) {
    for (int i = static_cast<int>(threadIdx.x); i < bytes / 4; i += static_cast<int>(blockDim.x)) {
      static_cast<std::uint32_t*>(to)[i] = from == nullptr ? 0 : reinterpret_cast<const std::uint32_t*>(from)[i];
    }
  }
};

// Source blocks of 16 tokens: their bytes are copied into shared memory first. A CTA for each block and head, a
// thread for kAtOnce keys and values.
template <class KHalf, class VHalf, int kDim>
__global__ void dequantize_blocks_of_16(const __grid_constant__ DequantJob of) {
  __shared__ HeadSmem smem;
  pdl_trigger();
  const DequantBlock& block_of_16 = of.list[blockIdx.x];
  const BlockId block = block_of_16.blocks[block_of_16.first / kBlockOfTile];
  const auto head = static_cast<int>(blockIdx.y);
  const auto thread = static_cast<int>(threadIdx.x);
  KvView from = of.from;
  from.layout.block_tokens = kBlockOfTile;  // as constants, for the compiler
  from.layout.shape.k_dim = from.layout.shape.v_dim = kDim;
  const KvLayout& layout = from.layout;
  pdl_wait();
  const bool there = block != kNoBlock;
  const int from_head = of.first_head + head;
  HeadSmem::copy(smem.codes, there ? from.k_head(block, from_head) : nullptr, layout.code_bytes());
  HeadSmem::copy(smem.scales, there ? from.k_scales(block, from_head) : nullptr, layout.scale_bytes());
  __syncthreads();
  const auto* codes = reinterpret_cast<const std::byte*>(smem.codes);
  const auto dequantize = [&]<Side kSide, class Half>(std::int64_t at, std::byte* to) {
    visit_codec(format_of<kSide>(from), [&](auto codec) {
      using Codec = decltype(codec);
      reinterpret_cast<uint4*>(to)[thread] = to_16_bit<kSide, Half, Codec>(
          kDim, [&](int token, int dim) { return number_in<Codec, kSide>(codes + at, from, token, dim); });
    });
  };
  const auto to = static_cast<BlockId>(blockIdx.x);
  dequantize.template operator()<Side::kKeys, KHalf>(0, of.to.k_head(to, head));
  dequantize.template operator()<Side::kValues, VHalf>(layout.k_head_bytes, of.to.v_head(to, head));
  if (of.scales == nullptr || thread >= 2 * kBlockOfTile) return;
  const bool of_value = thread >= kBlockOfTile;
  float scale = 1.0F;
  if (of_value ? has_scales<Side::kValues>(from) : has_scales<Side::kKeys>(from)) {
    const auto* scales = reinterpret_cast<const std::uint16_t*>(smem.scales);
    const std::int64_t first = of_value ? layout.k_scale_bytes / kScaleBytes : 0;
    scale = CodecBF16::decode(scales[first + thread % kBlockOfTile]);
    if (of_value) scale = scale_of_value(from, scale);
  }
  of.scales[(static_cast<std::int64_t>(to) * gridDim.y + head) * 2 * kBlockOfTile + thread] = scale;
}

// Where a block's tokens lie in the cache.
struct TokenAddresses {
  BlockId blocks[kBlockOfTile];
  int tokens_in_block[kBlockOfTile];
};

// A token's scale: 0 if it was dropped, 1 without scales.
template <Side kSide>
__device__ float scale_of_token(const KvView& from, const TokenAddresses& addresses, int head, int token) {
  const BlockId block = addresses.blocks[token];
  if (block == kNoBlock) return 0.0F;
  if (!has_scales<kSide>(from)) return 1.0F;
  const float scale = scale_at<kSide>(from, block, head, addresses.tokens_in_block[token]);
  return kSide == Side::kKeys ? scale : scale_of_value(from, scale);
}

// Source blocks of any size; slower.
template <class KHalf, class VHalf>
__global__ void dequantize_any_blocks(const __grid_constant__ DequantJob of) {
  __shared__ TokenAddresses addresses;
  pdl_trigger();
  const auto thread = static_cast<int>(threadIdx.x);
  const int dims = of.to.layout.shape.k_dim;
  if (thread < kBlockOfTile) {
    const DequantBlock& block_of_16 = of.list[blockIdx.x];
    const Position key = block_of_16.first + thread;
    const int tokens = of.from.layout.block_tokens;
    addresses.blocks[thread] = key < block_of_16.end ? block_of_16.blocks[key / tokens] : kNoBlock;
    addresses.tokens_in_block[thread] = static_cast<int>(key % tokens);
  }
  __syncthreads();
  pdl_wait();
  const auto head = static_cast<int>(blockIdx.y);
  const int from_head = of.first_head + head;
  const auto dequantize = [&]<Side kSide, class Half>(std::byte* to) {
    visit_codec(format_of<kSide>(of.from), [&](auto codec) {
      using Codec = decltype(codec);
      reinterpret_cast<uint4*>(to)[thread] = to_16_bit<kSide, Half, Codec>(dims, [&](int token, int dim) {
        const BlockId block = addresses.blocks[token];
        if (block == kNoBlock) return 0.0F;
        return number_at<Codec, kSide>(of.from, block, from_head, addresses.tokens_in_block[token], dim);
      });
    });
  };
  const auto to = static_cast<BlockId>(blockIdx.x);
  dequantize.template operator()<Side::kKeys, KHalf>(of.to.k_head(to, head));
  dequantize.template operator()<Side::kValues, VHalf>(of.to.v_head(to, head));
  if (of.scales == nullptr || thread >= 2 * kBlockOfTile) return;
  of.scales[(static_cast<std::int64_t>(to) * gridDim.y + head) * 2 * kBlockOfTile + thread] =
      thread < kBlockOfTile ? scale_of_token<Side::kKeys>(of.from, addresses, from_head, thread)
                            : scale_of_token<Side::kValues>(of.from, addresses, from_head, thread - kBlockOfTile);
}

template <class KHalf, class VHalf>
void launch(const DequantJob& blocks, cudaStream_t stream) {
  const KvLayout& to = blocks.to.layout;
  const auto usual =
      to.shape.k_dim == 64 ? dequantize_blocks_of_16<KHalf, VHalf, 64> : dequantize_blocks_of_16<KHalf, VHalf, 128>;
  const auto kernel = blocks.from.layout.block_tokens == kBlockOfTile ? usual : dequantize_any_blocks<KHalf, VHalf>;
  const dim3 grid(static_cast<unsigned>(blocks.count), static_cast<unsigned>(to.shape.heads));
  const int threads = to.shape.k_dim * kBlockOfTile / kAtOnce;
  launch_pdl("dequantizing KV blocks", kernel, {grid, dim3(static_cast<unsigned>(threads))}, stream, blocks);
}

}  // namespace

void dequantize_blocks(const DequantJob& blocks, cudaStream_t stream) {
  const KvLayout& to = blocks.to.layout;
  if (to.k_format == KvFormat::kBF16) return launch<HalfBF16, HalfBF16>(blocks, stream);
  to.v_format == KvFormat::kBF16 ? launch<HalfF16, HalfBF16>(blocks, stream)
                                 : launch<HalfF16, HalfF16>(blocks, stream);
}

KvLayout dequant_layout(const KvLayout& of, int heads) {
  KvGroup group;
  group.layers = {0};
  group.shape = {heads, of.shape.k_dim, of.shape.v_dim};
  group.k_format = multiplies_bf16_keys(of.k_format) ? KvFormat::kBF16 : KvFormat::kF16;
  group.v_format = multiplies_bf16_values(of.v_format) ? KvFormat::kBF16 : KvFormat::kF16;
  return make_layout(group, kBlockOfTile);
}

bool dequant_has_scales(const KvLayout& dequant) { return dequant.k_format != dequant.v_format; }

bool can_dequantize(const KvLayout& layout) {
  const int dim = layout.shape.k_dim;
  if (layout.shape.v_dim != dim || (dim != 64 && dim != 128)) return false;
  if (layout.k_format == KvFormat::kF32 || layout.v_format == KvFormat::kF32) return false;
  const KvLayout dequant = dequant_layout(layout, 1);
  if (dequant_has_scales(dequant)) return dequant.k_format == KvFormat::kF16;
  return layout.k_scale_bytes == 0 && layout.v_scale_bytes == 0;
}

std::vector<BlockId> add_dequant_blocks(std::vector<DequantBlock>& list, const SequenceView& sequence,
                                        const Retention& retention, const BlockId* blocks) {
  constexpr Position kChunk = kChunkTokens;
  const Position end = sequence.start + sequence.rows;
  const Position seen_from = retention.window_begin(sequence.start) / kChunk * kChunk;  // except for sinks
  const Position sinks_end = retention.full() ? 0 : (retention.sinks + kChunk - 1) / kChunk * kChunk;
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
