// From an Isa to the function a target's namespace compiled: the last lines of every *_kernels.cpp.
#pragma once

#include <hwy/highway.h>

#include "backend/cpu/isa.h"
#include "base/check.h"

// KVASIR_CHOOSE(isa, table): the table() of the target that serves this isa.
#define KVASIR_CHOOSE(isa, table) \
  switch (isa) {                  \
    case Isa::kAvx512Dot:         \
    case Isa::kAvx512:            \
      return N_AVX3::table();     \
    case Isa::kAvx2:              \
      return N_AVX2::table();     \
    case Isa::kScalar:            \
      return N_SCALAR::table();   \
  }                               \
  CHECK(false)
