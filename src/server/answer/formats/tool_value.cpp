#include "server/answer/formats/tool_value.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "server/answer/formats/call_parser.h"
#include "server/api/api_error.h"

namespace kvasir {
namespace {

// Types that a schema allows: names of JSON Schema. Empty: it does not say.
using Types = std::vector<std::string>;

std::string type_name(const OrderedJson& value) {
  if (value.is_string()) return "string";
  if (value.is_boolean()) return "boolean";
  if (value.is_number_integer()) return "integer";
  if (value.is_number()) return "number";
  if (value.is_null()) return "null";
  return value.is_array() ? "array" : "object";
}

// A stranger wrote the schema: references may go in circles, and choices nest without end.
class TypeFinder {
 public:
  explicit TypeFinder(const OrderedJson& root) : root_(root) {}

  Types types_of(const OrderedJson& schema) {
    Types out;
    std::vector<const OrderedJson*> todo{&schema};
    for (int steps = 0; !todo.empty() && steps < kMostSteps; ++steps) {
      const OrderedJson& at = *todo.back();
      todo.pop_back();
      if (!at.is_object() || !add(at, out, todo)) return {};
    }
    return todo.empty() ? out : Types{};
  }

 private:
  static constexpr int kMostSteps = 64;

  // False: this one allows anything.
  bool add(const OrderedJson& schema, Types& out, std::vector<const OrderedJson*>& todo) const {
    if (const auto type = schema.find("type"); type != schema.end()) {
      if (type->is_string()) out.push_back(type->get<std::string>());
      for (size_t i = 0; type->is_array() && i < type->size(); ++i) {
        if ((*type)[i].is_string()) out.push_back((*type)[i].get<std::string>());
      }
      return !out.empty();
    }
    if (const auto values = schema.find("enum"); values != schema.end() && values->is_array()) {
      for (const OrderedJson& value : *values) out.push_back(type_name(value));
      return !values->empty();
    }
    if (const auto value = schema.find("const"); value != schema.end()) {
      out.push_back(type_name(*value));
      return true;
    }
    for (const char* choice : {"anyOf", "oneOf", "allOf"}) {
      const auto list = schema.find(choice);
      if (list == schema.end() || !list->is_array() || list->empty()) continue;
      for (const OrderedJson& one : *list) todo.push_back(&one);
      return true;
    }
    const auto reference = schema.find("$ref");
    if (reference == schema.end() || !reference->is_string()) return false;
    const OrderedJson* target = resolve(reference->get_ref<const std::string&>());
    if (target != nullptr) todo.push_back(target);
    return target != nullptr;
  }

  const OrderedJson* resolve(const std::string& reference) const {
    if (!reference.starts_with("#/")) return nullptr;
    try {
      const OrderedJson::json_pointer pointer(reference.substr(1));
      return root_.contains(pointer) ? &root_.at(pointer) : nullptr;
    } catch (const OrderedJson::exception&) {
      return nullptr;
    }
  }

  const OrderedJson& root_;
};

Types types_of_parameter(const OrderedJson& parameters, const std::string& name) {
  if (!parameters.is_object()) return {};
  const auto properties = parameters.find("properties");
  if (properties == parameters.end() || !properties->is_object()) return {};
  const auto property = properties->find(name);
  return property == properties->end() ? Types{} : TypeFinder(parameters).types_of(*property);
}

std::string_view without_space_around(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::optional<OrderedJson> as_json(std::string_view text) {
  const std::string_view word = without_space_around(text);
  if (word == "True") return OrderedJson(true);
  if (word == "False") return OrderedJson(false);
  if (word == "None") return OrderedJson(nullptr);
  const auto read = read_bounded_json(word, {});
  const auto* json = std::get_if<Json>(&read);
  return json == nullptr ? std::nullopt : std::optional(OrderedJson(*json));
}

bool allows(const Types& types, const OrderedJson& value) {
  const std::string name = type_name(value);
  if (std::ranges::find(types, name) != types.end()) return true;
  return name == "integer" && std::ranges::find(types, "number") != types.end();
}

// As JSON. A number stays as it was written, for no double holds all of them.
std::string spelled(std::string_view text, const OrderedJson& value) {
  return value.is_number() ? std::string(without_space_around(text)) : to_text(value);
}

std::string quoted(std::string_view text) { return "\"" + json_escaped(text) + "\""; }

}  // namespace

bool takes_only_strings(const OrderedJson& parameters, const std::string& name) {
  const Types types = types_of_parameter(parameters, name);
  return !types.empty() && std::ranges::all_of(types, [](const std::string& type) { return type == "string"; });
}

std::string json_value(std::string_view text, const OrderedJson& parameters, const std::string& name) {
  const Types types = types_of_parameter(parameters, name);
  const std::optional<OrderedJson> value = as_json(text);
  const bool string = std::ranges::find(types, "string") != types.end();
  if (!value || value->is_string()) {  // a string in quotes is one where nothing speaks for the quotes
    return value && types.empty() ? to_text(*value) : quoted(text);
  }
  return types.empty() || allows(types, *value) || !string ? spelled(text, *value) : quoted(text);
}

std::string json_value(std::string_view text) {
  const std::optional<OrderedJson> value = as_json(text);
  return value ? spelled(text, *value) : quoted(text);
}

}  // namespace kvasir
