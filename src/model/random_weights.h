// Random tensors of a model's shape, made when they are asked for: no file, no disk, and never more than a few
// matrices in memory. The same config and seed give the same numbers, on any machine.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "backend/buffer.h"
#include "base/thread_pool.h"
#include "model/tensor_source.h"
#include "model/tensors.h"

namespace kvasir {

struct RandomTensor {
  TensorSpec tensor;
  float mean = 0.0F;
  float deviation = 0.0F;
  std::uint64_t seed = 0;   // of all
  std::uint64_t index = 0;  // among all

  std::int64_t elements() const { return tensor.elements(); }
};

// All of them, in the order of a file. Deviations keep activations near 1 through any number of layers.
std::vector<RandomTensor> random_tensors(const ModelSpec& spec, std::uint64_t seed);

// Elements from `first` on, as many as fit `to`. REQUIRES: f32, f16 or bf16.
void fill(const RandomTensor& tensor, DType dtype, std::int64_t first, std::span<std::byte> to);

class RandomWeights final : public TensorSource {
 public:
  RandomWeights(const ModelSpec& spec, std::uint64_t seed);

  HostWeight matrix(std::string_view name, int rows, int cols) const override;
  Key256 fingerprint() const override;
  void done_with(const HostWeight& weight) const override;
  std::uint64_t bytes() const override;

 private:
  DType dtype_;
  std::uint64_t seed_;
  std::vector<RandomTensor> tensors_;
  mutable ThreadPool threads_;
  mutable std::list<Buffer> made_;  // each lives from matrix() to done_with()
};

}  // namespace kvasir
