// Names and seeds that nobody can guess.
#pragma once

#include <cstdint>
#include <string>

namespace kvasir {

std::string random_hex(int bits);  // a multiple of 32
std::uint64_t random_seed();

}  // namespace kvasir
