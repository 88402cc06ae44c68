// Where a model's tensors come from, by Hugging Face's names: a file (weights.h), or nowhere (random_weights.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "backend/tensor.h"
#include "base/hash.h"

namespace kvasir {

class TensorSource {
 public:
  virtual ~TensorSource() = default;

  // [rows][cols]; a vector is one row. Valid until done_with. Throws Error when it is missing or has another shape.
  virtual HostWeight matrix(std::string_view name, int rows, int cols) const = 0;
  HostWeight vector(std::string_view name, int size) const { return matrix(name, 1, size); }

  // What the weights are, to the last bit: part of every cached block's name.
  virtual Key256 fingerprint() const = 0;
  // The pages or the copy of this weight may be dropped: it has been packed.
  virtual void done_with(const HostWeight& weight) const = 0;
  virtual std::uint64_t bytes() const = 0;  // of all tensors
  // Whether numbers and rows are as GGUF files have them: offsets are added, and rows in our order.
  virtual bool is_gguf() const { return false; }
};

}  // namespace kvasir
