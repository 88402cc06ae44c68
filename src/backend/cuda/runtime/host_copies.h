// KV blocks on their way to pinned host memory and back: one copy each, on a stream of their own. The host does not
// wait. Later work on the main stream does, since it overwrites saved blocks and reads restored ones.
#pragma once

#include <span>

#include "backend/backend.h"
#include "backend/cuda/runtime/cuda_stream.h"

namespace kvasir::cuda {

class HostCopies {
 public:
  explicit HostCopies(cudaStream_t main) : main_(main) {}

  void save(std::span<const HostCopy> blocks) const {
    run(blocks, [this](const HostCopy& block) {
      return cudaMemcpyAsync(block.host, block.device, block.bytes, cudaMemcpyDeviceToHost, side_);
    });
  }
  void restore(std::span<const HostCopy> blocks) const {
    run(blocks, [this](const HostCopy& block) {
      return cudaMemcpyAsync(block.device, block.host, block.bytes, cudaMemcpyHostToDevice, side_);
    });
  }

 private:
  template <class Copy>
  void run(std::span<const HostCopy> blocks, const Copy& copy) const {
    ready_.order(main_, side_);
    for (const HostCopy& block : blocks) check(copy(block), "moving a block");
    done_.order(side_, main_);
  }

  cudaStream_t main_;
  Stream side_;
  Event ready_;
  Event done_;
};

}  // namespace kvasir::cuda
