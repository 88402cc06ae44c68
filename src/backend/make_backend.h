// Backends by name.
#pragma once

#include <memory>
#include <string>

#include "backend/activation_precision.h"
#include "backend/backend.h"

namespace kvasir {

struct BackendOptions {
  // "cpu"; "cuda:0" and on, or "cuda", the first; "auto": cuda:0 where there is one, else cpu; or "ref": plain loops,
  // the oracle.
  std::string device = "cpu";
  int threads = 0;           // 0: as many as the machine has cores
  std::string isa = "auto";  // of the cpu: auto, scalar, avx2, avx512, avx512dot
  ActivationPrecision activations = ActivationPrecision::kAsWeights;
  int sm_count = 0;  // SMs of a GPU that attention is spread over: no bit depends on it. 0: all; tests have few
};

// What "auto" is on this machine, and "cuda"; other names as they are.
std::string device_named(const std::string& name);

// Tokens of a step: those asked for, or, where that is 0, what suits the device: as many as its products need to be
// fast, and no more, since answers wait for the prompts in their step.
int batch_tokens(int asked, const std::string& device);

// Throws Error on an unknown device, one this machine or this build does not have, or an instruction set it does not
// have.
std::unique_ptr<Backend> make_backend(const BackendOptions& options);

}  // namespace kvasir
