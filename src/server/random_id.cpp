#include "server/random_id.h"

#include <fmt/format.h>

#include <random>

namespace kvasir {

std::string random_hex(int bits) {
  std::random_device device;
  std::string out;
  for (int i = 0; i < bits; i += 32) out += fmt::format("{:08x}", device());
  return out;
}

std::uint64_t random_seed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

}  // namespace kvasir
