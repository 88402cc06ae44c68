// Dequantizes blocks of any format to 16-bit numbers in blocks of 16 tokens, with their scales beside them, for
// wgmma. Numbers become what kv_tile.cuh makes of them, so attention has the same bits.
#pragma once

#include <cuda_runtime.h>

#include <vector>

#include "layout/kv_view.h"

namespace kvasir::cuda {

// Up to 16 tokens of a sequence, [first, min(first + 16, end)); dropped tokens become zeros.
struct DequantBlock {
  const BlockId* blocks = nullptr;  // device memory, of the sequence
  Position first = 0;
  Position end = 0;
};

struct DequantJob {
  KvView from;
  KvView to;                           // one layer of some of `from`'s heads, in dequant_layout(); block i is list[i]
  int first_head = 0;                  // of `from`: the first of `to`
  float* scales = nullptr;             // [blocks][heads of `to`][K, V][16 tokens]; null: no scales
  const DequantBlock* list = nullptr;  // device memory
  int count = 0;
};
void dequantize_blocks(const DequantJob& blocks, cudaStream_t stream);

// The layout of `heads` dequantized heads: K and V in the formats that they are multiplied in.
KvLayout dequant_layout(const KvLayout& of, int heads);
// Whether wgmma_attention() can read the dequantized blocks of this layout.
bool can_dequantize(const KvLayout& layout);
// Whether a dequantized layout has scales.
bool dequant_has_scales(const KvLayout& dequant);

// Appends the blocks that rows of the sequence may see under the retention. Returns, for every 16 tokens of the
// sequence, the index in the list, or kNoBlock if no row sees them.
std::vector<BlockId> add_dequant_blocks(std::vector<DequantBlock>& list, const SequenceView& sequence,
                                        const Retention& retention, const BlockId* blocks);

}  // namespace kvasir::cuda
