// The values of JSON Schema's "format" that are understood, as patterns and ranges.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace kvasir::grammar {

// nullopt for a format that is not known; empty for one that says nothing about the text, such as "password". Each
// pattern matches texts of its format only, and the usual ones of them: an ipv6 is written in full, an email is a
// plain one, a uri has a host.
std::optional<std::string> pattern_of_format(std::string_view format);

// OpenAPI's formats of numbers: the least and the greatest, as JSON; empty where there is no limit.
struct NumberFormat {
  std::string least, most;
};
std::optional<NumberFormat> number_format(std::string_view format);

}  // namespace kvasir::grammar
