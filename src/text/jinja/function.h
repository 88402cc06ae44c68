// What a template can call: macros, the built-in functions, and methods bound to a value.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace kvasir::jinja {

struct Scope;
struct Stmt;
class Runtime;

struct Arguments {
  std::vector<Value> plain;
  std::vector<std::pair<std::string, Value>> named;

  // One value for each name: from the plain arguments in order, then from the named; undefined where none is
  // given. Throws Error for arguments that have no place.
  std::vector<Value> bind(Runtime& runtime, std::initializer_list<std::string_view> names) const;
};

struct Function {
  enum class Kind : std::uint8_t {
    kBuiltin,  // name
    kMethod,   // name, of self
    kMacro,    // definition
    kJoiner,   // self: the separator; state
    kCycler,   // self: a list; state
  };

  Kind kind = Kind::kBuiltin;
  std::string name;
  Value self;
  const Stmt* definition = nullptr;  // a macro, or the call block that caller() runs
  std::weak_ptr<Scope> defined_in;   // weak: the scope holds the macro
  std::shared_ptr<size_t> state{};   // how often a joiner was called, where a cycler is
};

// The methods of strings, dicts and lists. Undefined when the value has no method of that name.
Value find_method(const Value& self, std::string_view name);
Value call_method(Runtime& runtime, const Function& method, const Arguments& arguments);

// range, namespace, dict, cycler, joiner, raise_exception, strftime_now. Undefined for other names.
Value find_builtin(std::string_view name);
Value call_builtin(Runtime& runtime, const Function& function, const Arguments& arguments);

bool has_filter(std::string_view name);
bool has_test(std::string_view name);
// Throw Error for a name they do not know.
Value apply_filter(Runtime& runtime, std::string_view name, const Value& input, const Arguments& arguments);
bool apply_test(Runtime& runtime, std::string_view name, const Value& input, const Arguments& arguments);

}  // namespace kvasir::jinja
