#pragma once

#include <cstdint>

#include "layout/host_device.h"
#include "layout/kv_format.h"

namespace kvasir {

// Of a row's numbers the largest, one in kShare, as f16; all others are 0. K and V lie alike, row by row, each of the
// same length whatever it holds: [block_tokens] of
//
//     mask     bit d of dim bits, from each byte's lowest bit on: whether dimension d is kept; a multiple of 16 bits
//     values   [kept] f16, in the order of their dimensions
//
// Of numbers that are equally large the one of the lower dimension is kept. Rows are not rotated: that would make all
// of their numbers about as large.
template <int kShare>
struct TopCodec {
  static constexpr int kOneIn = kShare;

  KVASIR_HD static int kept(int dim) { return (dim + kOneIn - 1) / kOneIn; }
  KVASIR_HD static int mask_bytes(int dim) { return (dim + 15) / 16 * 2; }
  KVASIR_HD static int row_bytes(int dim) { return mask_bytes(dim) + 2 * kept(dim); }
};

struct CodecTop50 : TopCodec<2> {
  static constexpr KvFormat kFormat = KvFormat::kTop50;
  static constexpr const char* kName = "top50";
};
struct CodecTop25 : TopCodec<4> {
  static constexpr KvFormat kFormat = KvFormat::kTop25;
  static constexpr const char* kName = "top25";
};

}  // namespace kvasir
