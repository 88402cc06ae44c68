// Weights in device memory: [outputs][ld] of one plain type, as they are multiplied.
//
//   in the file     on the device                                    rows they meet are rounded to
//   bf16            bf16                                             bf16
//   f16             f16                                              f16, finite
//   f32             f32                                              nothing
//   quantized       f16: the decoded numbers, rounded and finite     f16, finite
//   any, kF32       f32                                              nothing
#pragma once

#include <array>
#include <memory>
#include <span>

#include "backend/activations.h"
#include "backend/backend.h"
#include "backend/cuda/device_memory.h"
#include "backend/cuda/product.h"
#include "base/thread_pool.h"

namespace kvasir::cuda {

class CudaWeight final : public Weight {
 public:
  CudaWeight(int outputs, int inputs, Number number);

  std::span<const std::byte> memory() const override { return {memory_.data(), memory_.size()}; }  // on the device
  std::byte* data() const { return memory_.data(); }
  std::int64_t ld() const { return ld_; }  // elements: inputs, padded with zeros
  Number number() const { return number_; }

 private:
  std::int64_t ld_;
  Number number_;
  DeviceMemory memory_;
};

// Brings weights from files to the device, through pinned memory that host threads fill while the last part is
// copied.
class WeightLoader {
 public:
  WeightLoader(cudaStream_t stream, Activations activations);
  ~WeightLoader();
  WeightLoader(const WeightLoader&) = delete;
  WeightLoader& operator=(const WeightLoader&) = delete;

  // See Backend::load().
  std::unique_ptr<CudaWeight> load(std::span<const HostWeight> stacked);

 private:
  struct Part {
    std::byte* at = nullptr;       // pinned
    cudaEvent_t copied = nullptr;  // when it may be written again
  };

  void copy_rows(const HostWeight& from, const CudaWeight& weight, int first_output);

  cudaStream_t stream_;
  Activations activations_;
  ThreadPool threads_;
  std::array<Part, 2> parts_;
  size_t next_part_ = 0;
};

}  // namespace kvasir::cuda
