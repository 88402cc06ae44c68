// Products of few rows on Hopper, as fast as weights come out of memory, with the canonical bits (product.h).
//
// A persistent block streams tiles of weights through shared memory by the copy engine, as deep as the memory goes;
// one warpgroup multiplies them by wgmma: up to 64 rows are the m64 operand, a tile's outputs the n operand. The
// first stages of weights are on their way before the rows are known (launch.h).
#pragma once

#include <cuda_runtime_api.h>

#include <array>

#include "backend/cuda/product.h"

namespace kvasir::cuda {

// Wide tiles read each row less often. Two of them for each of 128 processors are the 28,672 outputs of an 8B model's
// gates.
inline constexpr int kWideTile = 112;
inline constexpr int kStreamTiles[] = {16, 32, 48, 64, kWideTile};

// Which of the equals is fastest depends on shape and rows: the tuner measures.
struct StreamShape {
  int tile = 32;    // outputs of a block's tile: one of kStreamTiles
  int cluster = 1;  // blocks that share each row they read: 1, 2 or 4
  int boxes = 2;    // of 64 k in a stage: 2, or 4 where tiles are not wide
};
bool is_stream_shape(StreamShape shape);  // whether there is a kernel for it

class StreamProduct {
 public:
  // Asks the device in use what it has.
  StreamProduct();

  // Whether that device can do it: Hopper.
  bool available() const { return available_; }

  // How many thread blocks it runs at once, one a processor, or clusters of so many.
  int blocks_at_once() const { return clusters_[1]; }
  int clusters_at_once(int size) const { return clusters_[static_cast<size_t>(size)]; }
  int shared_bytes() const { return shared_bytes_; }  // for the stages of each

  // Whether enough stages of that shape fit into shared memory.
  bool can_do(const Product& product, StreamShape shape) const;

  // can_do(), and product.number is kBF16 or kF16. More than 64 rows are done in passes over the weights.
  void multiply(const Product& product, StreamShape shape, cudaStream_t stream) const;

 private:
  bool available_ = false;
  int shared_bytes_ = 0;  // of a block, less what the kernel declares itself
  // By the size of a cluster: how many the device runs at once.
  std::array<int, 5> clusters_{};
};

}  // namespace kvasir::cuda
