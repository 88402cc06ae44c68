#include "text/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvasir::jinja {

double Value::as_real() const {
  if (const auto* real = std::get_if<double>(&value_)) return *real;
  return static_cast<double>(as_integer().value_or(0));
}

std::optional<std::int64_t> Value::as_integer() const {
  if (const auto* integer = std::get_if<std::int64_t>(&value_)) return *integer;
  if (const auto* boolean = std::get_if<bool>(&value_)) return *boolean ? 1 : 0;
  return std::nullopt;
}

std::string_view Value::type_name() const {
  if (is_undefined()) return "undefined";
  if (is_none()) return "None";
  if (is_boolean()) return "bool";
  if (is_integer()) return "int";
  if (is_real()) return "float";
  if (as_string() != nullptr) return "str";
  if (const List* list = as_list()) {
    if (list->kind == List::Kind::kTuple) return "tuple";
    return list->kind == List::Kind::kList ? "list" : "generator";
  }
  if (as_dict() != nullptr) return "dict";
  if (as_space() != nullptr) return "namespace";
  return as_loop() != nullptr ? "loop" : "function";
}

std::optional<std::string> hash_text(const Value& key) {
  if (const MarkedString* text = key.as_string()) return "s" + text->text();
  if (const auto integer = key.as_integer()) return fmt::format("n{}", *integer);
  if (key.is_real()) {
    const double real = key.as_real();
    const bool whole = real == std::floor(real) && std::fabs(real) < 9e15;
    return whole ? fmt::format("n{}", static_cast<std::int64_t>(real)) : fmt::format("n{}", real);
  }
  if (key.is_none()) return "0";
  return std::nullopt;
}

const Value* Dict::find(const Value& key) const {
  const std::optional<std::string> hash = hash_text(key);
  if (!hash) return nullptr;
  const auto found = index.find(*hash);
  return found == index.end() ? nullptr : &items[found->second].second;
}

const Value* Dict::find(std::string_view key) const {
  const auto found = index.find(std::string("s").append(key));
  return found == index.end() ? nullptr : &items[found->second].second;
}

Value* Namespace::find(std::string_view name) {
  const auto found = std::ranges::find(items, name, &std::pair<std::string, Value>::first);
  return found == items.end() ? nullptr : &found->second;
}

void Namespace::set(std::string_view name, Value value) {
  if (Value* found = find(name)) {
    *found = std::move(value);
  } else {
    items.emplace_back(std::string(name), std::move(value));
  }
}

bool truthy(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_number()) return value.as_real() != 0;
  if (const MarkedString* text = value.as_string()) return !text->empty();
  if (const List* list = value.as_list()) return list->kind == List::Kind::kGenerator || !list->items.empty();
  if (const Dict* dict = value.as_dict()) return !dict->items.empty();
  return true;
}

int nesting_of(const Value& value) {
  if (const List* list = value.as_list()) return list->nesting;
  if (const Dict* dict = value.as_dict()) return dict->nesting;
  return 0;
}

}  // namespace kvasir::jinja
