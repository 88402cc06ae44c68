// Where the states of recurrent layers lie in a block, and what a kernel sees of them. Plain values, for host and
// device.
//
// A block of such a group is one state of one sequence, of all layers of the group, in float32: layer after layer, in
// each first the last inputs of its convolution, the oldest first, and then a matrix a head, row by row:
//
//     layer 0                                                       layer 1
//     inputs [conv_inputs][conv_channels]   heads [heads][k_dim][v_dim]   …
//
// At its beginning a text has no state, whatever lies in the block: all of it is zero.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ids.h"
#include "layout/host_device.h"

namespace kvasir {

// What one layer keeps of all tokens so far.
struct StateShape {
  int conv_channels = 0;
  int conv_inputs = 0;  // of each channel: one less than its convolution has weights
  int heads = 0;        // matrices
  int k_dim = 0;        // rows of each
  int v_dim = 0;        // columns

  KVASIR_HD bool none() const { return conv_floats() + matrix_floats() == 0; }
  KVASIR_HD std::int64_t conv_floats() const { return static_cast<std::int64_t>(conv_channels) * conv_inputs; }
  KVASIR_HD std::int64_t matrix_floats() const { return static_cast<std::int64_t>(heads) * k_dim * v_dim; }
  KVASIR_HD std::int64_t floats() const { return conv_floats() + matrix_floats(); }

  friend bool operator==(const StateShape&, const StateShape&) = default;
};

// One layer of one group.
struct StateView {
  std::byte* arena = nullptr;
  StateShape shape;
  int layers = 0;               // of the group
  int layer = 0;                // inside the group
  std::int64_t per_page = 0;    // blocks, one after the other
  std::int64_t page_bytes = 0;  // of the arena

  KVASIR_HD std::int64_t block_bytes() const {
    return shape.floats() * layers * static_cast<std::int64_t>(sizeof(float));
  }
  KVASIR_HD float* layer_at(BlockId block) const {
    std::byte* at = arena + block / per_page * page_bytes + block % per_page * block_bytes();
    return reinterpret_cast<float*>(at) + layer * shape.floats();
  }
  // [conv_inputs][conv_channels]
  KVASIR_HD float* conv_inputs(BlockId block) const { return layer_at(block); }
  // [k_dim][v_dim]
  KVASIR_HD float* matrix(BlockId block, int head) const {
    return layer_at(block) + shape.conv_floats() + static_cast<std::int64_t>(head) * shape.k_dim * shape.v_dim;
  }
  friend bool operator==(const StateView&, const StateView&) = default;
};

}  // namespace kvasir
