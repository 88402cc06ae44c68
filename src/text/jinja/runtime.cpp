#include "text/jinja/runtime.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace kvasir::jinja {

void Runtime::fail(std::string problem, std::string fix) const {
  fail_input(std::move(problem), fmt::format("{} line {}", where_, line_), std::move(fix));
}

void Runtime::step(size_t count) {
  steps_ += static_cast<std::int64_t>(count);
  if (steps_ > limits_.steps)
    fail("the chat template takes too many steps", "shorten the messages or use another template");
}

void Runtime::build(size_t bytes) {
  const std::int64_t left = limits_.bytes - bytes_;
  if (bytes > static_cast<size_t>(std::max<std::int64_t>(left, 0))) {
    fail("the chat template uses too much memory", "shorten the messages or use another template");
  }
  bytes_ += static_cast<std::int64_t>(bytes);
}

void Runtime::check_output(size_t bytes) const {
  if (bytes > static_cast<size_t>(limits_.output_bytes))
    fail("the chat template's text is too long", "shorten the messages");
}

Namespace* Runtime::new_space() {
  build(sizeof(Namespace));
  return &spaces_.emplace_back();
}

Value Runtime::list(std::vector<Value> items, List::Kind kind) {
  build(sizeof(List) + items.size() * sizeof(Value));
  auto made = std::make_shared<List>();
  for (const Value& item : items) made->nesting = std::max(made->nesting, 1 + nesting_of(item));
  if (made->nesting > kMaxNesting) fail("lists nest too deeply");
  made->items = std::move(items);
  made->kind = kind;
  return Value::list(std::move(made));
}

Value Runtime::dict(const std::vector<std::pair<Value, Value>>& items) {
  build(sizeof(Dict) + items.size() * 4 * sizeof(Value));
  auto made = std::make_shared<Dict>();
  for (const auto& [key, value] : items) {
    std::optional<std::string> hash = hash_text(key);
    if (!hash) fail(fmt::format("a {} cannot be a key", key.type_name()));
    build(hash->size());
    made->nesting = std::max(made->nesting, 1 + nesting_of(value));
    const auto [slot, fresh] = made->index.emplace(std::move(*hash), made->items.size());
    if (fresh) {
      made->items.emplace_back(key, value);
    } else {
      made->items[slot->second].second = value;
    }
  }
  if (made->nesting > kMaxNesting) fail("dicts nest too deeply");
  return Value::dict(std::move(made));
}

Value Runtime::string(MarkedString text) {
  build(sizeof(MarkedString) + text.size() + text.user().size() * sizeof(TextRange));
  return Value::string(std::move(text));
}

std::vector<Value> Runtime::iterate(const Value& value) {
  if (value.is_undefined()) return {};
  std::vector<Value> items;
  if (const List* list = value.as_list()) {
    build(list->items.size() * sizeof(Value));
    return list->items;
  }
  if (const Dict* dict = value.as_dict()) {
    build(dict->items.size() * sizeof(Value));
    for (const auto& item : dict->items) items.push_back(item.first);
    return items;
  }
  if (const MarkedString* text = value.as_string()) {
    build(text->size() * sizeof(size_t));
    const std::vector<size_t> starts = character_starts(text->text());
    for (size_t i = 0; i + 1 < starts.size(); ++i)
      items.push_back(string(text->slice({starts[i], starts[i + 1]}).as_markup(false)));
    return items;
  }
  fail(fmt::format("a {} cannot be iterated", value.type_name()));
}

bool Runtime::equal(const Value& a, const Value& b) {
  step();
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.as_integer() && b.as_integer()) return a.as_integer() == b.as_integer();
  if (a.is_number() && b.is_number()) return a.as_real() == b.as_real();
  if (a.as_string() != nullptr && b.as_string() != nullptr) return a.as_string()->text() == b.as_string()->text();
  const List* left = a.as_list();
  const List* right = b.as_list();
  if (left != nullptr && right != nullptr) {
    if (left->kind != right->kind) return false;
    return std::ranges::equal(left->items, right->items, [&](const Value& x, const Value& y) { return equal(x, y); });
  }
  const Dict* first = a.as_dict();
  const Dict* second = b.as_dict();
  if (first == nullptr || second == nullptr) return a.as_space() != nullptr && a.as_space() == b.as_space();
  if (first->items.size() != second->items.size()) return false;
  return std::ranges::all_of(first->items, [&](const auto& item) {
    const Value* other = second->find(item.first);
    return other != nullptr && equal(item.second, *other);
  });
}

int Runtime::compare(const Value& a, const Value& b) {
  step();
  if (a.as_integer() && b.as_integer())
    return *a.as_integer() < *b.as_integer() ? -1 : *a.as_integer() > *b.as_integer();
  if (a.is_number() && b.is_number()) return a.as_real() < b.as_real() ? -1 : a.as_real() > b.as_real();
  if (a.as_string() != nullptr && b.as_string() != nullptr)
    return a.as_string()->text().compare(b.as_string()->text());
  const List* left = a.as_list();
  const List* right = b.as_list();
  if (left == nullptr || right == nullptr || left->kind != right->kind || left->kind == List::Kind::kGenerator) {
    fail(fmt::format("a {} and a {} have no order", a.type_name(), b.type_name()));
  }
  const size_t both = std::min(left->items.size(), right->items.size());
  for (size_t i = 0; i < both; ++i) {
    if (!equal(left->items[i], right->items[i])) return compare(left->items[i], right->items[i]);
  }
  return left->items.size() < right->items.size() ? -1 : left->items.size() > right->items.size();
}

bool Runtime::contains(const Value& container, const Value& item) {
  if (const MarkedString* text = container.as_string()) {
    const MarkedString* part = item.as_string();
    if (part == nullptr) fail(fmt::format("'in' a string needs a string, not a {}", item.type_name()));
    step(1 + text->size() / 64);
    return text->text().find(part->text()) != std::string::npos;
  }
  if (const Dict* dict = container.as_dict()) return dict->find(item) != nullptr;
  if (const List* list = container.as_list()) {
    return std::ranges::any_of(list->items, [&](const Value& member) { return equal(member, item); });
  }
  if (container.is_undefined()) return false;
  fail(fmt::format("'in' cannot search a {}", container.type_name()));
}

}  // namespace kvasir::jinja
