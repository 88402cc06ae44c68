// Instruction sets the cpu backend has kernels for.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace kvasir {

// avx512dot is avx512 with those dot products of bf16 (BF16) and bytes (VNNI) that the machine has.
enum class Isa : std::uint8_t { kScalar, kAvx2, kAvx512, kAvx512Dot };

bool has_bf16_dots();  // this machine, in avx512dot
bool has_int8_dots();

std::string_view name_of(Isa isa);

// Those this machine can run, the fastest last. Never empty: scalar always works.
std::vector<Isa> available_isas();

// "auto" is the fastest here. Throws Error on an unknown name, or on one this machine does not have.
Isa parse_isa(std::string_view name);

}  // namespace kvasir
