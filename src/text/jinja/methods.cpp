// The methods of strings, dicts and lists.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "text/jinja/function.h"
#include "text/jinja/operations.h"
#include "text/jinja/string_methods.h"
#include "text/jinja/text_functions.h"

namespace kvasir::jinja {
namespace {

using Named = NamedMethod;

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
  const bool keep = truthy(arguments.bind(runtime, {"keepends"})[0]);
  std::vector<Value> lines;
  for (MarkedString& line : lines_of(*self.as_string(), keep ? LineEnds::kKeep : LineEnds::kDrop))
    lines.push_back(runtime.string(std::move(line)));
  return runtime.list(std::move(lines));
}

// The part of a text between two places, which are counted as a slice's; nullopt: it begins behind the end.
std::optional<TextRange> window(Runtime& runtime, const MarkedString& text, const Value& start, const Value& stop) {
  if (start.is_undefined() && stop.is_undefined()) return TextRange{0, text.size()};
  runtime.build(text.size() * sizeof(size_t));
  const std::vector<size_t> starts = character_starts(text.text());
  const auto size = static_cast<std::int64_t>(starts.size()) - 1;
  const auto place = [&](const Value& value, std::int64_t otherwise) {
    const std::int64_t at = integer_argument(runtime, value, otherwise);
    return std::max<std::int64_t>(at < 0 ? at + size : at, 0);
  };
  const std::int64_t begin = place(start, 0);
  const std::int64_t end = std::min(place(stop, size), size);
  if (begin > size || begin > end) return std::nullopt;
  return TextRange{starts[static_cast<size_t>(begin)], starts[static_cast<size_t>(end)]};
}

enum class End { kStart, kEnd };

// With one string, or a tuple of which any will do.
template <End end>
Value has_affix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"affix", "start", "end"});
  const Value& affix = bound[0];
  const std::optional<TextRange> range = window(runtime, *self.as_string(), bound[1], bound[2]);
  if (!range) return Value::boolean(false);
  const std::string_view text = std::string_view(self.as_string()->text()).substr(range->begin, range->size());
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

enum class Missing { kMinusOne, kFails };
enum class Direction { kForward, kBackward };

template <Direction direction, Missing missing>
Value find(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"sub", "start", "end"});
  const MarkedString& part = text_argument(runtime, bound[0]);
  const MarkedString& text = *self.as_string();
  size_t at = std::string::npos;
  if (const auto range = window(runtime, text, bound[1], bound[2])) {
    const std::string_view inside = std::string_view(text.text()).substr(range->begin, range->size());
    at = direction == Direction::kForward ? inside.find(part.text()) : inside.rfind(part.text());
    if (at != std::string::npos) at += range->begin;
  }
  if (at == std::string::npos && missing == Missing::kFails) runtime.fail("the text has no such part");
  return found_at(text, at);
}

Value count_in_text(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"sub", "start", "end"});
  const MarkedString& part = text_argument(runtime, bound[0]);
  const auto range = window(runtime, *self.as_string(), bound[1], bound[2]);
  if (!range) return Value::integer(0);
  const std::string_view text = std::string_view(self.as_string()->text()).substr(range->begin, range->size());
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

// Whether the value, or one of several, is another than in the turn before.
Value changed(Runtime& runtime, const Value& self, const Arguments& arguments) {
  if (!arguments.named.empty()) runtime.fail("loop.changed takes values without names");
  const Value seen = runtime.list(arguments.plain, List::Kind::kTuple);
  std::optional<Value>& last = *self.as_loop()->changed;
  const bool same = last && runtime.equal(*last, seen);
  last = seen;
  return Value::boolean(!same);
}

Value next_of_cycler(Runtime& runtime, const Value& self, const Arguments& arguments) {
  arguments.bind(runtime, {});
  const Function& cycler = *self.as_function();
  const std::vector<Value>& items = cycler.self.as_list()->items;
  const Value current = items[*cycler.state];
  *cycler.state = (*cycler.state + 1) % items.size();
  return current;
}

Value reset_of_cycler(Runtime& runtime, const Value& self, const Arguments& arguments) {
  arguments.bind(runtime, {});
  *self.as_function()->state = 0;
  return Value::none();
}

Value copy(Runtime& runtime, const Value& self, const Arguments& arguments) {
  arguments.bind(runtime, {});
  return self;  // values never change
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
                                                {"find", find<Direction::kForward, Missing::kMinusOne>},
                                                {"rfind", find<Direction::kBackward, Missing::kMinusOne>},
                                                {"index", find<Direction::kForward, Missing::kFails>},
                                                {"rindex", find<Direction::kBackward, Missing::kFails>},
                                                {"count", count_in_text},
                                                {"join", join_method}}};
constexpr std::array<Named, 5> kDictMethods{
    {{"get", get}, {"items", items}, {"keys", keys}, {"values", values}, {"copy", copy}}};
constexpr std::array<Named, 3> kListMethods{{{"index", index_in_list}, {"count", count_in_list}, {"copy", copy}}};
constexpr std::array<Named, 2> kTupleMethods{{{"index", index_in_list}, {"count", count_in_list}}};
constexpr std::array<Named, 2> kLoopMethods{{{"cycle", cycle}, {"changed", changed}}};
constexpr std::array<Named, 2> kCyclerMethods{{{"next", next_of_cycler}, {"reset", reset_of_cycler}}};

// Methods that put texts together, where Markup's escape the others.
constexpr std::string_view kBuilding[] = {"join",       "replace",      "center",      "ljust",
                                          "rjust",      "zfill",        "partition",   "rpartition",
                                          "expandtabs", "removeprefix", "removesuffix"};

const Named* find_in(std::span<const Named> methods, std::string_view name) {
  const auto found = std::ranges::find(methods, name, &Named::name);
  return found == methods.end() ? nullptr : &*found;
}

const Named* method_of(const Value& self, std::string_view name) {
  if (self.as_string() != nullptr) {
    for (const std::span<const Named> table :
         {std::span<const Named>(kStringMethods), string_checks(), string_layouts()}) {
      if (const Named* found = find_in(table, name)) return found;
    }
    return nullptr;
  }
  if (self.as_dict() != nullptr) return find_in(kDictMethods, name);
  if (self.as_loop() != nullptr) return find_in(kLoopMethods, name);
  const Function* function = self.as_function();
  if (function != nullptr && function->kind == Function::Kind::kCycler) return find_in(kCyclerMethods, name);
  const List* list = self.as_list();
  if (list == nullptr || list->kind == List::Kind::kGenerator) return nullptr;
  return list->kind == List::Kind::kTuple ? find_in(kTupleMethods, name) : find_in(kListMethods, name);
}

}  // namespace

Value find_method(const Value& self, std::string_view name) {
  if (method_of(self, name) == nullptr) return {};
  auto method = std::make_shared<Function>();
  method->kind = Function::Kind::kMethod;
  method->name = std::string(name);
  method->self = self;
  return Value::function(std::move(method));
}

Value call_method(Runtime& runtime, const Function& method, const Arguments& arguments) {
  const MarkedString* text = method.self.as_string();
  if (text != nullptr && text->is_markup() && std::ranges::find(kBuilding, method.name) != std::end(kBuilding))
    runtime.fail(fmt::format("{}() of what is marked safe is not supported", method.name));
  return method_of(method.self, method.name)->method(runtime, method.self, arguments);
}

}  // namespace kvasir::jinja
