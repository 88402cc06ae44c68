// The keywords of one schema, checked and written one way.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/schema_document.h"

namespace kvasir::grammar {

// Types that do not overlap, which all others are made of: "number" is an integer or a fraction.
inline constexpr std::array<std::string_view, 7> kAtomicTypes{"object",   "array",   "string", "integer",
                                                              "fraction", "boolean", "null"};

// The keywords of `schema` that restrict values, each with a value of the right kind: "type" as a list of atomic
// types, "const" as an "enum", "pattern", "format" and "multipleOf" as lists, numbers' formats as limits, a list
// under "items" as "prefixItems". Keywords that hold for a value what other schemas hold ($ref, allOf, not …) are
// left to the caller, what only describes is dropped. Throws Error for what is not supported or wrong. REQUIRES: an
// object.
Json read_keywords(const Json& schema, const std::string& path);

// The types that a keyword of a flat schema (schema_expansion.h) speaks of; empty for one that speaks of all.
std::vector<std::string_view> types_of_keyword(std::string_view name);

bool is_of_type(const Json& value, std::string_view atomic_type);

bool is_true(const Json& schema);   // allows any value, as far as one sees
bool is_false(const Json& schema);  // allows none

[[noreturn]] void fail_unsupported(const std::string& what, const std::string& path);
[[noreturn]] void fail_schema(const std::string& what, const std::string& path);

}  // namespace kvasir::grammar
