// The layout headers are for kernels too: this compiles them for a device. It is never run.
#include "layout/codec_bf16.h"
#include "layout/codec_f16.h"
#include "layout/codec_f32.h"
#include "layout/codec_fp8.h"
#include "layout/codec_int.h"
#include "layout/codec_top.h"
#include "layout/hadamard.h"
#include "layout/kv_view.h"
#include "layout/retention.h"
#include "layout/softmax_state.h"

namespace kvasir {

__global__ void read_one(KvView view, SequenceView sequence, float* out) {
  const BlockId block = sequence.block_of(threadIdx.x, view.layout.block_tokens);
  const auto* keys = reinterpret_cast<const CodecF16::Stored*>(view.k_head(block, 0));
  const SoftmaxMerge merged = merge(SoftmaxState{1, 2}, SoftmaxState{3, 4});
  out[0] = CodecF16::decode(keys[view.k_index(0, 1)]) + merged.state.d;
  out[1] = CodecBF16::decode(CodecBF16::encode(out[2])) + CodecF32::decode(out[3]);
  hadamard(out, 4);
  const CodePlace place = CodecInt4::k_place(view.layout.block_tokens, 0, 1);
  out[3] = CodecE4M3::decode(CodecE4M3::encode(out[2])) + static_cast<float>(place.byte);
  const TreePath path = sequence.path_of(static_cast<int>(threadIdx.x));
  out[4] = static_cast<float>(path.slot_of(sequence.position_of(static_cast<int>(threadIdx.x))));
  out[2] = view.retention.visible(3, 2) ? 1.0F : 0.0F;
}

}  // namespace kvasir
