// Blocks of any format as 16-bit numbers in blocks of 16 tokens, with their scales beside them: as prompt_attention()
// reads them. Keys and values become what kv_tile.cuh makes of them, so that attention over them has the same bits.
#pragma once

#include <cuda_runtime.h>

#include <vector>

#include "layout/kv_view.h"

namespace kvasir::cuda {

// Up to 16 tokens of a sequence, from `first` on and before `end`; what of them was dropped becomes zeros.
struct WideBlock {
  const BlockId* blocks = nullptr;  // of the sequence, on the device
  Position first = 0;
  Position end = 0;
};

struct WideBlocks {
  KvView from;
  KvView to;                        // one layer, in wide_layout(), of some of `from`'s heads; block i is list[i]
  int first_head = 0;               // of `from`, which is to's first
  float* scales = nullptr;          // [blocks][heads of `to`][K, V][16 tokens]; null: there are none
  const WideBlock* list = nullptr;  // on the device
  int count = 0;
};
void widen_blocks(const WideBlocks& blocks, cudaStream_t stream);

// Of so many heads of `of`. K and V are each in the format that its numbers are multiplied in.
KvLayout wide_layout(const KvLayout& of, int heads);
// Whether prompt_attention() takes what this layout's blocks become.
bool can_widen(const KvLayout& layout);
// Whether it multiplies with scales then. The others have none.
bool is_wide_with_scales(const KvLayout& wide);

// What rows of the sequence may see under the retention, behind the blocks that are in the list already. Returns the
// number in the list of every 16 tokens of the sequence, kNoBlock for those that no row sees. `blocks`: see
// WideBlock.
std::vector<BlockId> add_wide_blocks(std::vector<WideBlock>& list, const SequenceView& sequence,
                                     const Retention& retention, const BlockId* blocks);

}  // namespace kvasir::cuda
