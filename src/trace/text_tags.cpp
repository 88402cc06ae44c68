#include "trace/text_tags.h"

#include <array>
#include <bit>
#include <cstring>

namespace kvasir {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr int kDigitBits = 6;

// By character: its digit; -1: none.
constexpr std::array<std::int8_t, 256> digit_values() {
  std::array<std::int8_t, 256> out{};
  out.fill(-1);
  for (size_t i = 0; i < kDigits.size(); ++i)
    out[static_cast<unsigned char>(kDigits[i])] = static_cast<std::int8_t>(i);
  return out;
}
constexpr std::array<std::int8_t, 256> kValues = digit_values();

}  // namespace

SipHash::SipHash(std::uint64_t key0, std::uint64_t key1)
    : a_(key0 ^ 0x736f6d6570736575ULL),
      b_(key1 ^ 0x646f72616e646f6dULL),
      c_(key0 ^ 0x6c7967656e657261ULL),
      d_(key1 ^ 0x7465646279746573ULL) {}

void SipHash::round() {
  a_ += b_;
  b_ = std::rotl(b_, 13) ^ a_;
  a_ = std::rotl(a_, 32);
  c_ += d_;
  d_ = std::rotl(d_, 16) ^ c_;
  a_ += d_;
  d_ = std::rotl(d_, 21) ^ a_;
  c_ += b_;
  b_ = std::rotl(b_, 17) ^ c_;
  c_ = std::rotl(c_, 32);
}

void SipHash::add(std::uint64_t word) {
  d_ ^= word;
  round();
  round();
  a_ ^= word;
}

std::uint64_t SipHash::finish() const {
  SipHash last = *this;
  last.c_ ^= 0xff;
  for (int i = 0; i < 4; ++i) last.round();
  return last.a_ ^ last.b_ ^ last.c_ ^ last.d_;
}

std::string TextTags::of(std::span<const TokenId> tokens, std::string_view space) const {
  const std::array<std::string_view, 1> parts{space};
  const Key256 key = keyed_hash(secret_, parts);
  std::array<std::uint64_t, 2> words{};
  std::memcpy(words.data(), key.bytes.data(), sizeof words);
  SipHash hash(words[0], words[1]);
  std::string out;
  out.reserve(2 * tokens.size());
  for (const TokenId token : tokens) {
    hash.add(static_cast<std::uint32_t>(token));
    const std::uint64_t tag = hash.finish() >> (64 - kTagBits);
    out += kDigits[tag >> kDigitBits];
    out += kDigits[tag & ((1U << kDigitBits) - 1)];
  }
  return out;
}

bool read_tags(std::string_view text, std::vector<TokenId>& tags) {
  if (text.size() % 2 != 0) return false;
  tags.reserve(tags.size() + text.size() / 2);
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = kValues[static_cast<unsigned char>(text[i])];
    const int low = kValues[static_cast<unsigned char>(text[i + 1])];
    if (high < 0 || low < 0) return false;
    tags.push_back((high << kDigitBits) + low);
  }
  return true;
}

}  // namespace kvasir
