// A parsed template. Built by the parser, never changed again, shared by all renders.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace kvasir::jinja {

struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<const Expr>;
using Body = std::vector<Stmt>;

// Expressions nest no deeper than this, statements neither: what walks the tree may recurse.
inline constexpr int kMaxTreeDepth = 120;

struct Expr {
  enum class Kind : std::uint8_t {
    kLiteral,    // literal
    kName,       // name
    kList,       // kids
    kTuple,      // kids
    kDict,       // kids: key, value, key, value …
    kUnary,      // name: "+", "-", "not"; kids: operand
    kBinary,     // name: the operator; kids: left, right
    kConcat,     // kids, joined by ~
    kCompare,    // kids[0] operators[0] kids[1] operators[1] kids[2] …
    kAnd,        // kids: left, right
    kOr,         // kids: left, right
    kCondition,  // kids: test, then, otherwise (may be null)
    kAttribute,  // name; kids: object
    kItem,       // kids: object, key
    kSlice,      // kids: object, start, stop, step; the last three may be null
    kCall,       // kids: callee, arguments …; named
    kFilter,     // name; kids: input, arguments …; named
    kTest,       // name; kids: input, arguments …; named
  };

  Kind kind = Kind::kLiteral;
  int line = 0;
  int depth = 1;
  std::string name;
  Value literal;
  std::vector<ExprPtr> kids;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr rest;        // of a call: *rest
  ExprPtr named_rest;  // of a call: **named_rest
  std::vector<std::string> operators;
};

// What set and for assign to: a variable, or an attribute of a namespace.
struct Target {
  std::string name;
  std::string attribute{};       // empty: the variable itself
  std::vector<Target> inside{};  // several in brackets; no name then
};

struct Parameter {
  std::string name;
  ExprPtr standard;  // the default; null: none
};

struct Stmt {
  enum class Kind : std::uint8_t {
    kText,         // literal
    kOutput,       // exprs[0]
    kIf,           // exprs[i] ? bodies[i]; one body more is the else
    kFor,          // targets, exprs[0]: iterable, exprs[1]: filter or null, bodies[0], bodies[1]: else; recursive
    kSet,          // targets, exprs[0]
    kSetBlock,     // targets[0], bodies[0]
    kMacro,        // name, parameters, bodies[0]
    kCallBlock,    // parameters of caller, exprs[0]: a call, bodies[0]
    kFilterBlock,  // exprs[0]: a filter whose input is null, bodies[0]
    kWith,         // targets[i] = exprs[i], bodies[0]
    kGroup,        // bodies[0], as it is
    kBreak,
    kContinue,
  };

  Kind kind = Kind::kText;
  int line = 0;
  std::string name;
  Value literal;
  std::vector<Target> targets;
  std::vector<ExprPtr> exprs;
  std::vector<Parameter> parameters;
  std::vector<Body> bodies;
  bool recursive = false;
  // Of a macro: which names of what it was not asked for it uses.
  struct Extras {
    bool varargs = false;
    bool kwargs = false;
    bool caller = false;
  };
  Extras extras;
};

struct Template {
  std::string where;
  Body body;
};

}  // namespace kvasir::jinja
