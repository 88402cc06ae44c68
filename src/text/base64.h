// Bytes as text, as tokenizer.json has its tables.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvasir {

std::string encode_base64(std::string_view bytes);  // with '=' at its end

// nullopt for what is not base64, with or without '=' at its end.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace kvasir
