// Weights in device memory: [outputs][ld] of one plain type, as they are multiplied, or codes of 8 bits.
//
//   in the file     on the device                                    rows they meet are rounded to
//   bf16            bf16                                             bf16
//   f16             f16                                              f16, finite
//   f32             f32                                              nothing
//   quantized       f16: the decoded numbers, rounded and finite     f16, finite
//   any, int8, fp8  codes (code_layout.h), behind them the scales    bf16
//   any, kF32       f32: of codes, what they stand for               nothing
#pragma once

#include <array>
#include <functional>
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
  CudaWeight(int outputs, int inputs, WeightForm form);  // of 8 bits

  std::span<const std::byte> memory() const override { return {memory_.data(), memory_.size()}; }  // on the device
  std::byte* data() const { return memory_.data(); }
  std::int64_t ld() const { return ld_; }    // elements: inputs, padded with zeros; of rows that codes meet
  Number number() const { return number_; }  // of the rows that they meet
  WeightForm form() const { return form_; }  // kAsStored: numbers
  float* scales() const;                     // of codes: [outputs]

 private:
  std::int64_t ld_;
  Number number_;
  WeightForm form_ = WeightForm::kAsStored;
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

  struct Pieces {
    std::byte* to = nullptr;  // on the device, one after the other
    size_t bytes = 0;         // of each
    int count = 0;
  };

  std::unique_ptr<CudaWeight> load_numbers(std::span<const HostWeight> stacked, int outputs);
  std::unique_ptr<CudaWeight> load_codes(std::span<const HostWeight> stacked, int outputs);
  void copy(const Pieces& pieces, const std::function<void(int piece, std::byte* to)>& write);

  cudaStream_t stream_;
  Activations activations_;
  ThreadPool threads_;
  std::array<Part, 2> parts_;
  size_t next_part_ = 0;
};

}  // namespace kvasir::cuda
