#include "server/random_id.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <span>

#include "base/check.h"

namespace kvasir {
namespace {

// The system's own, in one call: a request may have a hundred thousand items to name.
void fill(std::span<std::uint32_t> words) { CHECK(getentropy(words.data(), words.size_bytes()) == 0); }

}  // namespace

std::string random_hex(int bits) {
  std::array<std::uint32_t, 8> words{};
  CHECK(bits <= 256);
  const std::span<std::uint32_t> used(words.data(), static_cast<size_t>(bits + 31) / 32);
  fill(used);
  std::string out;
  for (const std::uint32_t word : used) out += fmt::format("{:08x}", word);
  return out;
}

std::uint64_t random_seed() {
  std::array<std::uint32_t, 2> words{};
  fill(words);
  return (std::uint64_t{words[0]} << 32) | words[1];
}

}  // namespace kvasir
