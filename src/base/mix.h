// hash.h's mix(), for where it must be inlined: loops over millions of numbers, and code of devices.
#pragma once

#include <cstdint>

namespace kvasir {

constexpr std::uint64_t mixed(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  // splitmix64's finaliser after each input: every input bit reaches every output bit.
  constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15ULL;
  std::uint64_t x = 0;
  for (int i = 0; i < 3; ++i) {
    x += (i == 0 ? a : i == 1 ? b : c) + kStep;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    x = x ^ (x >> 31);
  }
  return x;
}

}  // namespace kvasir
