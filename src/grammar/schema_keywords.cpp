#include "grammar/schema_keywords.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <variant>

#include "base/bounded_json.h"
#include "base/error.h"
#include "grammar/formats.h"

namespace kvasir::grammar {
namespace {

enum class Value { kAny, kCount, kNumber, kString, kArray, kNames, kObject, kSchema, kSchemas, kFlag };

struct Keyword {
  std::string_view name;
  Value value;
};

// What is understood, with what each must be.
constexpr std::array<Keyword, 28> kKeywords{{
    {"type", Value::kAny},
    {"enum", Value::kArray},
    {"const", Value::kAny},
    {"properties", Value::kObject},
    {"patternProperties", Value::kObject},
    {"additionalProperties", Value::kSchema},
    {"propertyNames", Value::kSchema},
    {"required", Value::kNames},
    {"minProperties", Value::kCount},
    {"maxProperties", Value::kCount},
    {"items", Value::kAny},
    {"prefixItems", Value::kSchemas},
    {"additionalItems", Value::kSchema},
    {"contains", Value::kSchema},
    {"minContains", Value::kCount},
    {"maxContains", Value::kCount},
    {"uniqueItems", Value::kFlag},
    {"minItems", Value::kCount},
    {"maxItems", Value::kCount},
    {"minLength", Value::kCount},
    {"maxLength", Value::kCount},
    {"pattern", Value::kString},
    {"format", Value::kString},
    {"multipleOf", Value::kNumber},
    {"minimum", Value::kNumber},
    {"maximum", Value::kNumber},
    {"exclusiveMinimum", Value::kAny},
    {"exclusiveMaximum", Value::kAny},
}};

// Read by SchemaExpansion.
constexpr std::array<std::string_view, 13> kStructure{"$ref",
                                                      "allOf",
                                                      "anyOf",
                                                      "oneOf",
                                                      "not",
                                                      "if",
                                                      "then",
                                                      "else",
                                                      "dependentRequired",
                                                      "dependentSchemas",
                                                      "dependencies",
                                                      "unevaluatedItems",
                                                      "unevaluatedProperties"};

// What says nothing about which values are valid.
constexpr std::array<std::string_view, 34> kIgnored{"$schema",
                                                    "$id",
                                                    "$comment",
                                                    "$defs",
                                                    "definitions",
                                                    "title",
                                                    "description",
                                                    "default",
                                                    "examples",
                                                    "example",
                                                    "deprecated",
                                                    "readOnly",
                                                    "writeOnly",
                                                    "contentEncoding",
                                                    "nullable",
                                                    "$anchor",
                                                    "$vocabulary",
                                                    "$dynamicAnchor",
                                                    "contentMediaType",
                                                    "contentSchema",
                                                    "discriminator",
                                                    "$recursiveAnchor",
                                                    "id",
                                                    "enumNames",
                                                    "enumDescriptions",
                                                    "markdownDescription",
                                                    "xml",
                                                    "externalDocs",
                                                    "propertyOrdering",
                                                    "errorMessage",
                                                    "unit",
                                                    "units",
                                                    "prefault",
                                                    "order"};

bool is_schema(const Json& value) { return value.is_object() || value.is_boolean(); }

bool is_whole(const Json& value) {
  if (value.is_number_integer()) return true;
  if (!value.is_number_float()) return false;
  const double number = value.get<double>();
  return std::abs(number) < 1e15 && std::floor(number) == number;
}

bool is_good(const Json& value, Value kind) {
  switch (kind) {
    case Value::kAny:
      return true;
    case Value::kCount:
      return is_whole(value) && value >= 0;
    case Value::kNumber:
      return value.is_number();
    case Value::kString:
      return value.is_string();
    case Value::kArray:
      return value.is_array();
    case Value::kNames:
      return value.is_array() && std::ranges::all_of(value, [](const Json& name) { return name.is_string(); });
    case Value::kObject:
      return value.is_object() && std::ranges::all_of(value, is_schema);
    case Value::kSchema:
      return is_schema(value);
    case Value::kSchemas:
      return value.is_array() && std::ranges::all_of(value, is_schema);
    case Value::kFlag:
      return value.is_boolean();
  }
  return false;
}

Json type_list(const Json& type, const std::string& path) {
  Json out = Json::array();
  const auto add = [&](std::string_view name) {
    if (std::ranges::find(out, name) == out.end()) out.push_back(name);
  };
  for (const Json& one : type.is_array() ? type : Json::array({type})) {
    if (one == "number") {
      add("integer");
      add("fraction");
    } else if (one.is_string() && one != "fraction" &&
               std::ranges::find(kAtomicTypes, one.get<std::string_view>()) != kAtomicTypes.end()) {
      add(one.get<std::string_view>());
    } else {
      fail_schema(fmt::format("\"type\" is {}", one.dump()), path);
    }
  }
  return out;
}

// Older drafts write prefixItems as a list under items, and what is now items as additionalItems.
void set_items(Json& flat, const Json& items, const std::string& path) {
  if (is_schema(items)) {
    flat["items"] = items;
    flat.erase("additionalItems");
  } else if (is_good(items, Value::kSchemas)) {
    flat["prefixItems"] = items;
    const Json others = flat.value("additionalItems", Json());
    if (!others.is_null()) flat["items"] = others;
  } else {
    fail_schema("\"items\" is neither a schema nor a list of them", path);
  }
}

// Draft 4 has "exclusiveMinimum": true beside "minimum".
void set_exclusive(Json& flat, const char* exclusive, const char* inclusive, const std::string& path) {
  const auto found = flat.find(exclusive);
  if (found == flat.end() || found->is_number()) return;
  if (!found->is_boolean()) fail_schema(fmt::format("\"{}\" has a value of the wrong kind", exclusive), path);
  const bool is_exclusive = found->get<bool>();
  flat.erase(exclusive);
  if (!is_exclusive || !flat.contains(inclusive)) return;
  const Json limit = flat[inclusive];
  flat.erase(inclusive);
  flat[exclusive] = limit;
}

// A format beside a pattern that is its definition, as zod writes them, adds nothing to it.
void set_format(Json& flat, const std::string& path) {
  const auto found = flat.find("format");
  if (found == flat.end()) return;
  const std::string format = found->get<std::string>();
  flat.erase("format");
  if (const std::optional<NumberFormat> number = number_format(format)) {
    flat["$inexact"] = fmt::format("\"format\": \"{}\"", format);
    const auto tighten = [&](const char* key, const std::string& limit, bool (*tighter)(const Json&, const Json&)) {
      if (limit.empty()) return;
      const Json value = std::get<Json>(read_bounded_json(limit, {}));
      if (!flat.contains(key) || tighter(value, flat[key])) flat[key] = value;
    };
    tighten("minimum", number->least, [](const Json& a, const Json& b) { return b < a; });
    tighten("maximum", number->most, [](const Json& a, const Json& b) { return a < b; });
    return;
  }
  const std::optional<std::string> pattern = pattern_of_format(format);
  if (!pattern && flat.contains("pattern")) return;
  // It may be there for another type than the one it is for; then it says nothing.
  const auto type = flat.find("type");
  const bool no_string = type != flat.end() && std::ranges::find(*type, "string") == type->end();
  if (no_string || (pattern && pattern->empty())) return;
  if (!pattern) fail_unsupported(fmt::format("\"format\": \"{}\"", format), path);
  flat["format"] = Json::array({format});
}

}  // namespace

std::vector<std::string_view> types_of_keyword(std::string_view name) {
  constexpr std::array<std::string_view, 6> strings{"minLength", "maxLength",   "pattern",
                                                    "format",    "$notPattern", "contentEncoding"};
  constexpr std::array<std::string_view, 5> numbers{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
                                                    "multipleOf"};
  constexpr std::array<std::string_view, 6> arrays{"items",    "prefixItems", "minItems",
                                                   "maxItems", "uniqueItems", "$some"};
  constexpr std::array<std::string_view, 10> objects{"properties",    "required", "minProperties", "maxProperties",
                                                     "propertyNames", "$names",   "$exists",       "$named",
                                                     "$open",         "$need"};
  const auto has = [name](const auto& list) { return std::ranges::find(list, name) != list.end(); };
  if (has(strings)) return {"string"};
  if (has(numbers)) return {"integer", "fraction"};
  if (has(arrays)) return {"array"};
  if (has(objects)) return {"object"};
  return {};
}

bool is_of_type(const Json& value, std::string_view type) {
  if (type == "string") return value.is_string();
  if (type == "integer") return is_whole(value) || (value.is_number() && std::abs(value.get<double>()) >= 1e15);
  if (type == "fraction") return value.is_number() && !is_of_type(value, "integer");
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  return type == "object" ? value.is_object() : value.is_array();
}

bool is_true(const Json& schema) { return schema == true || (schema.is_object() && schema.empty()); }
bool is_false(const Json& schema) { return schema == false; }

void fail_unsupported(const std::string& what, const std::string& path) {
  fail_input(fmt::format("not supported: {}", what), path,
             "see docs/structured-output.md for the part of JSON Schema that is");
}

void fail_schema(const std::string& what, const std::string& path) { fail_input(what, path, "correct the schema"); }

Json read_keywords(const Json& schema, const std::string& path) {
  Json flat = Json::object();
  const auto is_one_of = [](const auto& list, std::string_view key) {
    return std::ranges::find(list, key) != list.end();
  };
  for (const auto& [key, value] : schema.items()) {
    if (is_one_of(kIgnored, key) || is_one_of(kStructure, key) || key.starts_with("x-")) continue;
    const auto known = std::ranges::find(kKeywords, std::string_view(key), &Keyword::name);
    if (known == kKeywords.end()) fail_unsupported(fmt::format("\"{}\"", key), path);
    if (!is_good(value, known->value)) fail_schema(fmt::format("\"{}\" has a value of the wrong kind", key), path);
    if (key == "type") {
      flat["type"] = type_list(value, path);
    } else if (known->value == Value::kCount && value.is_number_float()) {
      flat[key] = static_cast<std::uint64_t>(value.get<double>());
    } else if (key != "const" && key != "items") {
      flat[key] = value;
    }
  }
  if (const auto items = schema.find("items"); items != schema.end()) set_items(flat, *items, path);
  flat.erase("additionalItems");
  if (const auto constant = schema.find("const"); constant != schema.end()) {
    const bool fits = !flat.contains("enum") || std::ranges::find(flat["enum"], *constant) != flat["enum"].end();
    flat["enum"] = fits ? Json::array({*constant}) : Json::array();
  }
  set_exclusive(flat, "exclusiveMinimum", "minimum", path);
  set_exclusive(flat, "exclusiveMaximum", "maximum", path);
  if (schema.value("nullable", Json()) == true) flat["$inexact"] = "\"nullable\"";
  set_format(flat, path);
  for (const char* key : {"pattern", "multipleOf"}) {
    if (flat.contains(key)) flat[key] = Json::array({Json(flat[key])});
  }
  if (flat.value("uniqueItems", Json()) == false) flat.erase("uniqueItems");
  return flat;
}

}  // namespace kvasir::grammar
