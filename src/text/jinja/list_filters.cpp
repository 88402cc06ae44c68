#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_set>
#include <utility>

#include "text/jinja/filters.h"
#include "text/jinja/operations.h"
#include "text/jinja/text_functions.h"

namespace kvasir::jinja {
namespace {

bool given(const Value& value) { return !value.is_undefined() && !value.is_none(); }

// "a.b.0": the attribute of an attribute of an item.
Value attribute_path(Runtime& runtime, const Value& item, const Value& path) {
  if (!given(path)) return item;
  if (path.as_string() == nullptr) return get_item(runtime, item, path);
  Value at = item;
  const MarkedString dot(".", Origin::kTemplate);
  for (const Value& part : split(runtime, *path.as_string(), &dot, -1)) {
    if (at.is_undefined())
      runtime.fail(fmt::format("'{}' is looked for in an undefined value", path.as_string()->text()));
    const std::string& name = part.as_string()->text();
    std::int64_t index = 0;
    const auto [end, status] = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool number = !name.empty() && status == std::errc{} && end == name.data() + name.size();
    at = get_item(runtime, at, number ? Value::integer(index) : part);
  }
  return at;
}

enum class CaseRule { kSensitive, kIgnore };

Value sort_key(Runtime& runtime, const Value& item, const Value& attribute, CaseRule rule) {
  Value key = attribute_path(runtime, item, attribute);
  if (rule == CaseRule::kIgnore && key.as_string() != nullptr) {
    runtime.build(key.as_string()->size() * 4);
    return Value::string(with_casing(*key.as_string(), Casing::kLower));
  }
  return key;
}

CaseRule case_rule(const Value& sensitive) { return truthy(sensitive) ? CaseRule::kSensitive : CaseRule::kIgnore; }

// Stable, by key; reversed as Python does it, with equals in their order.
std::vector<Value> sorted_by(Runtime& runtime, std::vector<std::pair<Value, Value>> keyed, const Value& reverse) {
  runtime.build(keyed.size() * 2 * sizeof(Value));
  const bool down = truthy(reverse);
  std::ranges::stable_sort(keyed, [&](const auto& a, const auto& b) {
    return down ? runtime.compare(b.first, a.first) < 0 : runtime.compare(a.first, b.first) < 0;
  });
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (auto& [key, item] : keyed) items.push_back(std::move(item));
  return items;
}

Value sort(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"reverse", "case_sensitive", "attribute"});
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : runtime.iterate(input)) {
    keyed.emplace_back(sort_key(runtime, item, bound[2], case_rule(bound[1])), item);
  }
  return runtime.list(sorted_by(runtime, std::move(keyed), bound[0]));
}

Value dictsort(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"case_sensitive", "by", "reverse"});
  const Dict* dict = input.as_dict();
  if (dict == nullptr) runtime.fail(fmt::format("dictsort needs a dict, not a {}", input.type_name()));
  const bool by_value = given(bound[1]) && to_text(runtime, bound[1]).text() == "value";
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, value] : dict->items) {
    keyed.emplace_back(sort_key(runtime, by_value ? value : key, Value(), case_rule(bound[0])),
                       runtime.list({key, value}, List::Kind::kTuple));
  }
  return runtime.list(sorted_by(runtime, std::move(keyed), bound[2]));
}

Value unique(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"case_sensitive", "attribute"});
  std::unordered_set<std::string> seen;
  std::vector<Value> items;
  for (const Value& item : runtime.iterate(input)) {
    std::optional<std::string> hash = hash_text(sort_key(runtime, item, bound[1], case_rule(bound[0])));
    if (!hash) runtime.fail("unique needs values that can be keys");
    runtime.build(hash->size());
    if (seen.insert(std::move(*hash)).second) items.push_back(item);
  }
  return runtime.list(std::move(items), List::Kind::kGenerator);
}

enum class Extreme { kLeast, kGreatest };

template <Extreme extreme>
Value extreme_of(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"case_sensitive", "attribute"});
  const std::vector<Value> items = runtime.iterate(input);
  Value best_key;
  const Value* best = nullptr;
  for (const Value& item : items) {
    Value key = sort_key(runtime, item, bound[1], case_rule(bound[0]));
    const bool better = best == nullptr || (extreme == Extreme::kLeast ? runtime.compare(key, best_key) < 0
                                                                       : runtime.compare(key, best_key) > 0);
    if (!better) continue;
    best = &item;
    best_key = std::move(key);
  }
  return best == nullptr ? Value() : *best;
}

Value sum(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"attribute", "start"});
  Value total = given(bound[1]) ? bound[1] : Value::integer(0);
  for (const Value& item : runtime.iterate(input)) {
    total = binary_operation(runtime, "+", total, attribute_path(runtime, item, bound[0]));
  }
  return total;
}

Value join(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"d", "attribute"});
  std::vector<Value> items = runtime.iterate(input);
  for (Value& item : items) item = attribute_path(runtime, item, bound[1]);
  return runtime.string(joined(runtime, items, to_text(runtime, bound[0])));
}

Value first(Runtime& runtime, const Value& input, const Arguments& arguments) {
  arguments.bind(runtime, {});
  if (input.as_string() != nullptr) return get_item(runtime, input, Value::integer(0));
  const std::vector<Value> items = runtime.iterate(input);
  return items.empty() ? Value() : items.front();
}

Value last(Runtime& runtime, const Value& input, const Arguments& arguments) {
  arguments.bind(runtime, {});
  if (input.as_string() != nullptr) return get_item(runtime, input, Value::integer(-1));
  const std::vector<Value> items = runtime.iterate(input);
  return items.empty() ? Value() : items.back();
}

Value to_list(Runtime& runtime, const Value& input, const Arguments& arguments) {
  arguments.bind(runtime, {});
  return runtime.list(runtime.iterate(input));
}

Value items_of(Runtime& runtime, const Value& input, const Arguments& arguments) {
  arguments.bind(runtime, {});
  std::vector<Value> pairs;
  const Dict* dict = input.as_dict();
  if (dict == nullptr && !input.is_undefined())
    runtime.fail(fmt::format("items needs a dict, not a {}", input.type_name()));
  if (dict != nullptr) {
    for (const auto& [key, value] : dict->items) pairs.push_back(runtime.list({key, value}, List::Kind::kTuple));
  }
  return runtime.list(std::move(pairs), List::Kind::kGenerator);
}

Value reverse(Runtime& runtime, const Value& input, const Arguments& arguments) {
  arguments.bind(runtime, {});
  if (input.as_string() != nullptr) return get_slice(runtime, input, {std::nullopt, std::nullopt, -1});
  std::vector<Value> items = runtime.iterate(input);
  std::ranges::reverse(items);
  return runtime.list(std::move(items), List::Kind::kGenerator);
}

// The arguments after the first `count`, for a filter or a test that another filter applies.
Arguments rest_of(const Arguments& arguments, size_t count) {
  Arguments rest;
  rest.plain.assign(arguments.plain.begin() + static_cast<std::ptrdiff_t>(count), arguments.plain.end());
  rest.named = arguments.named;
  return rest;
}

std::string name_in(Runtime& runtime, const Arguments& arguments, size_t place) {
  const MarkedString* name = arguments.plain[place].as_string();
  if (name == nullptr) runtime.fail("the name of a filter or a test must be a string");
  return name->text();
}

// What is nothing, None too, is nothing to go through.
std::vector<Value> items_if_any(Runtime& runtime, const Value& input) {
  return truthy(input) ? runtime.iterate(input) : std::vector<Value>();
}

Value map(Runtime& runtime, const Value& input, const Arguments& arguments) {
  std::vector<Value> out;
  if (arguments.plain.empty()) {
    Value attribute;
    Value otherwise;
    for (const auto& [name, value] : arguments.named) {
      if (name == "attribute") attribute = value;
      if (name == "default") otherwise = value;
    }
    if (!given(attribute)) runtime.fail("map needs a filter or an attribute");
    for (const Value& item : items_if_any(runtime, input)) {
      Value found = attribute_path(runtime, item, attribute);
      out.push_back(found.is_undefined() ? otherwise : std::move(found));
    }
  } else {
    const std::string name = name_in(runtime, arguments, 0);
    const Arguments rest = rest_of(arguments, 1);
    for (const Value& item : items_if_any(runtime, input)) out.push_back(apply_filter(runtime, name, item, rest));
  }
  return runtime.list(std::move(out), List::Kind::kGenerator);
}

enum class Keep { kPassing, kFailing };
enum class Look { kItem, kAttribute };

// select, reject, selectattr and rejectattr: without a test, by truth.
template <Keep keep, Look look>
Value filter_by(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const size_t test_at = look == Look::kAttribute ? 1 : 0;
  if (arguments.plain.size() < test_at) runtime.fail("the name of an attribute is needed");
  const bool has_test = arguments.plain.size() > test_at;
  const std::string name = has_test ? name_in(runtime, arguments, test_at) : "";
  const Arguments rest = has_test ? rest_of(arguments, test_at + 1) : Arguments{};
  std::vector<Value> out;
  for (const Value& item : items_if_any(runtime, input)) {
    const Value seen = look == Look::kAttribute ? attribute_path(runtime, item, arguments.plain[0]) : item;
    const bool passes = has_test ? apply_test(runtime, name, seen, rest) : truthy(seen);
    if (passes == (keep == Keep::kPassing)) out.push_back(item);
  }
  return runtime.list(std::move(out), List::Kind::kGenerator);
}

std::int64_t positive(Runtime& runtime, const Value& value) {
  const auto integer = value.as_integer();
  if (!integer || *integer < 1) runtime.fail("a whole number above 0 is needed");
  return *integer;
}

Value batch(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"linecount", "fill_with"});
  const auto size = static_cast<size_t>(positive(runtime, bound[0]));
  std::vector<Value> out;
  std::vector<Value> row;
  for (const Value& item : runtime.iterate(input)) {
    if (row.size() == size) out.push_back(runtime.list(std::exchange(row, {})));
    row.push_back(item);
  }
  if (!row.empty()) {
    if (given(bound[1])) {
      runtime.build(size * sizeof(Value));
      row.resize(size, bound[1]);
    }
    out.push_back(runtime.list(std::move(row)));
  }
  return runtime.list(std::move(out), List::Kind::kGenerator);
}

// So many lists, of which the first have one item more where they cannot be equal.
Value slice(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"slices", "fill_with"});
  const auto count = static_cast<size_t>(positive(runtime, bound[0]));
  const std::vector<Value> items = runtime.iterate(input);
  runtime.build(count * sizeof(Value));
  const size_t extra = items.size() % count;
  std::vector<Value> out;
  auto at = items.begin();
  for (size_t i = 0; i < count; ++i) {
    runtime.step();
    const auto end = at + static_cast<std::ptrdiff_t>(items.size() / count + (i < extra ? 1 : 0));
    std::vector<Value> part(at, end);
    if (given(bound[1]) && i >= extra) part.push_back(bound[1]);
    out.push_back(runtime.list(std::move(part)));
    at = end;
  }
  return runtime.list(std::move(out), List::Kind::kGenerator);
}

// Pairs of a value and the items that have it, in the order of the values.
Value groupby(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const std::vector<Value> bound = arguments.bind(runtime, {"attribute", "default", "case_sensitive"});
  if (!given(bound[0])) runtime.fail("groupby needs an attribute");
  const auto value_of = [&](const Value& item) {
    Value found = attribute_path(runtime, item, bound[0]);
    return found.is_undefined() && given(bound[1]) ? bound[1] : found;
  };
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : runtime.iterate(input))
    keyed.emplace_back(sort_key(runtime, value_of(item), Value(), case_rule(bound[2])), item);
  std::vector<Value> groups;
  std::vector<Value> members;
  const auto close = [&] {
    if (members.empty()) return;
    auto pair = std::make_shared<List>();
    const Value name = value_of(members.front());
    const Value list = runtime.list(std::exchange(members, {}));
    pair->items = {name, list};
    pair->kind = List::Kind::kTuple;
    pair->nesting = 1 + std::max(nesting_of(name), nesting_of(list));
    if (pair->nesting > kMaxNesting) runtime.fail("lists nest too deeply");
    pair->named = true;
    groups.push_back(Value::list(std::move(pair)));
  };
  Value last;
  for (const Value& item : sorted_by(runtime, std::move(keyed), Value())) {
    const Value key = sort_key(runtime, value_of(item), Value(), case_rule(bound[2]));
    if (!members.empty() && !runtime.equal(key, last)) close();
    last = key;
    members.push_back(item);
  }
  close();
  return runtime.list(std::move(groups));
}

Value attribute(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Value name = arguments.bind(runtime, {"name"})[0];
  return get_attribute(runtime, input, to_text(runtime, name).text());
}

constexpr std::array<Filter, 21> kFilters{{{"sort", sort},
                                           {"dictsort", dictsort},
                                           {"unique", unique},
                                           {"min", extreme_of<Extreme::kLeast>},
                                           {"max", extreme_of<Extreme::kGreatest>},
                                           {"sum", sum},
                                           {"join", join},
                                           {"first", first},
                                           {"last", last},
                                           {"list", to_list},
                                           {"items", items_of},
                                           {"reverse", reverse},
                                           {"map", map},
                                           {"select", filter_by<Keep::kPassing, Look::kItem>},
                                           {"reject", filter_by<Keep::kFailing, Look::kItem>},
                                           {"selectattr", filter_by<Keep::kPassing, Look::kAttribute>},
                                           {"rejectattr", filter_by<Keep::kFailing, Look::kAttribute>},
                                           {"batch", batch},
                                           {"slice", slice},
                                           {"groupby", groupby},
                                           {"attr", attribute}}};

}  // namespace

std::span<const Filter> list_filters() { return kFilters; }

}  // namespace kvasir::jinja
