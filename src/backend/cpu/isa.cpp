#include "backend/cpu/isa.h"

#include <fmt/format.h>
#include <hwy/targets.h>

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/error.h"

namespace kvasir {

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Dot:
      return "avx512dot";
  }
  CHECK(false);
}

bool has_bf16_dots() { return __builtin_cpu_supports("avx512bf16") != 0; }
bool has_int8_dots() { return (hwy::SupportedTargets() & HWY_AVX3_DL) != 0; }

std::vector<Isa> available_isas() {
  std::vector<Isa> out{Isa::kScalar};
  const std::int64_t targets = hwy::SupportedTargets();
  if (targets & HWY_AVX2) out.push_back(Isa::kAvx2);
  if (targets & HWY_AVX3) out.push_back(Isa::kAvx512);
  if ((targets & HWY_AVX3) && (has_bf16_dots() || has_int8_dots())) out.push_back(Isa::kAvx512Dot);
  return out;
}

Isa parse_isa(std::string_view name) {
  const std::vector<Isa> available = available_isas();
  if (name == "auto") return available.back();
  std::string known;
  for (const Isa isa : available) {
    if (name_of(isa) == name) return isa;
    known += fmt::format(", {}", name_of(isa));
  }
  fail_usage(fmt::format("this machine has no instruction set '{}'", name), "--isa", "use auto" + known);
}

}  // namespace kvasir
