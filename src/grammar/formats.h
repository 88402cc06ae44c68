// The values of JSON Schema's "format" that are understood, as patterns.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvasir::grammar {

// nullopt for a format that is not known. Each pattern matches texts of its format only, and most of them: an ipv6 is
// written in full, an email is a plain one.
std::optional<std::string> pattern_of_format(std::string_view format);

}  // namespace kvasir::grammar
