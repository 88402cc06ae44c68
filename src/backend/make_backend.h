// Backends by name.
#pragma once

#include <memory>
#include <string>

#include "backend/activations.h"
#include "backend/backend.h"

namespace kvasir {

struct BackendOptions {
  std::string device = "cpu";  // "cpu", or "ref": plain loops, the oracle
  int threads = 0;             // 0: as many as the machine has cores
  std::string isa = "auto";    // of the cpu: auto, scalar, avx2, avx512, avx512dot
  Activations activations = Activations::kAsWeights;
};

// Throws Error on an unknown device, or an instruction set this machine does not have.
std::unique_ptr<Backend> make_backend(const BackendOptions& options);

}  // namespace kvasir
