#include "backend/weight_quantization.h"

#include <fmt/format.h>

#include "base/error.h"

namespace kvasir {

std::string_view name_of(WeightQuantization form) {
  return form == WeightQuantization::kInt8 ? "int8" : form == WeightQuantization::kFp8 ? "fp8" : "as-stored";
}

WeightQuantization parse_weight_quantization(std::string_view name) {
  for (const WeightQuantization form :
       {WeightQuantization::kAsStored, WeightQuantization::kInt8, WeightQuantization::kFp8}) {
    if (name_of(form) == name) return form;
  }
  fail_usage(fmt::format("weights cannot be made '{}' as they are loaded", name), "--weights",
             "use as-stored, int8 or fp8");
}

}  // namespace kvasir
