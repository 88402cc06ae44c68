// Random tensors as Hugging Face's files hold them: several in one, transposed, by expert, in a file's own order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/random_weights.h"

namespace kvasir {

// A tensor of a file, and what it is made of.
struct RandomFileTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<const RandomTensor*> parts;  // in the order of a file, expert after expert

  std::int64_t elements() const;
  bool plain() const;  // one part, as it is: it can be written piece by piece
  int experts() const;

  // Those of one expert, or all where it has none.
  std::vector<std::byte> expert_bytes(int expert, DType dtype) const;
};

// In the order in which they first come. The tensors outlive the result.
std::vector<RandomFileTensor> file_tensors(const std::vector<RandomTensor>& tensors);

}  // namespace kvasir
