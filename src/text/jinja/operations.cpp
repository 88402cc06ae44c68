#include "text/jinja/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/jinja/format_text.h"
#include "text/jinja/function.h"
#include "text/utf8.h"

namespace kvasir::jinja {
namespace {

[[noreturn]] void no_operation(Runtime& runtime, std::string_view op, const Value& left, const Value& right) {
  runtime.fail(fmt::format("'{}' is not defined for a {} and a {}", op, left.type_name(), right.type_name()));
}

// The result of an operation that __builtin_…_overflow made.
struct Checked {
  std::int64_t value = 0;
  bool overflow = false;
};

Checked plus(std::int64_t a, std::int64_t b) {
  Checked result;
  result.overflow = __builtin_add_overflow(a, b, &result.value);
  return result;
}

Checked minus(std::int64_t a, std::int64_t b) {
  Checked result;
  result.overflow = __builtin_sub_overflow(a, b, &result.value);
  return result;
}

Checked times(std::int64_t a, std::int64_t b) {
  Checked result;
  result.overflow = __builtin_mul_overflow(a, b, &result.value);
  return result;
}

Value integer(Runtime& runtime, Checked result) {
  if (result.overflow) runtime.fail("a whole number grows beyond 64 bits");
  return Value::integer(result.value);
}

Value integer_power(Runtime& runtime, std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return Value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  Checked result{1, false};
  Checked square{base, false};
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) {
      result = square.overflow ? square : times(result.value, square.value);
      if (result.overflow) break;
    }
    if (!square.overflow) square = times(square.value, square.value);
  }
  return integer(runtime, result);
}

Value integer_operation(Runtime& runtime, std::string_view op, std::int64_t a, std::int64_t b) {
  if (op == "+") return integer(runtime, plus(a, b));
  if (op == "-") return integer(runtime, minus(a, b));
  if (op == "*") return integer(runtime, times(a, b));
  if (op == "**") return integer_power(runtime, a, b);
  if (b == 0) runtime.fail("division by zero");
  if (op == "/") return Value::real(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1) return op == "//" ? integer(runtime, minus(0, a)) : Value::integer(0);
  // Python rounds towards minus infinity, C++ towards zero.
  const bool adjust = a % b != 0 && (a < 0) != (b < 0);
  return Value::integer(op == "//" ? a / b - (adjust ? 1 : 0) : a % b + (adjust ? b : 0));
}

Value real_operation(Runtime& runtime, std::string_view op, double a, double b) {
  if (op == "+") return Value::real(a + b);
  if (op == "-") return Value::real(a - b);
  if (op == "*") return Value::real(a * b);
  if (op == "**") return Value::real(std::pow(a, b));
  if (b == 0) runtime.fail("division by zero");
  if (op == "/") return Value::real(a / b);
  if (op == "//") return Value::real(std::floor(a / b));
  const double rest = std::fmod(a, b);
  return Value::real(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

Value join(Runtime& runtime, const Value& left, const Value& right) {
  if (left.as_string() != nullptr && right.as_string() != nullptr) {
    const bool markup = left.as_string()->is_markup() || right.as_string()->is_markup();
    MarkedString text = markup ? escaped(*left.as_string()) : *left.as_string();
    text.append(markup ? escaped(*right.as_string()) : *right.as_string());
    return runtime.string(std::move(text));
  }
  const List* first = left.as_list();
  const List* second = right.as_list();
  if (first == nullptr || second == nullptr || first->kind != second->kind || first->kind == List::Kind::kGenerator) {
    no_operation(runtime, "+", left, right);
  }
  std::vector<Value> items = first->items;
  items.insert(items.end(), second->items.begin(), second->items.end());
  return runtime.list(std::move(items), first->kind);
}

Value repeat(Runtime& runtime, const Value& what, std::int64_t times) {
  const auto count = static_cast<size_t>(std::max<std::int64_t>(times, 0));
  const auto pay = [&](size_t bytes) {
    size_t total = 0;
    if (__builtin_mul_overflow(count, bytes, &total)) runtime.fail("a repetition is too long");
    runtime.build(total);
  };
  if (const MarkedString* text = what.as_string()) {
    pay(text->size() + 1);
    MarkedString out;
    for (size_t i = 0; i < count; ++i) out.append(*text);
    return runtime.string(out.as_markup(text->is_markup()));
  }
  const List* list = what.as_list();
  pay((list->items.size() + 1) * sizeof(Value));
  std::vector<Value> items;
  for (size_t i = 0; i < count; ++i) items.insert(items.end(), list->items.begin(), list->items.end());
  return runtime.list(std::move(items), list->kind);
}

bool repeats(const Value& value) {
  return value.as_string() != nullptr ||
         (value.as_list() != nullptr && value.as_list()->kind != List::Kind::kGenerator);
}

Value loop_attribute(const LoopState& loop, std::string_view name) {
  const auto index = static_cast<std::int64_t>(loop.index);
  const auto size = static_cast<std::int64_t>(loop.items->items.size());
  if (name == "index") return Value::integer(index + 1);
  if (name == "index0") return Value::integer(index);
  if (name == "revindex") return Value::integer(size - index);
  if (name == "revindex0") return Value::integer(size - index - 1);
  if (name == "first") return Value::boolean(index == 0);
  if (name == "last") return Value::boolean(index + 1 == size);
  if (name == "length") return Value::integer(size);
  if (name == "previtem") return index == 0 ? Value() : loop.items->items[loop.index - 1];
  if (name == "nextitem") return index + 1 == size ? Value() : loop.items->items[loop.index + 1];
  if (name == "depth") return Value::integer(loop.depth + 1);
  if (name == "depth0") return Value::integer(loop.depth);
  return {};
}

// The place of a possibly negative index; nullopt outside.
std::optional<size_t> place(std::int64_t index, size_t size) {
  if (index < 0) index += static_cast<std::int64_t>(size);
  if (index < 0 || index >= static_cast<std::int64_t>(size)) return std::nullopt;
  return static_cast<size_t>(index);
}

Value indexed(Runtime& runtime, const Value& object, std::int64_t index) {
  if (const List* list = object.as_list(); list != nullptr && list->kind != List::Kind::kGenerator) {
    const std::optional<size_t> at = place(index, list->items.size());
    return at ? list->items[*at] : Value();
  }
  if (const MarkedString* text = object.as_string()) {
    runtime.build(text->size() * sizeof(size_t));
    const std::vector<size_t> starts = character_starts(text->text());
    const std::optional<size_t> at = place(index, starts.size() - 1);
    return at ? runtime.string(text->slice({starts[*at], starts[*at + 1]})) : Value();
  }
  return {};
}

// The indices that a slice of `size` items takes, as Python counts them.
std::vector<size_t> slice_indices(Runtime& runtime, const Slice& slice, std::int64_t size) {
  const std::int64_t step = slice.step.value_or(1);
  if (step == 0) runtime.fail("a slice cannot have the step 0");
  const std::int64_t low = step > 0 ? 0 : -1;
  const std::int64_t high = step > 0 ? size : size - 1;
  const auto clamp = [&](std::int64_t at) { return std::clamp(at < 0 ? at + size : at, low, high); };
  const std::int64_t start = slice.start ? clamp(*slice.start) : (step > 0 ? 0 : size - 1);
  const std::int64_t stop = slice.stop ? clamp(*slice.stop) : (step > 0 ? size : -1);
  std::vector<size_t> indices;
  for (std::int64_t at = start; step > 0 ? at < stop : at > stop;) {
    indices.push_back(static_cast<size_t>(at));
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return indices;
}

}  // namespace

Value binary_operation(Runtime& runtime, std::string_view op, const Value& left, const Value& right) {
  if (left.as_integer() && right.as_integer())
    return integer_operation(runtime, op, *left.as_integer(), *right.as_integer());
  if (left.is_number() && right.is_number()) return real_operation(runtime, op, left.as_real(), right.as_real());
  if (op == "%" && left.as_string() != nullptr)
    return runtime.string(percent_format(runtime, *left.as_string(), right));
  if (op == "+") return join(runtime, left, right);
  if (op == "*" && repeats(left) && right.as_integer()) return repeat(runtime, left, *right.as_integer());
  if (op == "*" && repeats(right) && left.as_integer()) return repeat(runtime, right, *left.as_integer());
  no_operation(runtime, op, left, right);
}

Value unary_operation(Runtime& runtime, std::string_view op, const Value& operand) {
  if (op == "not") return Value::boolean(!truthy(operand));
  if (!operand.is_number()) runtime.fail(fmt::format("'{}' is not defined for a {}", op, operand.type_name()));
  if (operand.is_real()) return Value::real(op == "-" ? -operand.as_real() : operand.as_real());
  return integer_operation(runtime, op, 0, *operand.as_integer());
}

Value get_attribute(Runtime& /*runtime*/, const Value& object, std::string_view name) {
  if (Namespace* space = object.as_space()) {
    const Value* found = space->find(name);
    return found == nullptr ? Value() : *found;
  }
  if (const LoopState* loop = object.as_loop()) {
    Value found = loop_attribute(*loop, name);
    return found.is_undefined() ? find_method(object, name) : found;
  }
  Value method = find_method(object, name);
  if (!method.is_undefined()) return method;
  if (const List* list = object.as_list(); list != nullptr && list->named) {
    if (name == "grouper") return list->items[0];
    if (name == "list") return list->items[1];
  }
  if (const Function* function = object.as_function(); function != nullptr && function->state != nullptr) {
    const List* items = function->self.as_list();
    if (name == "current" && items != nullptr) return items->items[*function->state];
  }
  if (const Dict* dict = object.as_dict()) {
    const Value* found = dict->find(name);
    if (found != nullptr) return *found;
  }
  return {};
}

Value get_item(Runtime& runtime, const Value& object, const Value& key) {
  if (const Dict* dict = object.as_dict()) {
    if (const Value* found = dict->find(key)) return *found;
  }
  if (const MarkedString* name = key.as_string()) return get_attribute(runtime, object, name->text());
  if (const auto index = key.as_integer()) return indexed(runtime, object, *index);
  return {};
}

Value get_slice(Runtime& runtime, const Value& object, const Slice& slice) {
  if (const List* list = object.as_list(); list != nullptr && list->kind != List::Kind::kGenerator) {
    runtime.build(list->items.size() * sizeof(size_t));
    std::vector<Value> items;
    for (const size_t at : slice_indices(runtime, slice, static_cast<std::int64_t>(list->items.size()))) {
      items.push_back(list->items[at]);
    }
    return runtime.list(std::move(items), list->kind);
  }
  const MarkedString* text = object.as_string();
  if (text == nullptr) runtime.fail(fmt::format("a {} cannot be sliced", object.type_name()));
  runtime.build(text->size() * 2 * sizeof(size_t));
  const std::vector<size_t> starts = character_starts(text->text());
  const std::vector<size_t> indices = slice_indices(runtime, slice, static_cast<std::int64_t>(starts.size() - 1));
  if (indices.empty()) return Value::literal("");
  if (slice.step.value_or(1) == 1) {
    return runtime.string(text->slice({starts[indices.front()], starts[indices.back() + 1]}));
  }
  MarkedString out;
  for (const size_t at : indices) out.append_range(*text, {starts[at], starts[at + 1]});
  return runtime.string(out.as_markup(text->is_markup()));
}

std::int64_t length_of(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) return 0;
  if (const MarkedString* text = value.as_string()) return static_cast<std::int64_t>(character_count(text->text()));
  if (const Dict* dict = value.as_dict()) return static_cast<std::int64_t>(dict->items.size());
  const List* list = value.as_list();
  if (list == nullptr || list->kind == List::Kind::kGenerator) {
    runtime.fail(fmt::format("a {} has no length", value.type_name()));
  }
  return static_cast<std::int64_t>(list->items.size());
}

}  // namespace kvasir::jinja
