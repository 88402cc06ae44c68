// Weights in device memory: [outputs][ld] of one number type, or 8-bit codes.
//
//   in the file     on the device                                    activations are cast to
//   bf16            bf16                                             bf16
//   f16             f16                                              f16, finite
//   f32             f32                                              nothing
//   quantized       f16: dequantized, rounded and finite             f16, finite
//   mxfp4           bf16: dequantized, exact                         bf16
//   any, int8, fp8  codes (w8_layout.h), then the scales             bf16
//   any, kF32       f32; codes are dequantized                       nothing
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>

#include "backend/activation_precision.h"
#include "backend/backend.h"
#include "backend/cuda/gemm/gemm.h"
#include "backend/cuda/runtime/device_memory.h"
#include "base/thread_pool.h"

namespace kvasir::cuda {

class CudaWeight final : public Weight {
 public:
  CudaWeight(int outputs, int inputs, Number number);
  CudaWeight(int outputs, int inputs, WeightQuantization form);  // 8-bit

  std::span<const std::byte> memory() const override { return {memory_.data(), memory_.size()}; }  // device memory
  std::byte* data() const { return memory_.data(); }
  std::int64_t ld() const { return ld_; }    // elements: inputs, padded with zeros; with codes, of the activations
  Number number() const { return number_; }  // of the activations
  WeightQuantization form() const { return form_; }  // kAsStored: numbers
  float* scales() const;                             // of codes: [outputs]

 private:
  std::int64_t ld_;
  Number number_;
  WeightQuantization form_ = WeightQuantization::kAsStored;
  DeviceMemory memory_;
};

// Loads weights from files through pinned memory, which host threads fill while the part before is copied.
class WeightLoader {
 public:
  WeightLoader(cudaStream_t stream, ActivationPrecision activations);
  ~WeightLoader();
  WeightLoader(const WeightLoader&) = delete;
  WeightLoader& operator=(const WeightLoader&) = delete;

  // See Backend::load().
  std::unique_ptr<CudaWeight> load(std::span<const HostWeight> stacked);

 private:
  struct Part {
    std::byte* at = nullptr;       // pinned
    cudaEvent_t copied = nullptr;  // when it may be overwritten
  };

  struct Slices {
    std::byte* to = nullptr;  // device memory, contiguous
    size_t bytes = 0;         // of each
    int count = 0;
  };

  std::unique_ptr<CudaWeight> load_numbers(std::span<const HostWeight> stacked, int outputs);
  std::unique_ptr<CudaWeight> load_w8(std::span<const HostWeight> stacked, int outputs);
  void copy(const Slices& slices, const std::function<void(int slice, std::byte* to)>& write);

  cudaStream_t stream_;
  ActivationPrecision activations_;
  ThreadPool threads_;
  std::array<Part, 2> parts_;
  size_t next_part_ = 0;
};

}  // namespace kvasir::cuda
