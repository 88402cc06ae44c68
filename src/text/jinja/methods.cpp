// The methods of strings, dicts and lists.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "text/jinja/function.h"
#include "text/jinja/operations.h"
#include "text/jinja/text_functions.h"

namespace kvasir::jinja {
namespace {

using Method = Value (*)(Runtime& runtime, const Value& self, const Arguments& arguments);

struct Named {
  std::string_view name;
  Method method;
};

const MarkedString& text_argument(Runtime& runtime, const Value& value) {
  const MarkedString* text = value.as_string();
  if (text == nullptr) runtime.fail(fmt::format("a string is needed, not a {}", value.type_name()));
  return *text;
}

std::int64_t integer_argument(Runtime& runtime, const Value& value, std::int64_t otherwise) {
  if (value.is_undefined() || value.is_none()) return otherwise;
  const auto integer = value.as_integer();
  if (!integer) runtime.fail(fmt::format("a whole number is needed, not a {}", value.type_name()));
  return *integer;
}

const MarkedString* optional_text(Runtime& runtime, const Value& value) {
  return value.is_undefined() || value.is_none() ? nullptr : &text_argument(runtime, value);
}

template <Side side>
Value strip(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const MarkedString& text = *self.as_string();
  const std::vector<Value> bound = arguments.bind(runtime, {"chars"});
  const MarkedString* chars = optional_text(runtime, bound[0]);
  const TextRange rest = chars == nullptr ? stripped(text.text(), side) : stripped(text.text(), side, chars->text());
  return runtime.string(text.slice(rest));
}

template <Casing casing>
Value casing_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  arguments.bind(runtime, {});
  runtime.build(self.as_string()->size() * 4);
  return runtime.string(with_casing(*self.as_string(), casing));
}

template <auto splitter>
Value split_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"sep", "maxsplit"});
  const MarkedString* separator = optional_text(runtime, bound[0]);
  return runtime.list(splitter(runtime, *self.as_string(), separator, integer_argument(runtime, bound[1], -1)));
}

Value splitlines(Runtime& runtime, const Value& self, const Arguments& arguments) {
  arguments.bind(runtime, {});
  std::vector<Value> lines;
  for (MarkedString& line : lines_of(*self.as_string())) lines.push_back(runtime.string(std::move(line)));
  return runtime.list(std::move(lines));
}

enum class End { kStart, kEnd };

// With one string, or a tuple of which any will do.
template <End end>
Value has_affix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Value affix = arguments.bind(runtime, {"affix"})[0];
  const std::string_view text = self.as_string()->text();
  const auto fits = [&](const Value& candidate) {
    const std::string_view part = text_argument(runtime, candidate).text();
    return end == End::kStart ? text.starts_with(part) : text.ends_with(part);
  };
  if (const List* list = affix.as_list()) return Value::boolean(std::ranges::any_of(list->items, fits));
  return Value::boolean(fits(affix));
}

Value replace(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"old", "new", "count"});
  const MarkedString& from = text_argument(runtime, bound[0]);
  const MarkedString& to = text_argument(runtime, bound[1]);
  return runtime.string(replaced(runtime, *self.as_string(), from, to, integer_argument(runtime, bound[2], -1)));
}

Value found_at(const MarkedString& text, size_t at) {
  if (at == std::string::npos) return Value::integer(-1);
  return Value::integer(static_cast<std::int64_t>(character_count(std::string_view(text.text()).substr(0, at))));
}

Value find(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const MarkedString& part = text_argument(runtime, arguments.bind(runtime, {"sub"})[0]);
  return found_at(*self.as_string(), self.as_string()->text().find(part.text()));
}

Value rfind(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const MarkedString& part = text_argument(runtime, arguments.bind(runtime, {"sub"})[0]);
  return found_at(*self.as_string(), self.as_string()->text().rfind(part.text()));
}

Value count_in_text(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const MarkedString& part = text_argument(runtime, arguments.bind(runtime, {"sub"})[0]);
  const std::string& text = self.as_string()->text();
  if (part.empty()) return Value::integer(static_cast<std::int64_t>(character_count(text)) + 1);
  std::int64_t count = 0;
  for (size_t at = text.find(part.text()); at != std::string::npos; at = text.find(part.text(), at + part.size()))
    ++count;
  return Value::integer(count);
}

Value join_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const std::vector<Value> items = runtime.iterate(arguments.bind(runtime, {"iterable"})[0]);
  for (const Value& item : items) text_argument(runtime, item);
  return runtime.string(joined(runtime, items, *self.as_string()));
}

template <int (*is)(int)>
Value all_ascii(Runtime& runtime, const Value& self, const Arguments& arguments) {
  arguments.bind(runtime, {});
  const std::string& text = self.as_string()->text();
  const auto fits = [](char c) {
    return static_cast<unsigned char>(c) < 0x80 && is(static_cast<unsigned char>(c)) != 0;
  };
  return Value::boolean(!text.empty() && std::ranges::all_of(text, fits));
}

Value get(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"key", "default"});
  const Value* found = self.as_dict()->find(bound[0]);
  if (found != nullptr) return *found;
  return bound[1].is_undefined() ? Value::none() : bound[1];
}

Value items(Runtime& runtime, const Value& self, const Arguments& arguments) {
  arguments.bind(runtime, {});
  std::vector<Value> pairs;
  for (const auto& [key, value] : self.as_dict()->items)
    pairs.push_back(runtime.list({key, value}, List::Kind::kTuple));
  return runtime.list(std::move(pairs));
}

Value keys(Runtime& runtime, const Value& self, const Arguments& arguments) {
  arguments.bind(runtime, {});
  return runtime.list(runtime.iterate(self));
}

Value values(Runtime& runtime, const Value& self, const Arguments& arguments) {
  arguments.bind(runtime, {});
  std::vector<Value> all;
  for (const auto& item : self.as_dict()->items) all.push_back(item.second);
  return runtime.list(std::move(all));
}

Value index_in_list(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Value wanted = arguments.bind(runtime, {"value"})[0];
  const std::vector<Value>& all = self.as_list()->items;
  const auto found = std::ranges::find_if(all, [&](const Value& item) { return runtime.equal(item, wanted); });
  if (found == all.end()) runtime.fail("index() finds no such item");
  return Value::integer(found - all.begin());
}

Value count_in_list(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Value wanted = arguments.bind(runtime, {"value"})[0];
  return Value::integer(
      std::ranges::count_if(self.as_list()->items, [&](const Value& item) { return runtime.equal(item, wanted); }));
}

Value cycle(Runtime& runtime, const Value& self, const Arguments& arguments) {
  if (arguments.plain.empty()) runtime.fail("loop.cycle needs values");
  return arguments.plain[self.as_loop()->index % arguments.plain.size()];
}

constexpr std::array<Named, 19> kStringMethods{{{"strip", strip<Side::kBoth>},
                                                {"lstrip", strip<Side::kLeft>},
                                                {"rstrip", strip<Side::kRight>},
                                                {"upper", casing_method<Casing::kUpper>},
                                                {"lower", casing_method<Casing::kLower>},
                                                {"title", casing_method<Casing::kTitle>},
                                                {"capitalize", casing_method<Casing::kCapitalize>},
                                                {"split", split_method<split>},
                                                {"rsplit", split_method<split_from_right>},
                                                {"splitlines", splitlines},
                                                {"startswith", has_affix<End::kStart>},
                                                {"endswith", has_affix<End::kEnd>},
                                                {"replace", replace},
                                                {"find", find},
                                                {"rfind", rfind},
                                                {"count", count_in_text},
                                                {"join", join_method},
                                                {"isdigit", all_ascii<std::isdigit>},
                                                {"isalpha", all_ascii<std::isalpha>}}};
constexpr std::array<Named, 4> kDictMethods{{{"get", get}, {"items", items}, {"keys", keys}, {"values", values}}};
constexpr std::array<Named, 2> kListMethods{{{"index", index_in_list}, {"count", count_in_list}}};
constexpr std::array<Named, 1> kLoopMethods{{{"cycle", cycle}}};

std::span<const Named> methods_of(const Value& self) {
  if (self.as_string() != nullptr) return kStringMethods;
  if (self.as_dict() != nullptr) return kDictMethods;
  if (self.as_loop() != nullptr) return kLoopMethods;
  if (const List* list = self.as_list(); list != nullptr && list->kind != List::Kind::kGenerator) return kListMethods;
  return {};
}

}  // namespace

Value find_method(const Value& self, std::string_view name) {
  const std::span<const Named> methods = methods_of(self);
  if (std::ranges::find(methods, name, &Named::name) == methods.end()) return {};
  auto method = std::make_shared<Function>();
  method->kind = Function::Kind::kMethod;
  method->name = std::string(name);
  method->self = self;
  return Value::function(std::move(method));
}

Value call_method(Runtime& runtime, const Function& method, const Arguments& arguments) {
  const std::span<const Named> methods = methods_of(method.self);
  const auto found = std::ranges::find(methods, method.name, &Named::name);
  return found->method(runtime, method.self, arguments);
}

}  // namespace kvasir::jinja
