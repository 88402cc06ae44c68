// The fast backend for CPUs: Highway kernels behind one table an instruction set, and a pool of threads.
#pragma once

#include <memory>

#include "backend/activation_precision.h"
#include "backend/backend.h"
#include "backend/cpu/isa.h"

namespace kvasir {

std::unique_ptr<Backend> make_cpu_backend(int threads, Isa isa,
                                          ActivationPrecision activations = ActivationPrecision::kAsWeights);

}  // namespace kvasir
