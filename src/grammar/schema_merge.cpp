#include "grammar/schema_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"

namespace kvasir::grammar {
namespace {

enum class Value { kAny, kCount, kNumber, kString, kArray, kObject, kSchema, kSchemas };

struct Keyword {
  std::string_view name;
  Value value;
};

// What is understood, with what each must be.
constexpr std::array<Keyword, 18> kKeywords{{
    {"type", Value::kAny},
    {"enum", Value::kArray},
    {"const", Value::kAny},
    {"properties", Value::kObject},
    {"required", Value::kArray},
    {"additionalProperties", Value::kSchema},
    {"items", Value::kAny},
    {"prefixItems", Value::kSchemas},
    {"minItems", Value::kCount},
    {"maxItems", Value::kCount},
    {"minLength", Value::kCount},
    {"maxLength", Value::kCount},
    {"pattern", Value::kString},
    {"format", Value::kString},
    {"minimum", Value::kNumber},
    {"maximum", Value::kNumber},
    {"exclusiveMinimum", Value::kNumber},
    {"exclusiveMaximum", Value::kNumber},
}};

// What says nothing about which values are valid, or is read elsewhere.
constexpr std::array<std::string_view, 22> kIgnored{
    "$ref",         "allOf",       "anyOf",     "oneOf",           "$schema",          "$id",      "$comment",
    "$defs",        "definitions", "title",     "description",     "default",          "examples", "example",
    "deprecated",   "readOnly",    "writeOnly", "contentEncoding", "contentMediaType", "nullable", "$anchor",
    "discriminator"};

constexpr std::array<std::string_view, 7> kTypes{"string", "number", "integer", "boolean", "null", "object", "array"};

bool is_schema(const Json& value) { return value.is_object() || value.is_boolean(); }

bool is_good(const Json& value, Value kind) {
  switch (kind) {
    case Value::kAny:
      return true;
    case Value::kCount:
      return value.is_number_integer() && value >= 0;
    case Value::kNumber:
      return value.is_number();
    case Value::kString:
      return value.is_string();
    case Value::kArray:
      return value.is_array();
    case Value::kObject:
      return value.is_object() && std::ranges::all_of(value, is_schema);
    case Value::kSchema:
      return is_schema(value);
    case Value::kSchemas:
      return value.is_array() && std::ranges::all_of(value, is_schema);
  }
  return false;
}

Json type_list(const Json& type, const std::string& path) {
  Json list = type.is_array() ? type : Json::array({type});
  for (const Json& one : list) {
    if (one.is_string() && std::ranges::find(kTypes, one.get<std::string_view>()) != kTypes.end()) continue;
    fail_schema(fmt::format("\"type\" is {}", one.dump()), path);
  }
  return list;
}

// Older drafts write prefixItems as a list under items.
void set_items(Json& flat, const Json& items, const std::string& path) {
  if (is_schema(items)) {
    flat["items"] = items;
  } else if (is_good(items, Value::kSchemas)) {
    flat["prefixItems"] = items;
  } else {
    fail_schema("\"items\" is neither a schema nor a list of them", path);
  }
}

// Keywords that restrict nothing at some values. True: nothing is to be done.
bool is_harmless(std::string_view key, const Json& value) {
  if (key.starts_with("x-")) return true;
  if (key == "uniqueItems" || key == "additionalItems") return value == false;
  if (key == "multipleOf") return value == 1;  // flatten() sees to it that integers are meant
  if (key == "minProperties") return value == 0;
  return false;
}

void check_lists(const Json& flat, const std::string& path) {
  if (flat.contains("required") &&
      !std::ranges::all_of(flat["required"], [](const Json& name) { return name.is_string(); })) {
    fail_schema("\"required\" is not a list of names", path);
  }
}

Json intersect_types(const Json& left, const Json& right) {
  Json out = Json::array();
  const auto has = [](const Json& list, const char* type) { return std::ranges::find(list, type) != list.end(); };
  for (const Json& type : left) {
    const bool both_numeric =
        (type == "integer" && has(right, "number")) || (type == "number" && has(right, "integer"));
    if (std::ranges::find(right, type) != right.end()) {
      out.push_back(type);
    } else if (both_numeric) {
      out.push_back("integer");
    }
  }
  return out;
}

Json both(const Json& left, const Json& right) {
  if (left == right) return left;
  return {{"allOf", Json::array({left, right})}};
}

Json merge_properties(const Json& left, const Json& right) {
  Json out = left;
  for (const auto& [name, schema] : right.items()) {
    const auto old = out.find(name);
    if (old == out.end()) {
      out[name] = schema;
    } else {
      *old = both(*old, schema);
    }
  }
  return out;
}

Json merge_lists(const Json& left, const Json& right) {
  Json out = left;
  for (const Json& item : right) {
    if (std::ranges::find(out, item) == out.end()) out.push_back(item);
  }
  return out;
}

Json intersect_lists(const Json& left, const Json& right) {
  Json out = Json::array();
  for (const Json& item : left) {
    if (std::ranges::find(right, item) != right.end()) out.push_back(item);
  }
  return out;
}

Json merge_keyword(const std::string& key, const Json& left, const Json& right, const std::string& path) {
  if (left == right) return left;
  if (key == "type") return intersect_types(left, right);
  if (key == "enum") return intersect_lists(left, right);
  if (key == "properties") return merge_properties(left, right);
  if (key == "required") return merge_lists(left, right);
  if (key == "items" || key == "additionalProperties") return both(left, right);
  if (key.starts_with("min") || key == "exclusiveMinimum") return left < right ? right : left;
  if (key.starts_with("max") || key == "exclusiveMaximum") return left < right ? left : right;
  fail_unsupported(fmt::format("\"{}\" with two different values in one allOf", key), path);
}

// additionalProperties speaks of the properties beside it only: where it forbids or restricts, the other side must
// not name further ones.
void check_closed(const Json& closed, const Json& other, const std::string& path) {
  const auto rule = closed.find("additionalProperties");
  if (rule == closed.end() || *rule == true || !other.contains("properties")) return;
  for (const auto& [name, schema] : other["properties"].items()) {
    if (closed.contains("properties") && closed["properties"].contains(name)) continue;
    fail_unsupported(fmt::format("additionalProperties in an allOf whose other parts have a property \"{}\"", name),
                     path);
  }
}

// Likewise "items" speaks of the elements after its own prefixItems: the other side must not have more of those.
void check_items(const Json& left, const Json& right, const std::string& path) {
  const auto fixed = [](const Json& flat) { return flat.contains("prefixItems") ? flat["prefixItems"].size() : 0; };
  if ((left.contains("items") && fixed(right) > fixed(left)) ||
      (right.contains("items") && fixed(left) > fixed(right))) {
    fail_unsupported("\"items\" in an allOf whose other parts have \"prefixItems\"", path);
  }
}

}  // namespace

void fail_unsupported(const std::string& what, const std::string& path) {
  fail_input(fmt::format("not supported: {}", what), path,
             "see docs/structured-output.md for the part of JSON Schema that is");
}

void fail_schema(const std::string& what, const std::string& path) { fail_input(what, path, "correct the schema"); }

Json flatten(const Json& schema, const std::string& path) {
  Json flat = Json::object();
  for (const auto& [key, value] : schema.items()) {
    if (std::ranges::find(kIgnored, key) != kIgnored.end() || is_harmless(key, value)) continue;
    const auto known = std::ranges::find(kKeywords, std::string_view(key), &Keyword::name);
    if (known == kKeywords.end()) fail_unsupported(fmt::format("\"{}\"", key), path);
    if (!is_good(value, known->value)) fail_schema(fmt::format("\"{}\" has a value of the wrong kind", key), path);
    if (key == "type") {
      flat["type"] = type_list(value, path);
    } else if (key == "items") {
      set_items(flat, value, path);
    } else if (key != "const") {
      flat[key] = value;
    }
  }
  if (const auto constant = schema.find("const"); constant != schema.end()) {
    const Json one = Json::array({*constant});
    flat["enum"] = flat.contains("enum") ? intersect_lists(flat["enum"], one) : one;
  }
  if (schema.contains("multipleOf") && flat.value("type", Json()) != Json::array({"integer"})) {
    fail_unsupported("\"multipleOf\"", path);
  }
  check_lists(flat, path);
  return flat;
}

Json merge(const Json& left, const Json& right, const std::string& path) {
  check_closed(left, right, path);
  check_closed(right, left, path);
  check_items(left, right, path);
  Json out = left;
  for (const auto& [key, value] : right.items()) {
    const auto old = out.find(key);
    if (old == out.end()) {
      out[key] = value;
    } else {
      *old = merge_keyword(key, *old, value, path);
    }
  }
  return out;
}

}  // namespace kvasir::grammar
