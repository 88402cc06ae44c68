// Names of content. BLAKE2b-256 (keyed) where a name must be unforgeable, XXH3-128 where bytes must be recognised
// fast.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace kvasir {

// A 256-bit name. Equal names mean equal content, up to the strength of BLAKE2b.
struct Key256 {
  std::array<std::uint8_t, 32> bytes{};

  friend bool operator==(const Key256&, const Key256&) = default;
  friend auto operator<=>(const Key256&, const Key256&) = default;
  std::string hex() const;
};

// The bytes are already uniform: any eight of them are a hash.
struct Key256Hash {
  size_t operator()(const Key256& key) const {
    std::uint64_t word = 0;
    std::memcpy(&word, key.bytes.data(), sizeof word);
    return word;
  }
};

// BLAKE2b-256 of `parts` one after the other, each preceded by its length unless it is the only one, under `secret`.
Key256 keyed_hash(const Key256& secret, std::span<const std::string_view> parts);

// BLAKE2b-256 of (parent, tokens) under `secret`: the one hash on the path of every lookup.
Key256 chain_hash(const Key256& secret, const Key256& parent, std::span<const std::int32_t> tokens);

// XXH3-128 of the bytes, as 16 bytes of text fit for keyed_hash: for weights, which no stranger chooses.
std::array<std::uint8_t, 16> content_hash(std::span<const std::byte> bytes);

// A well-mixed 64-bit value of three inputs; the source of sampling noise.
std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c);

}  // namespace kvasir
