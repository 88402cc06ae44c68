#include "text/pieces.h"

#include <fmt/format.h>

#include <charconv>

namespace kvasir {

std::string byte_piece(unsigned char byte) { return fmt::format("<0x{:02X}>", byte); }

std::optional<unsigned char> byte_of_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || !piece.ends_with('>')) return std::nullopt;
  unsigned char byte = 0;
  const auto [end, error] = std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16);
  if (error != std::errc() || end != piece.data() + 5) return std::nullopt;
  return byte;
}

std::string unmark_spaces(std::string_view piece) {
  std::string out;
  out.reserve(piece.size());
  for (size_t at = 0; at < piece.size();) {
    if (piece.substr(at).starts_with(kSpaceMark)) {
      out += ' ';
      at += kSpaceMark.size();
    } else {
      out += piece[at++];
    }
  }
  return out;
}

}  // namespace kvasir
