// A product with weights in 8 bits (weight_form.h), as kernels see it.
#pragma once

#include "backend/cuda/product.h"
#include "backend/weight_form.h"

namespace kvasir::cuda {

// The sums of product.h over codes, which are bf16 numbers like any others; the finished sum is multiplied by its
// output's scale, and the bias is added to that. So it does not matter whether a kernel widens codes on their way to
// the tensor cores or they are widened in memory before.
// Invariants: of.w holds codes as code_layout.h says (ld_w means nothing), of.number is kBF16.
struct CodedProduct {
  Product of;
  const float* scales = nullptr;  // [outputs]
  WeightForm form = WeightForm::kInt8;
};

}  // namespace kvasir::cuda
