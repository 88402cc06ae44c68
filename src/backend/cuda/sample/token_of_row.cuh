// The token of a row, which the host may not know yet.
#pragma once

#include "backend/cuda/ops/cast_rows.h"
#include "base/sample_rule.h"

namespace kvasir::cuda {

__device__ inline TokenId token_of(const RowTokens& tokens, unsigned row) {
  const TokenId token = tokens.sent[row];
  if (!is_sampled(token)) return token;
  return max(0, tokens.sampled[row_of_sampled(token)]);  // if sampling failed, any token: the row is ignored
}

}  // namespace kvasir::cuda
