// One schema, flat and checked, and two of them made one.
#pragma once

#include <string>

#include "grammar/schema_expansion.h"

namespace kvasir::grammar {

// The keywords of `schema` that restrict values, in the form that SchemaExpansion promises; $ref, allOf, anyOf and
// oneOf are left to the caller. Throws Error for what is not supported or wrong. REQUIRES: an object.
Json flatten(const Json& schema, const std::string& path);

// The flat schema whose values satisfy both. Throws Error where that is not supported.
Json merge(const Json& left, const Json& right, const std::string& path);

[[noreturn]] void fail_unsupported(const std::string& what, const std::string& path);
[[noreturn]] void fail_schema(const std::string& what, const std::string& path);

}  // namespace kvasir::grammar
