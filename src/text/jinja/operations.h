// Python's operators and conversions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace kvasir::jinja {

Value binary_operation(Runtime& runtime, std::string_view op, const Value& left, const Value& right);
Value unary_operation(Runtime& runtime, std::string_view op, const Value& operand);

// object.name and object[key], each trying the other as Jinja does. Undefined when there is neither.
Value get_attribute(Runtime& runtime, const Value& object, std::string_view name);
Value get_item(Runtime& runtime, const Value& object, const Value& key);

struct Slice {
  std::optional<std::int64_t> start, stop, step;
};
Value get_slice(Runtime& runtime, const Value& object, const Slice& slice);

std::int64_t length_of(Runtime& runtime, const Value& value);

// str(value), repr(value) and json.dumps(value), which writes other characters than ASCII as they are unless told.
MarkedString to_text(Runtime& runtime, const Value& value);
void append_repr(Runtime& runtime, const Value& value, MarkedString& out);
struct JsonStyle {
  std::optional<std::string> indent;  // of each level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
  bool ascii_only = false;
};
void append_json(Runtime& runtime, const Value& value, const JsonStyle& style, MarkedString& out);

// As Python prints it: the shortest digits that read back the same.
std::string real_text(double value);

}  // namespace kvasir::jinja
