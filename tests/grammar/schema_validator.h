// A JSON Schema validator for tests: straight from the specification (draft 2020-12), over parsed values, sharing no
// code with src/grammar.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace kvasir::grammar::testing {

using Json = nlohmann::ordered_json;

// Empty when `value` satisfies `schema`, else why not. `root` is what $ref looks into.
std::string why_invalid(const Json& value, const Json& schema, const Json& root);

}  // namespace kvasir::grammar::testing
