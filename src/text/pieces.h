// How SentencePiece vocabularies spell their tokens: "▁" for a space, "<0x0A>" for a byte that is a token of its own.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvasir {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

// "<0x0A>" for the byte 10.
std::string byte_piece(unsigned char byte);

// The byte of such a piece, in capitals or not; nullopt for any other.
std::optional<unsigned char> byte_of_piece(std::string_view piece);

// " the" for "▁the": every mark becomes a space.
std::string unmark_spaces(std::string_view piece);

}  // namespace kvasir
