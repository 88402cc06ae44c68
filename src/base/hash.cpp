#include "base/hash.h"

#include <fmt/format.h>
#include <sodium.h>
#include <xxhash.h>

#include "base/check.h"
#include "base/mix.h"

namespace kvasir {

std::string Key256::hex() const {
  std::string out;
  for (const std::uint8_t byte : bytes) out += fmt::format("{:02x}", byte);
  return out;
}

Key256 keyed_hash(const Key256& secret, std::span<const std::string_view> parts) {
  crypto_generichash_state state;
  Key256 out;
  CHECK(crypto_generichash_init(&state, secret.bytes.data(), secret.bytes.size(), out.bytes.size()) == 0);
  for (const std::string_view part : parts) {
    const std::uint64_t size = part.size();
    if (parts.size() > 1) {
      crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(&size), sizeof size);
    }
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(part.data()), part.size());
  }
  crypto_generichash_final(&state, out.bytes.data(), out.bytes.size());
  return out;
}

Key256 chain_hash(const Key256& secret, const Key256& parent, std::span<const std::int32_t> tokens) {
  crypto_generichash_state state;
  Key256 out;
  CHECK(crypto_generichash_init(&state, secret.bytes.data(), secret.bytes.size(), out.bytes.size()) == 0);
  crypto_generichash_update(&state, parent.bytes.data(), parent.bytes.size());
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(tokens.data()), tokens.size_bytes());
  crypto_generichash_final(&state, out.bytes.data(), out.bytes.size());
  return out;
}

std::array<std::uint8_t, 16> content_hash(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  std::array<std::uint8_t, 16> out{};
  std::memcpy(out.data(), &hash.low64, 8);
  std::memcpy(out.data() + 8, &hash.high64, 8);
  return out;
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c) { return mixed(a, b, c); }

}  // namespace kvasir
