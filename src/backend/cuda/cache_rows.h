// Rows into the cache, and from one place of it to another.
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
  Matrix k, v;
  KvView view;
  const SequenceView* sequences = nullptr;  // on the device
  int count = 0;                            // of sequences
  int rows = 0;                             // of all sequences
};
// The bytes that encode_k() and encode_v() write.
void write_rows(const NewRows& rows, cudaStream_t stream);
// The same behind rope() of q and rows.k, in place.
void turn_and_write_rows(const UnturnedRows& unturned, const NewRows& rows, cudaStream_t stream);
// The same for 16-bit numbers in heads that are turned whole; false, and nothing done: these are others.
bool turn_and_write_numbers(const UnturnedRows& unturned, const NewRows& rows, cudaStream_t stream);

struct MovedRows {
  KvView view;
  const BlockId* blocks = nullptr;  // on the device, as all behind it
  const RowMove* moves = nullptr;   // each head's one after the other, in its order
  const int* heads_end = nullptr;   // [heads]: moves before this one are of the head or of those before it
};
// Of a sequence with these blocks; all on the host. REQUIRES: there is a move.
MovedRows send_moves(const KvView& view, const BlockId* blocks, std::span<const RowMove> moves, Staging& staging);
// As copy_row(): one move of a head after the other.
void move_rows(const MovedRows& rows, cudaStream_t stream);

}  // namespace kvasir::cuda
