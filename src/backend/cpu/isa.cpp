#include "backend/cpu/isa.h"

#include <cpuid.h>
#include <fmt/format.h>

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

namespace {

// What the kernels for a target are compiled with, here and not from Highway's library: its headers are then all we
// need.
bool has_avx2() {
  unsigned a = 0, b = 0, features = 0, extended = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &features, &d) == 0 || __get_cpuid(0x80000001, &a, &b, &extended, &d) == 0) return false;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && (features & bit_F16C) != 0 && (extended & bit_LZCNT) != 0;
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512vl");
}

}  // namespace

bool has_bf16_dots() { return __builtin_cpu_supports("avx512bf16") != 0; }
bool has_int8_dots() {
  return has_avx512() && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi") &&
         __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512bitalg") &&
         __builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("vpclmulqdq") &&
         __builtin_cpu_supports("gfni");
}

std::vector<Isa> available_isas() {
  std::vector<Isa> out{Isa::kScalar};
  if (has_avx2()) out.push_back(Isa::kAvx2);
  if (has_avx512()) out.push_back(Isa::kAvx512);
  if (has_avx512() && (has_bf16_dots() || has_int8_dots())) out.push_back(Isa::kAvx512Dot);
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
