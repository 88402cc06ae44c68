#include "base/hash.h"

#include <gtest/gtest.h>
#include <sodium.h>

#include <array>
#include <bit>
#include <numeric>
#include <set>
#include <vector>

namespace kvasir {
namespace {

Key256 counting() {
  Key256 key;
  std::iota(key.bytes.begin(), key.bytes.end(), std::uint8_t{0});
  return key;
}

Key256 sodium(const Key256& secret, std::string_view text) {
  Key256 out;
  crypto_generichash(out.bytes.data(), 32, reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                     secret.bytes.data(), 32);
  return out;
}

Key256 hash_of(const Key256& secret, std::vector<std::string_view> parts) { return keyed_hash(secret, parts); }

std::string length_of(std::string_view part) {
  std::string out(8, '\0');
  out[0] = static_cast<char>(part.size());
  return out;
}

TEST(Hash, OnePartIsPlainKeyedBlake2b) {
  std::string text;
  for (int size = 0; size < 300; ++size, text += static_cast<char>(size)) {
    EXPECT_EQ(hash_of(counting(), {text}), sodium(counting(), text)) << size;
  }
}

// From an independent implementation: Python's hashlib.blake2b(digest_size=32, key=bytes(range(32))).
TEST(Hash, KnownVectors) {
  EXPECT_EQ(hash_of(counting(), {""}).hex(), "4e51e7a913fc80137da52880fecca175bf81e117d5c68126dc2774033517ea0d");
  EXPECT_EQ(hash_of(counting(), {"abc"}).hex(), "d63a32d3e44738d7907f964316c241adaba0abfeabc32349677578a15a203f7f");
  EXPECT_EQ(hash_of({}, {"abc"}).hex(), "bad705ff155af631f38dc6cafdda827a31595c802f3ff585c10691c58944d89b");
}

TEST(Hash, ManyPartsAreTheirLengthsAndTheirBytes) {
  const std::string expected = length_of("ab") + "ab" + length_of("c") + "c" + length_of("");
  EXPECT_EQ(hash_of(counting(), {"ab", "c", ""}), sodium(counting(), expected));
}

TEST(Hash, PartsDoNotRunIntoEachOther) {
  const std::set<Key256> all{hash_of({}, {"ab", "c"}),     hash_of({}, {"a", "bc"}), hash_of({}, {"abc", ""}),
                             hash_of({}, {"", "abc"}),     hash_of({}, {"abc"}),     hash_of({}, {"ab", "c", ""}),
                             hash_of({}, {"a", "b", "c"}), hash_of({}, {"", ""}),    hash_of({}, {""})};
  EXPECT_EQ(all.size(), 9U);
}

TEST(Hash, AChainIsTheParentAndTheTokens) {
  const std::vector<std::int32_t> tokens{1, -2, 1 << 30, 0};
  const Key256 parent = sodium(counting(), "parent");
  std::string bytes(reinterpret_cast<const char*>(parent.bytes.data()), 32);
  bytes.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * 4);
  EXPECT_EQ(chain_hash(counting(), parent, tokens), sodium(counting(), bytes));
}

TEST(Hash, EveryInputOfAChainCounts) {
  const std::vector<std::int32_t> tokens{1, 2, 3};
  std::set<Key256> all{chain_hash({}, {}, tokens), chain_hash({}, {}, std::vector{1, 2}),
                       chain_hash({}, {}, std::vector{1, 2, 4}), chain_hash({}, {}, std::vector{2, 1, 3})};
  for (size_t byte = 0; byte < 32; ++byte) {
    Key256 one;
    one.bytes[byte] = 1;
    all.insert(chain_hash(one, {}, tokens));
    all.insert(chain_hash({}, one, tokens));
  }
  EXPECT_EQ(all.size(), 4U + 64U);
}

TEST(Hash, ContentIsTheSameForTheSameBytesOnly) {
  std::vector<std::byte> bytes(1000, std::byte{7});
  const auto before = content_hash(bytes);
  EXPECT_EQ(content_hash(bytes), before);
  std::set<std::array<std::uint8_t, 16>> all{before};
  for (size_t i = 0; i < bytes.size(); i += 13) {
    bytes[i] = std::byte{8};
    all.insert(content_hash(bytes));
    bytes[i] = std::byte{7};
  }
  EXPECT_EQ(all.size(), 1U + 77U);
}

TEST(Hash, HexIsSixtyFourDigits) {
  EXPECT_EQ(counting().hex(), "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
}

// A bit of any input changes each bit of the result about half the time.
TEST(Mix, EveryInputBitReachesTheWholeResult) {
  constexpr int kTrials = 500;
  for (int input = 0; input < 3; ++input) {
    for (int bit = 0; bit < 64; bit += 7) {
      int flipped = 0;
      for (std::uint64_t i = 0; i < kTrials; ++i) {
        std::array<std::uint64_t, 3> in{i, 3 * i + 1, 7 * i + 5};
        const std::uint64_t before = mix(in[0], in[1], in[2]);
        in[static_cast<size_t>(input)] ^= std::uint64_t{1} << bit;
        flipped += std::popcount(before ^ mix(in[0], in[1], in[2]));
      }
      EXPECT_NEAR(static_cast<double>(flipped) / kTrials, 32.0, 1.5) << input << " " << bit;
    }
  }
}

TEST(Mix, InputsAreNotInterchangeable) {
  const std::set<std::uint64_t> all{mix(1, 2, 3), mix(1, 3, 2), mix(2, 1, 3),
                                    mix(2, 3, 1), mix(3, 1, 2), mix(3, 2, 1)};
  EXPECT_EQ(all.size(), 6U);
}

}  // namespace
}  // namespace kvasir
