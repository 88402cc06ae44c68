// Writes new K and V rows into the cache, and moves rows inside it.
#pragma once

#include <cuda_runtime.h>

#include <span>

#include "backend/backend.h"
#include "backend/tensor.h"
#include "layout/kv_view.h"
#include "layout/token_eviction.h"

namespace kvasir::cuda {

class Staging;

struct NewRows {
  Matrix k, v;  // no v where it is a part of k
  KvView view;
  const SequenceView* sequences = nullptr;  // device memory
  int count = 0;                            // sequences
  int rows = 0;                             // summed over the sequences
};
// Writes the bytes that encode_k() and encode_v() write.
void write_rows(const NewRows& rows, cudaStream_t stream);
// The same after rope() of qkv.q and rows.k, in place.
void rope_and_write_rows(const QkvRows& qkv, const NewRows& rows, cudaStream_t stream);
// The same for f16 and bf16, if rope covers whole heads. False: it does not apply, and nothing was launched.
bool rope_and_write_f16(const QkvRows& qkv, const NewRows& rows, cudaStream_t stream);

struct MovedRows {
  KvView view;
  const BlockId* blocks = nullptr;  // device memory, as the members below
  const RowMove* moves = nullptr;   // sorted by head; those of a head in order
  const int* heads_end = nullptr;   // [heads]: the end of the moves of each head
};
// Uploads the moves of a sequence with these blocks. REQUIRES: there is a move.
MovedRows send_moves(const KvView& view, const BlockId* blocks, std::span<const RowMove> moves, Staging& staging);
// copy_row() of each move; the moves of a head run in order.
void move_rows(const MovedRows& rows, cudaStream_t stream);

}  // namespace kvasir::cuda
