// What a template computes with: Python's values, as far as chat templates use them.
//
// Values are immutable, except namespaces, which belong to the Runtime; so values form no cycles and nest no
// deeper than kMaxNesting, and everything that walks them may recurse.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/marked_string.h"

namespace kvasir::jinja {

class Value;
struct Dict;
struct Function;
struct List;
struct LoopState;
struct Namespace;
struct Scope;
struct Stmt;

struct Undefined {};
struct None {};

using StringPtr = std::shared_ptr<const MarkedString>;
using ListPtr = std::shared_ptr<const List>;
using DictPtr = std::shared_ptr<const Dict>;
using LoopPtr = std::shared_ptr<const LoopState>;
using FunctionPtr = std::shared_ptr<const Function>;

class Value {
 public:
  Value() = default;  // undefined
  static Value none() { return Value(Variant(None{})); }
  static Value boolean(bool value) { return Value(Variant(value)); }
  static Value integer(std::int64_t value) { return Value(Variant(value)); }
  static Value real(double value) { return Value(Variant(value)); }
  static Value string(MarkedString text) {
    return Value(Variant(std::make_shared<const MarkedString>(std::move(text))));
  }
  static Value literal(std::string_view text) { return string(MarkedString(text, Origin::kTemplate)); }
  static Value list(ListPtr list) { return Value(Variant(std::move(list))); }
  static Value dict(DictPtr dict) { return Value(Variant(std::move(dict))); }
  static Value space(Namespace* space) { return Value(Variant(space)); }
  static Value loop(LoopPtr loop) { return Value(Variant(std::move(loop))); }
  static Value function(FunctionPtr function) { return Value(Variant(std::move(function))); }

  bool is_undefined() const { return std::holds_alternative<Undefined>(value_); }
  bool is_none() const { return std::holds_alternative<None>(value_); }
  bool is_boolean() const { return std::holds_alternative<bool>(value_); }
  bool is_integer() const { return std::holds_alternative<std::int64_t>(value_); }
  bool is_real() const { return std::holds_alternative<double>(value_); }
  bool is_number() const { return is_boolean() || is_integer() || is_real(); }  // as in Python, booleans count

  // Null when the value is of another type.
  const MarkedString* as_string() const { return pointer<StringPtr>(); }
  const List* as_list() const { return pointer<ListPtr>(); }
  const Dict* as_dict() const { return pointer<DictPtr>(); }
  const LoopState* as_loop() const { return pointer<LoopPtr>(); }
  const Function* as_function() const { return pointer<FunctionPtr>(); }
  Namespace* as_space() const {
    const auto* found = std::get_if<Namespace*>(&value_);
    return found == nullptr ? nullptr : *found;
  }

  bool as_boolean() const { return std::get<bool>(value_); }
  double as_real() const;                          // REQUIRES: is_number()
  std::optional<std::int64_t> as_integer() const;  // of integers and booleans
  std::string_view type_name() const;              // as Python calls it: "str", "dict"

 private:
  using Variant = std::variant<Undefined, None, bool, std::int64_t, double, StringPtr, ListPtr, DictPtr, Namespace*,
                               LoopPtr, FunctionPtr>;

  explicit Value(Variant value) : value_(std::move(value)) {}

  template <class Pointer>
  auto pointer() const -> decltype(std::declval<Pointer>().get()) {
    const auto* found = std::get_if<Pointer>(&value_);
    return found == nullptr ? nullptr : found->get();
  }

  Variant value_;
};

inline constexpr int kMaxNesting = 100;

struct List {
  // A generator is what Python's lazy filters give: always true, without a length, not printable as a list.
  enum class Kind : std::uint8_t { kList, kTuple, kGenerator };

  std::vector<Value> items;
  Kind kind = Kind::kList;
  int nesting = 1;     // of lists and dicts, itself included
  bool named = false;  // a pair of groupby: its items are also .grouper and .list
};

struct Dict {
  std::vector<std::pair<Value, Value>> items;     // in the order of their insertion
  std::unordered_map<std::string, size_t> index;  // by hash_text of the key
  int nesting = 1;

  const Value* find(const Value& key) const;  // null: no such key
  const Value* find(std::string_view key) const;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> items;

  Value* find(std::string_view name);
  void set(std::string_view name, Value value);
};

struct LoopState {
  ListPtr items;
  size_t index = 0;
  int depth = 0;                                    // of loops that call themselves
  const Stmt* recursive = nullptr;                  // the loop, where it may be called
  std::weak_ptr<Scope> outside{};                   // what is around that loop
  std::shared_ptr<std::optional<Value>> changed{};  // what loop.changed() saw last; of all turns of a loop
};

// A text that is equal exactly for keys that Python holds equal; nullopt for values that cannot be keys.
std::optional<std::string> hash_text(const Value& key);

bool truthy(const Value& value);
int nesting_of(const Value& value);

}  // namespace kvasir::jinja
