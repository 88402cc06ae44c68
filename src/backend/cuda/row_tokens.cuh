// A row's token, which the host may not know yet.
#pragma once

#include "backend/cuda/convert_rows.h"
#include "base/draw.h"

namespace kvasir::cuda {

__device__ inline TokenId token_of(const RowTokens& tokens, unsigned row) {
  const TokenId token = tokens.sent[row];
  if (!is_drawn(token)) return token;
  return max(0, tokens.drawn[row_of_drawn(token)]);  // any, where none could be drawn: nobody will look at the row
}

}  // namespace kvasir::cuda
