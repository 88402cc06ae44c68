#include "backend/weight_form.h"

#include <fmt/format.h>

#include "base/error.h"

namespace kvasir {

std::string_view name_of(WeightForm form) {
  return form == WeightForm::kInt8 ? "int8" : form == WeightForm::kFp8 ? "fp8" : "as-stored";
}

WeightForm parse_weight_form(std::string_view name) {
  for (const WeightForm form : {WeightForm::kAsStored, WeightForm::kInt8, WeightForm::kFp8}) {
    if (name_of(form) == name) return form;
  }
  fail_usage(fmt::format("weights cannot be made '{}' as they are loaded", name), "--weights",
             "use as-stored, int8 or fp8");
}

}  // namespace kvasir
