#include "backend/cuda/wide_room.h"

#include <algorithm>

#include "backend/cuda/attention_args.h"

namespace kvasir::cuda {

int WideRoom::heads_at_once(const KvLayout& of, int blocks) {
  const std::int64_t head_bytes = wide_layout(of, 1).block_bytes() * blocks;
  return static_cast<int>(std::clamp<std::int64_t>(kMostBytes / head_bytes, 1, of.shape.heads));
}

WideRoom::Wide WideRoom::widen(const KvView& from, const List& list, Heads heads) {
  WideBlocks blocks;
  blocks.from = from;
  blocks.first_head = heads.first;
  blocks.list = list.blocks;
  blocks.count = list.count;
  blocks.to = from;
  blocks.to.layout = wide_layout(from.layout, heads.count);
  blocks.to.layer = 0;
  blocks.to.per_page = 0;
  numbers_.grow_to(static_cast<size_t>(blocks.to.layout.block_bytes() * list.count));
  blocks.to.arena = numbers_.data();
  if (is_wide_with_scales(blocks.to.layout)) {
    const std::int64_t scales = std::int64_t{2} * kBlockOfTile * heads.count * list.count;
    scales_.grow_to(static_cast<size_t>(scales) * sizeof(float));
    blocks.scales = reinterpret_cast<float*>(scales_.data());
  }
  widen_blocks(blocks, stream_);
  return {blocks.to, blocks.scales};
}

}  // namespace kvasir::cuda
