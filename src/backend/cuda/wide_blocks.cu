#include "backend/cuda/wide_blocks.h"

#include <type_traits>

#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/kv_tile.cuh"
#include "backend/cuda/launch.h"
#include "layout/codec.h"

namespace kvasir::cuda {
namespace {

constexpr int kAtOnce = 8;  // numbers that a thread writes together

// Where a wide block's tokens lie in the cache: each in a block of its own, perhaps.
struct AnyTokens {
  static __device__ void find(const WideBlocks& of, const WideBlock& block, AnyTokens& found) {
    const int token = static_cast<int>(threadIdx.x);
    if (token >= kBlockOfTile) return;
    const Position key = block.first + token;
    const int tokens = of.from.layout.block_tokens;
    found.blocks_[token] = key < block.end ? block.blocks[key / tokens] : kNoBlock;
    found.slots_[token] = static_cast<int>(key % tokens);
  }
  __device__ BlockId block(int token) const { return blocks_[token]; }
  __device__ int slot(int token) const { return slots_[token]; }

 private:
  BlockId blocks_[kBlockOfTile];
  int slots_[kBlockOfTile];
};
// The same where the cache has blocks of as many tokens: most of the arithmetic is done before numbers are read.
struct SameTokens {
  static __device__ void find(const WideBlocks&, const WideBlock& block, SameTokens& found) {
    if (threadIdx.x == 0) found.block_ = block.blocks[block.first / kBlockOfTile];
  }
  __device__ BlockId block(int) const { return block_; }
  static __device__ int slot(int token) { return token; }

 private:
  BlockId block_;
};

// The thread's kAtOnce numbers, as load_rows() of kv_tile.cuh has them: tokens of a key's dimension, or dimensions of
// a token's value.
template <Side kSide, class Half, class Tokens>
__device__ void widen_side(const KvView& from, const Tokens& tokens, int head, int dims, std::byte* to) {
  const int first = static_cast<int>(threadIdx.x) * kAtOnce;
  visit_on_device(kSide == Side::kKeys ? from.layout.k_format : from.layout.v_format, [&](auto codec) {
    using Codec = decltype(codec);
    constexpr float kFactor = kSide == Side::kKeys ? 1.0F : kValueFactor<Codec>;
    float numbers[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int token = kSide == Side::kKeys ? first % kBlockOfTile + i : first / dims;
      const int dim = kSide == Side::kKeys ? first / kBlockOfTile : first % dims + i;
      const BlockId block = tokens.block(token);
      numbers[i] = 0.0F;
      if (block == kNoBlock) continue;
      const float number = number_at<Codec, kSide>(from, block, head, tokens.slot(token), dim);
      numbers[i] = __fmul_rn(number, 1.0F / kFactor);
    }
    reinterpret_cast<uint4*>(to)[threadIdx.x] = {
        Half::pack(numbers[0], numbers[1]), Half::pack(numbers[2], numbers[3]), Half::pack(numbers[4], numbers[5]),
        Half::pack(numbers[6], numbers[7])};
  });
}

// Of a token: 0 where it was dropped, 1 in a format without scales.
template <Side kSide, class Tokens>
__device__ float wide_scale(const KvView& from, const Tokens& tokens, int head, int token) {
  const BlockId block = tokens.block(token);
  if (block == kNoBlock) return 0.0F;
  const std::int64_t bytes = kSide == Side::kKeys ? from.layout.k_scale_bytes : from.layout.v_scale_bytes;
  if (bytes == 0) return 1.0F;
  float out = scale_at<kSide>(from, block, head, tokens.slot(token));
  if constexpr (kSide == Side::kValues) {
    visit_on_device(from.layout.v_format, [&](auto codec) { out = __fmul_rn(out, kValueFactor<decltype(codec)>); });
  }
  return out;
}

// A thread block for each block and head, with a thread for each kAtOnce of its keys, and of its values.
template <class KHalf, class VHalf, class Tokens>
__global__ void widen(const __grid_constant__ WideBlocks of) {
  __shared__ Tokens tokens;
  let_followers_start();
  Tokens::find(of, of.list[blockIdx.x], tokens);
  __syncthreads();
  wait_for_forerunners();
  const auto head = static_cast<int>(blockIdx.y);
  const auto to = static_cast<BlockId>(blockIdx.x);
  const int dims = of.to.layout.shape.k_dim;
  KvView from = of.from;
  if constexpr (std::is_same_v<Tokens, SameTokens>) from.layout.block_tokens = kBlockOfTile;
  widen_side<Side::kKeys, KHalf>(from, tokens, of.first_head + head, dims, of.to.k_head(to, head));
  widen_side<Side::kValues, VHalf>(from, tokens, of.first_head + head, dims, of.to.v_head(to, head));
  const auto thread = static_cast<int>(threadIdx.x);
  if (of.scales == nullptr || thread >= 2 * kBlockOfTile) return;
  float* scales = of.scales + (static_cast<std::int64_t>(to) * gridDim.y + head) * 2 * kBlockOfTile;
  scales[thread] = thread < kBlockOfTile
                       ? wide_scale<Side::kKeys>(from, tokens, of.first_head + head, thread)
                       : wide_scale<Side::kValues>(from, tokens, of.first_head + head, thread - kBlockOfTile);
}

template <class Tokens>
void launch(const WideBlocks& blocks, cudaStream_t stream) {
  const KvLayout& to = blocks.to.layout;
  const auto kernel = to.k_format == KvFormat::kBF16   ? widen<HalfBF16, HalfBF16, Tokens>
                      : to.v_format == KvFormat::kBF16 ? widen<HalfF16, HalfBF16, Tokens>
                                                       : widen<HalfF16, HalfF16, Tokens>;
  const dim3 grid(static_cast<unsigned>(blocks.count), static_cast<unsigned>(to.shape.heads));
  const int threads = to.shape.k_dim * kBlockOfTile / kAtOnce;
  launch_early("widening blocks", kernel, {grid, dim3(static_cast<unsigned>(threads))}, stream, blocks);
}

}  // namespace

void widen_blocks(const WideBlocks& blocks, cudaStream_t stream) {
  blocks.from.layout.block_tokens == kBlockOfTile ? launch<SameTokens>(blocks, stream)
                                                  : launch<AnyTokens>(blocks, stream);
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
