// Attention in plain loops, with sums in double: what the other backends' is compared with.
#pragma once

#include "backend/ops.h"

namespace kvasir {

void ref_attention(const AttentionOp& op);
void ref_watch(const WatchAttentionOp& op);

}  // namespace kvasir
