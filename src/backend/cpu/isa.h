// Instruction sets the cpu backend has kernels for.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace kvasir {

enum class Isa : std::uint8_t { kScalar, kAvx2, kAvx512 };

std::string_view name_of(Isa isa);

// Those this machine can run, the fastest last. Never empty: scalar always works.
std::vector<Isa> available_isas();

// "auto" is the fastest here. Throws Error on an unknown name, or on one this machine does not have.
Isa parse_isa(std::string_view name);

}  // namespace kvasir
