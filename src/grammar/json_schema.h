// From a JSON Schema to a Grammar of the JSON texts that satisfy it.
//
// Sound: every text of the grammar is valid JSON and satisfies the schema, without exception. What the schema says
// and we do not understand, or cannot hold a text to, gives an Error with its path, never a laxer grammar. Not all
// texts that satisfy the schema are in the grammar: properties come in the schema's order, objects whose schema names
// properties have no others unless additionalProperties says so, white space is bounded, and numbers and enum values
// are written one way. docs/structured-output.md has the whole list.
#pragma once

#include <memory>
#include <string_view>

#include "grammar/grammar.h"

namespace kvasir::grammar {

// Throws Error for a schema that is damaged, not supported, too large, or satisfied by nothing. Takes time and memory
// within bounds for any text: see BuildLimits and the limits in the implementation.
std::shared_ptr<const Grammar> compile_json_schema(std::string_view schema);

// JSON mode: any JSON object.
std::shared_ptr<const Grammar> any_json_object();

}  // namespace kvasir::grammar
