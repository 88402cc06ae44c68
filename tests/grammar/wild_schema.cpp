#include "wild_schema.h"

#include <array>

namespace kvasir::grammar::testing {

std::string WildSchemas::name() {
  static const std::array<const char*, 5> names{"a", "b", "ab", "c", "kind"};
  return names[random_.below(names.size())];
}

std::string WildSchemas::pattern() {
  static const std::array<const char*, 9> patterns{"^a",    "b$",         "^[ab]*$",  "c",         "^k",
                                                   "^.{2}", "^(?!a).*b$", "^a?b?c?$", "^(a|b|ab)$"};
  return patterns[random_.below(patterns.size())];
}

Json WildSchemas::schema() {
  Json root = any(0);
  if (root.is_boolean()) root = Json::object();
  root["$defs"] = {{"leaf", plain(3)},
                   {"tree", {{"type", "array"}, {"items", {{"$ref", "#/$defs/tree"}}}, {"maxItems", 2}}},
                   {"named", {{"$anchor", "here"}, {"type", random_.chance(2) ? "string" : "object"}}},
                   {"record",
                    {{"type", "object"},
                     {"properties", {{"kind", {{"const", "r"}}}, {"a", plain(3)}}},
                     {"required", {"kind"}},
                     {"additionalProperties", false}}}};
  return root;
}

Json WildSchemas::any(int depth) {
  if (random_.chance(12)) return random_.chance(3) ? Json(false) : Json(true);
  Json out = depth < 3 && random_.chance(2) ? combined(depth) : plain(depth);
  // Now and then two kinds of keywords in one schema.
  if (random_.chance(3)) {
    const Json more = depth < 3 && random_.chance(2) ? combined(depth) : plain(depth);
    for (const auto& [key, value] : more.items()) {
      if (!out.contains(key)) out[key] = value;
    }
  }
  return out;
}

Json WildSchemas::plain(int depth) {
  static const std::array<const char*, 7> types{"string", "number", "integer", "boolean", "null", "object", "array"};
  switch (random_.below(9)) {
    case 0:
      return {{"type", types[random_.below(types.size())]}};
    case 1:
      return {{"type", {types[random_.below(types.size())], types[random_.below(types.size())]}}};
    case 2:
      return {{"const", value(1)}};
    case 3:
      return {{"enum", Json::array({value(1), value(1), value(1)})}};
    case 4:
      return text();
    case 5:
      return number();
    case 6:
      return array(depth);
    default:
      return object(depth);
  }
}

Json WildSchemas::text() {
  Json out = random_.chance(3) ? Json::object() : Json{{"type", "string"}};
  if (random_.chance(3)) out["minLength"] = random_.below(3);
  if (random_.chance(3)) out["maxLength"] = random_.below(4);
  if (random_.chance(2)) out["pattern"] = pattern();
  if (random_.chance(6)) out["format"] = random_.chance(2) ? "date" : "uuid";
  return out;
}

Json WildSchemas::number() {
  Json out = random_.chance(3) ? Json::object() : Json{{"type", random_.chance(2) ? "integer" : "number"}};
  const auto bound = [&] { return static_cast<double>(random_.below(12)) / 2 - 1; };
  if (random_.chance(3)) out["minimum"] = bound();
  if (random_.chance(3)) out["maximum"] = bound();
  if (random_.chance(4)) out["exclusiveMinimum"] = bound();
  if (random_.chance(4)) out["exclusiveMaximum"] = bound();
  if (random_.chance(4)) out["multipleOf"] = random_.chance(2) ? 2.0 : 0.5;
  return out;
}

Json WildSchemas::object(int depth) {
  Json out = random_.chance(3) ? Json::object() : Json{{"type", "object"}};
  const auto part = [&] { return depth < 3 ? any(depth + 1) : plain(depth + 1); };
  if (depth > 3) return out;
  if (random_.chance(2)) {
    for (std::size_t i = random_.below(3); i > 0; --i) out["properties"][name()] = part();
  }
  if (random_.chance(3)) out["required"] = Json::array({name()});
  if (random_.chance(3)) out["additionalProperties"] = random_.chance(2) ? Json(false) : part();
  if (random_.chance(5)) out["patternProperties"][pattern()] = part();
  if (random_.chance(8)) out["patternProperties"][pattern()] = part();
  if (random_.chance(5)) out["propertyNames"] = random_.chance(2) ? text() : Json{{"enum", {"a", "b", "kind"}}};
  if (random_.chance(6)) out["minProperties"] = random_.below(3);
  if (random_.chance(6)) out["maxProperties"] = random_.below(3);
  if (random_.chance(8)) out["dependentRequired"][name()] = Json::array({name()});
  if (random_.chance(8)) out["dependentSchemas"][name()] = part();
  if (random_.chance(8)) out["unevaluatedProperties"] = random_.chance(2) ? Json(false) : part();
  return out;
}

Json WildSchemas::array(int depth) {
  Json out = random_.chance(3) ? Json::object() : Json{{"type", "array"}};
  const auto part = [&] { return depth < 3 ? any(depth + 1) : plain(depth + 1); };
  if (depth > 3) return out;
  if (random_.chance(4)) out["prefixItems"] = Json::array({part()});
  if (random_.chance(2)) out["items"] = part();
  if (random_.chance(3)) out["contains"] = part();
  if (out.contains("contains") && random_.chance(3)) out["minContains"] = random_.below(3);
  if (out.contains("contains") && random_.chance(3)) out["maxContains"] = random_.below(3);
  if (random_.chance(3)) out["minItems"] = random_.below(3);
  if (random_.chance(3)) out["maxItems"] = random_.below(4);
  if (random_.chance(5)) out["uniqueItems"] = true;
  if (random_.chance(8)) out["unevaluatedItems"] = random_.chance(2) ? Json(false) : part();
  return out;
}

Json WildSchemas::list(int depth) {
  Json out = Json::array({any(depth + 1)});
  for (std::size_t i = random_.below(3); i > 0; --i) out.push_back(any(depth + 1));
  return out;
}

Json WildSchemas::combined(int depth) {
  switch (random_.below(7)) {
    case 0:
      return {{"allOf", list(depth)}};
    case 1:
      return {{"anyOf", list(depth)}};
    case 2:
      return {{"oneOf", list(depth)}};
    case 3:
      return {{"not", any(depth + 1)}};
    case 4: {
      Json out{{"if", any(depth + 1)}};
      if (random_.chance(2)) out["then"] = any(depth + 1);
      if (random_.chance(2)) out["else"] = any(depth + 1);
      return out;
    }
    default: {
      static const std::array<const char*, 4> places{"#/$defs/leaf", "#/$defs/tree", "#here", "#/$defs/record"};
      return {{"$ref", places[random_.below(places.size())]}};
    }
  }
}

Json WildSchemas::value(int depth) {
  static const std::array<Json, 17> values{nullptr, true, false, 0,   1,    2,    -1,    1.5, 0.5,
                                           "",      "a",  "b",   "r", "ab", "bc", "abc", 3};
  const std::size_t kind = random_.below(depth > 1 ? 4 : 7);
  if (kind < 4) return values[random_.below(values.size())];
  Json out = kind == 4 ? Json::array() : Json::object();
  for (std::size_t i = random_.below(4); i > 0; --i) {
    if (kind == 4) {
      out.push_back(value(depth + 1));
    } else {
      out[name()] = value(depth + 1);
    }
  }
  return out;
}

}  // namespace kvasir::grammar::testing
