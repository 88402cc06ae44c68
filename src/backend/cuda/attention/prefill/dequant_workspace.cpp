#include "backend/cuda/attention/prefill/dequant_workspace.h"

#include <algorithm>

#include "backend/cuda/attention/attention_args.h"

namespace kvasir::cuda {

int DequantWorkspace::heads_at_once(const KvLayout& of, int blocks) {
  const std::int64_t head_bytes = dequant_layout(of, 1).block_bytes() * blocks;
  return static_cast<int>(std::clamp<std::int64_t>(kMostBytes / head_bytes, 1, of.shape.heads));
}

DequantWorkspace::DequantizedKv DequantWorkspace::dequantize(const KvView& from, const BlockList& list, Heads heads) {
  DequantJob blocks;
  blocks.from = from;
  blocks.first_head = heads.first;
  blocks.list = list.blocks;
  blocks.count = list.count;
  blocks.to = from;
  blocks.to.layout = dequant_layout(from.layout, heads.count);
  blocks.to.layer = 0;
  blocks.to.per_page = 0;
  numbers_.grow_to(static_cast<size_t>(blocks.to.layout.block_bytes() * list.count));
  blocks.to.arena = numbers_.data();
  if (dequant_has_scales(blocks.to.layout)) {
    const std::int64_t scales = std::int64_t{2} * kBlockOfTile * heads.count * list.count;
    scales_.grow_to(static_cast<size_t>(scales) * sizeof(float));
    blocks.scales = reinterpret_cast<float*>(scales_.data());
  }
  dequantize_blocks(blocks, stream_);
  return {blocks.to, blocks.scales};
}

}  // namespace kvasir::cuda
