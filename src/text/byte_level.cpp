#include "text/byte_level.h"

#include <array>
#include <cstdint>

#include "text/utf8.h"

namespace kvasir {
namespace {

constexpr char32_t kFirstStandIn = 0x100;  // bytes that are not printable Latin-1 get characters from here on

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> make_chars() {
  std::array<char32_t, 256> chars{};
  char32_t next = kFirstStandIn;
  for (unsigned byte = 0; byte < 256; ++byte) chars[byte] = stands_for_itself(byte) ? byte : next++;
  return chars;
}

constexpr std::array<char32_t, 256> kChars = make_chars();
constexpr size_t kCodes = kFirstStandIn + 256 - 188;  // 188 bytes stand for themselves

constexpr std::array<std::int16_t, kCodes> make_bytes() {
  std::array<std::int16_t, kCodes> bytes{};
  for (auto& byte : bytes) byte = -1;
  for (unsigned byte = 0; byte < 256; ++byte) bytes[kChars[byte]] = static_cast<std::int16_t>(byte);
  return bytes;
}

constexpr std::array<std::int16_t, kCodes> kBytes = make_bytes();

}  // namespace

char32_t byte_to_char(unsigned char byte) { return kChars[byte]; }

std::string spell_bytes(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) append_utf8(out, byte_to_char(static_cast<unsigned char>(c)));
  return out;
}

std::optional<std::string> unspell_bytes(std::string_view spelled) {
  std::string out;
  for (size_t at = 0; at < spelled.size();) {
    const Utf8Char c = utf8_at(spelled, at);
    if (c.kind != Utf8Char::Kind::kWhole || c.code >= kCodes || kBytes[c.code] < 0) return std::nullopt;
    out += static_cast<char>(static_cast<unsigned char>(kBytes[c.code]));
    at += static_cast<size_t>(c.size);
  }
  return out;
}

}  // namespace kvasir
