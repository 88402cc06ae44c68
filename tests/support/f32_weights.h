// A fixture's spec with weights in float32, and a tensor's rows as numbers to compute with plainly.
#pragma once

#include <string>
#include <vector>

#include "backend/weight_reader.h"
#include "model/tensor_source.h"
#include "support/fixtures.h"

namespace kvasir::testing {

using Rows = std::vector<std::vector<float>>;

// A weight as rows of floats.
inline Rows read(const TensorSource& from, const std::string& name, int rows, int cols) {
  const HostWeight stored = rows == 1 ? from.vector(name, cols) : from.matrix(name, rows, cols);
  Rows out(static_cast<size_t>(rows), std::vector<float>(static_cast<size_t>(cols)));
  for (int r = 0; r < rows; ++r) read_row(stored, r, out[static_cast<size_t>(r)].data());
  from.done_with(stored);
  return out;
}

inline ModelSpec in_f32(const char* golden) {
  ModelSpec spec = for_context(load_config(golden_dir(golden)), 0);
  spec.dtype = DType::kF32;
  return spec;
}

}  // namespace kvasir::testing
