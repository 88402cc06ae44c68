// Pieces of JSON text, drawn: what json_schema.cpp puts together.
#pragma once

#include <span>
#include <string>

#include "grammar/builder.h"
#include "grammar/regex.h"

namespace kvasir::grammar {

// Optional white space between tokens: nothing, one space, or one line break and an indentation of up to this many
// spaces and tabs. A model can lay out its answer, and cannot be caught in endless white space.
inline constexpr int kMaxIndentation = 32;
void draw_white_space_rule(GrammarBuilder& builder, RuleId rule);

// A string with its quotes, of so many characters, with any escapes that JSON has. Always valid: UTF-8 without gaps,
// surrogates only in pairs.
NodeId draw_string(GrammarBuilder& builder, NodeId from, LengthLimits length);

// Any number. The digits are bounded, and so is the exponent, so that the value is a finite double.
NodeId draw_number(GrammarBuilder& builder, NodeId from);

// An object's key, its colon and an optional space.
NodeId draw_key(GrammarBuilder& builder, NodeId from, const std::string& name);

// The same for any key but those named. Without escapes, so that none of those can come in disguise.
NodeId draw_other_key(GrammarBuilder& builder, NodeId from, std::span<const std::string> names);

}  // namespace kvasir::grammar
