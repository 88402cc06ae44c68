// Rows between floats and the bytes of their block: one token's K or V of one head, in any format.
//
// A row is encoded alone, as it is written: its bytes depend neither on its neighbours nor on what its block held
// before, and appending to a block never touches what is in it. So everything that holds for blocks of single numbers
// holds for packed ones. Every backend that writes on the host calls these: its bytes are then the same by
// themselves.
//
// Formats with scales, and pruned ones, are for finite numbers: NaN becomes 0, and what lies beyond ±65,504 becomes
// that, so a row can never spoil another. (f16 keeps infinities, which then reach whoever sees them.) A row with a
// scale whose largest number is below 1e-30 becomes zeros.
#pragma once

#include "layout/kv_view.h"
#include "layout/token_eviction.h"

namespace kvasir {

struct RowPlace {
  BlockId block = kNoBlock;
  int head = 0;
  int token_in_block = 0;  // inside the block
};

void encode_k(const KvView& view, const RowPlace& place, const float* row);
void encode_v(const KvView& view, const RowPlace& place, const float* row);  // REQUIRES: V has its own

// What the block holds: of rotated formats still the rotated row.
void decode_k(const KvView& view, const RowPlace& place, float* row);
void decode_v(const KvView& view, const RowPlace& place, float* row);  // REQUIRES: V has its own

// Of a row of what attention gives over the values of a layout: as many numbers as mixed_dim() of them, still in the
// space of V's format, become v_dim.
int mixed_dim(const KvLayout& layout);
void finish_mixed(const KvLayout& layout, float* mixed, float* to);

// The row of K and of V as it is, code by code and with its scale: what is decoded afterwards is the same to the bit.
void copy_row(const KvView& view, const RowPlace& from, const RowPlace& to);

void move_row(const KvView& view, const BlockId* blocks, const RowMove& move);  // likewise, by a sequence's places

// Turns a row into the space of the format, or back: hadamard() for rotated formats, nothing for others.
void turn(KvFormat format, float* row, int dim);

// How a query meets keys of a packed format, once it is turned: as integers up to kQueryLevels, to the nearest, ties
// to even, and a scale, which is returned. It is held to finite numbers as rows are.
float round_query(float* q, int dim);

}  // namespace kvasir
