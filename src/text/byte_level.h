// The byte-level alphabet of GPT-2: every byte has one printable character, and tokenizer.json spells its
// tokens in those ("Ġthe" is " the").
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvasir {

// The character that stands for a byte: U+0021…U+017F.
char32_t byte_to_char(unsigned char byte);

// "Ġthe" for " the".
std::string spell_bytes(std::string_view bytes);

// " the" for "Ġthe"; nullopt when some character stands for no byte.
std::optional<std::string> unspell_bytes(std::string_view spelled);

}  // namespace kvasir
