#include "schema_maker.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace kvasir::grammar::testing {
namespace {

// A pattern or format, and a few texts of it.
struct Sample {
  const char* spelling;
  std::vector<std::string> texts;
};

const std::vector<Sample>& patterns() {
  static const std::vector<Sample> all{
      {"^[a-z]+$", {"a", "hello", "zzz"}},
      {"^\\d{3}-\\d{4}$", {"555-1234", "000-0000"}},
      {"^(foo|ba[rz])*$", {"", "foobar", "bazfoo", "barbarbaz"}},
      {"[0-9]", {"7", "a1b", "\xC3\xA9 4"}},
      {"^x", {"x", "xyz", "x\"\\\n"}},
      {"^[^a]{2,3}$", {"bc", "bcd", "\xE2\x82\xAC!"}},
      {"^(a|b)?c{2,}$", {"cc", "accc", "bcccc"}},
      {"^\\w+@\\w+\\.com$|^none$", {"a@b.com", "none"}},
  };
  return all;
}

const std::vector<Sample>& formats() {
  static const std::vector<Sample> all{
      {"date", {"2024-02-29", "1999-12-31", "2000-02-29"}},
      {"time", {"12:34:56Z", "00:00:00.125+01:00"}},
      {"date-time", {"2023-06-30T23:59:59Z", "2024-02-29T01:02:03.5-08:00"}},
      {"uuid", {"123e4567-e89b-12d3-a456-426614174000"}},
      {"email", {"a@example.com", "first.last+tag@mail.example.org"}},
      {"ipv4", {"127.0.0.1", "255.255.255.255", "10.0.0.9"}},
  };
  return all;
}

}  // namespace

std::string SchemaMaker::word(std::size_t least, std::size_t most) {
  static const std::array<const char*, 16> characters{"a",
                                                      "b",
                                                      "c",
                                                      "x",
                                                      "y",
                                                      " ",
                                                      "_",
                                                      "0",
                                                      "9",
                                                      "A",
                                                      "\"",
                                                      "\\",
                                                      "\n",
                                                      "\xC3\xA9",
                                                      "\xE6\xBC\xA2",
                                                      "\xF0\x9F\x99\x82"};
  std::string out;
  for (std::size_t i = least + below(most - least + 1); i > 0; --i) out += characters[below(characters.size())];
  return out;
}

Json SchemaMaker::schema() {
  Json root = any_schema(0);
  root["$defs"] = {
      {"list",
       {{"type", "object"},
        {"properties",
         {{"v", {{"type", "integer"}}}, {"next", {{"anyOf", {{{"$ref", "#/$defs/list"}}, {{"type", "null"}}}}}}}},
        {"required", {"v", "next"}},
        {"additionalProperties", false}}},
      {"tree", {{"type", "array"}, {"items", {{"$ref", "#/$defs/tree"}}}, {"maxItems", 3}}},
      {"leaf", any_schema(2)},
  };
  return root;
}

Json SchemaMaker::any_schema(int depth) {
  if (depth > 0 && chance(8)) {
    static const std::array<const char*, 2> names{"#/$defs/list", "#/$defs/tree"};
    return {{"$ref", names[below(names.size())]}, {"description", "a reference"}};
  }
  switch (below(depth < 3 ? 9 : 6)) {
    case 0:
      return string_schema();
    case 1:
      return number_schema();
    case 2:
      return {{"type", chance(2) ? "boolean" : "null"}};
    case 3:
      return {{"enum", {"red", "green \"x\"", 3, nullptr, 2.5, Json::array({1, "b"})}}, {"title", "a choice"}};
    case 4:
      return {{"const", word(0, 4)}};
    case 5:
      return {{"type", {"string", "integer", "null"}}};
    case 6:
      if (chance(2)) return {{"anyOf", {any_schema(depth + 1), any_schema(depth + 1)}}};
      return {{"oneOf", {tagged_schema("left", depth), tagged_schema("right", depth)}}};
    case 7:
      return object_schema(depth);
    default:
      return array_schema(depth);
  }
}

Json SchemaMaker::string_schema() {
  Json out{{"type", "string"}};
  switch (below(5)) {
    case 0:
      out["pattern"] = patterns()[below(patterns().size())].spelling;
      break;
    case 1:
      out["format"] = formats()[below(formats().size())].spelling;
      break;
    case 2:
      out["minLength"] = below(4);
      out["maxLength"] = 3 + below(20);
      break;
    case 3:
      out["minLength"] = below(10);
      break;
    default:
      break;
  }
  return out;
}

Json SchemaMaker::number_schema() {
  Json out{{"type", chance(2) ? "integer" : "number"}};
  const auto low = static_cast<double>(below(2000)) / 8 - 125;
  if (chance(2)) out[chance(2) ? "minimum" : "exclusiveMinimum"] = low;
  if (chance(2)) out[chance(2) ? "maximum" : "exclusiveMaximum"] = low + 2 + static_cast<double>(below(100000)) / 4;
  return out;
}

Json SchemaMaker::object_schema(int depth) {
  Json out{{"type", "object"}};
  if (chance(8)) return out;
  static const std::array<const char*, 7> names{"a", "ab", "abc", "name", "\xC3\xA9t\xC3\xA9", "q\"", "n\n"};
  Json required = Json::array();
  out["properties"] = Json::object();
  for (const char* name : names) {
    if (chance(2)) continue;
    out["properties"][name] = any_schema(depth + 1);
    if (chance(2)) required.push_back(name);
  }
  out["required"] = required;
  if (chance(3))
    out["additionalProperties"] = false;
  else if (chance(3))
    out["additionalProperties"] = any_schema(depth + 2);
  if (chance(6) && !out.contains("additionalProperties")) {
    return {{"allOf",
             {out, {{"type", "object"}, {"properties", {{"more", any_schema(depth + 1)}}}, {"required", {"more"}}}}}};
  }
  return out;
}

Json SchemaMaker::tagged_schema(const char* tag, int depth) {
  return {{"type", "object"},
          {"properties", {{"kind", {{"const", tag}}}, {"value", any_schema(depth + 1)}}},
          {"required", {"kind"}}};
}

Json SchemaMaker::array_schema(int depth) {
  Json out{{"type", "array"}};
  if (chance(4)) out["prefixItems"] = {any_schema(depth + 1), any_schema(depth + 1)};
  if (!chance(4)) out["items"] = any_schema(depth + 1);
  const bool closed = out.contains("prefixItems") && !out.contains("items");
  if (chance(2)) out["minItems"] = below(closed ? 3 : 4);
  if (chance(2)) out["maxItems"] = 3 + below(4);
  return out;
}

// Deep down, the alternative without recursion is the last.
Json SchemaMaker::value_at(const Json& schema, const Json& root, int depth) {
  if (schema.is_boolean()) return free_value();
  if (schema.contains("$ref")) {
    return value_at(root.at(Json::json_pointer(schema["$ref"].get<std::string>().substr(1))), root, depth + 1);
  }
  if (schema.contains("allOf")) {
    Json out = Json::object();
    for (const Json& part : schema["allOf"]) out.update(value_at(part, root, depth));
    return out;
  }
  for (const char* key : {"anyOf", "oneOf"}) {
    if (!schema.contains(key)) continue;
    const std::size_t count = schema[key].size();
    return value_at(schema[key][depth > 6 ? count - 1 : below(count)], root, depth + 1);
  }
  if (schema.contains("const")) return schema["const"];
  if (schema.contains("enum")) return schema["enum"][below(schema["enum"].size())];
  const Json& type = schema["type"];
  return typed_value(type.is_array() ? type[below(type.size())] : type, schema, root, depth);
}

Json SchemaMaker::typed_value(const std::string& type, const Json& schema, const Json& root, int depth) {
  if (type == "string") return string_value(schema);
  if (type == "boolean") return chance(2);
  if (type == "null") return nullptr;
  if (type == "object") return object_value(schema, root, depth);
  if (type == "array") return array_value(schema, root, depth);
  return number_value(type, schema);
}

std::string SchemaMaker::string_value(const Json& schema) {
  for (const auto& [key, samples] : {std::pair{"pattern", &patterns()}, std::pair{"format", &formats()}}) {
    if (!schema.contains(key)) continue;
    for (const Sample& sample : *samples) {
      if (schema[key] == sample.spelling) return sample.texts[below(sample.texts.size())];
    }
  }
  const std::size_t least = schema.value("minLength", std::size_t{0});
  return word(least, schema.value("maxLength", least + 10));
}

Json SchemaMaker::number_value(const std::string& type, const Json& schema) {
  const double low =
      schema.contains("minimum") ? schema["minimum"].get<double>() : schema.value("exclusiveMinimum", -1000.0);
  const double high =
      schema.contains("maximum") ? schema["maximum"].get<double>() : schema.value("exclusiveMaximum", low + 100000);
  // Eighths: exact as doubles and short as text. Strictly between, unless that leaves nothing.
  const auto steps = static_cast<std::size_t>((high - low) * 8);
  const double number = low + static_cast<double>(1 + below(steps - 1)) / 8;
  if (type == "number") return number;
  const auto whole = static_cast<std::int64_t>(number);
  return static_cast<double>(whole) > low && static_cast<double>(whole) < high ? whole
                                                                               : static_cast<std::int64_t>(low + 1);
}

Json SchemaMaker::object_value(const Json& schema, const Json& root, int depth) {
  Json out = Json::object();
  const Json required = schema.value("required", Json::array());
  const Json properties = schema.value("properties", Json::object());
  for (const auto& [name, part] : properties.items()) {
    const bool needed = std::ranges::find(required, Json(name)) != required.end();
    if (needed || (depth < 6 && chance(2))) out[name] = value_at(part, root, depth + 1);
  }
  const bool open = schema.contains("additionalProperties") || !schema.contains("properties");
  const Json additional = schema.value("additionalProperties", Json(true));
  if (!open || additional == false || depth > 6) return out;
  for (const char* name : {"", "a b", "abcd", "nam", "\xC3\xA9", "zz"}) {
    if (chance(3) && !properties.contains(name)) out[name] = value_at(additional, root, depth + 1);
  }
  return out;
}

Json SchemaMaker::array_value(const Json& schema, const Json& root, int depth) {
  const std::size_t least = schema.value("minItems", std::size_t{0});
  std::size_t most = schema.value("maxItems", least + 3);
  const Json prefix = schema.value("prefixItems", Json::array());
  if (!prefix.empty() && !schema.contains("items")) most = std::min(most, prefix.size());
  const std::size_t count = depth > 6 ? least : least + below(most - least + 1);
  const Json items = schema.value("items", Json(true));
  Json out = Json::array();
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(value_at(i < prefix.size() ? prefix[i] : items, root, depth + 1));
  }
  return out;
}

Json SchemaMaker::free_value() {
  static const Json values{1,
                           -2.5,
                           "text \"quoted\"",
                           nullptr,
                           true,
                           Json::array({1, Json::array(), Json::object()}),
                           {{"k", {{"nested", "\xE6\xBC\xA2"}}}, {"", false}},
                           1e-7,
                           123456789012345};
  return values[below(values.size())];
}

}  // namespace kvasir::grammar::testing
