// Blocks on their way to pinned host memory and back, on a stream of their own: one copy each, nobody on the host
// waits. The ops of the main stream that come later do, since blocks are saved to be used again, and restored to be
// read.
#pragma once

#include <span>

#include "backend/backend.h"
#include "backend/cuda/cuda_stream.h"

namespace kvasir::cuda {

class HostCopies {
 public:
  explicit HostCopies(cudaStream_t main) : main_(main) {}

  void save(std::span<const HostCopy> pieces) const {
    run(pieces, [this](const HostCopy& piece) {
      return cudaMemcpyAsync(piece.host, piece.device, piece.bytes, cudaMemcpyDeviceToHost, side_);
    });
  }
  void restore(std::span<const HostCopy> pieces) const {
    run(pieces, [this](const HostCopy& piece) {
      return cudaMemcpyAsync(piece.device, piece.host, piece.bytes, cudaMemcpyHostToDevice, side_);
    });
  }

 private:
  template <class Copy>
  void run(std::span<const HostCopy> pieces, const Copy& copy) const {
    begun_.order(main_, side_);
    for (const HostCopy& piece : pieces) check(copy(piece), "moving a block");
    done_.order(side_, main_);
  }

  cudaStream_t main_;
  Stream side_;
  Event begun_;
  Event done_;
};

}  // namespace kvasir::cuda
