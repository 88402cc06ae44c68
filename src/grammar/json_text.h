// Pieces of JSON text, built: what json_schema.cpp puts together.
#pragma once

#include <string>

#include "grammar/builder.h"
#include "grammar/language.h"

namespace kvasir::grammar {

// White space between tokens: one space, or one line break and an indentation of up to this many spaces and tabs. A
// model can lay out its answer, and spends at most a few tokens on white space at any place, however fond of it.
inline constexpr int kMaxIndentation = 16;
void build_white_space_rule(GrammarBuilder& builder, RuleId rule);

// Before the first token there is nothing to indent: nothing, one space or one line break.
NodeId build_leading_space(GrammarBuilder& builder, NodeId from);

// A string with its quotes, of so many characters, with any escapes that JSON has. Always valid: UTF-8 without gaps,
// surrogates only in pairs.
NodeId build_string(GrammarBuilder& builder, NodeId from, LengthLimits length);

// Any number. The digits are bounded, and so is the exponent, so that the value is a finite double.
NodeId build_number(GrammarBuilder& builder, NodeId from);

// How values may be spelled: equal ones differently, or in one way only.
enum class Spelling : std::uint8_t { kFree, kOneWay };

// An object's key, its colon and, where spelling is free, an optional space.
NodeId build_key(GrammarBuilder& builder, NodeId from, const std::string& name, Spelling spelling);

// The same for any key of a language, each of them spelled one way: none comes in disguise.
NodeId build_key(GrammarBuilder& builder, NodeId from, const Language& names, Spelling spelling);

}  // namespace kvasir::grammar
