#include "set_maker.h"

namespace kvasir::grammar::testing {

// Few values: a walk meets them again and again, and they run out.
Json SetMaker::small_element() {
  switch (random_.below(6)) {
    case 0:
      return {{"type", "integer"}, {"minimum", -3}, {"maximum", static_cast<int>(9 + random_.below(10))}};
    case 1:
      return {{"type", "number"}, {"minimum", 0}, {"maximum", 8}, {"multipleOf", 0.5}};
    case 2:
      return {{"type", "string"}, {"pattern", "^[ab\"\\n]{1,3}$"}};
    case 3:
      return {{"type", "string"}, {"pattern", "^(a|ab|abc|b|bc)(x|y)?(, )?$"}};
    case 4:
      return {{"enum", {1, 1.5, -0.0, 10, 100, 1e3, "a", "ab", "\xC3\xA9", "\"", nullptr, true, false, "1", "]"}}};
    default:
      return {{"type", {"integer", "boolean", "null"}}, {"minimum", 1}, {"maximum", 12}};
  }
}

Json SetMaker::element(int depth) {
  const auto part = [&] { return depth < 2 ? element(depth + 1) : small_element(); };
  switch (random_.below(14)) {
    case 0:
      return {{"type", "integer"}};
    case 1:
      return {{"type", "number"}};
    case 2:
      return {{"type", "string"}};
    case 3:
      return {{"type", "string"}, {"maxLength", random_.below(4)}};
    case 4:
      return Json(true);
    case 5:
      return {{"anyOf", {part(), part()}}};
    case 6:
      return {{"type", "array"}, {"prefixItems", {part(), part()}}, {"minItems", random_.below(3)}};
    case 7:
      return {{"type", "array"}, {"items", part()}, {"maxItems", 1 + random_.below(3)}};
    case 8:
      return {{"type", "object"},
              {"properties", {{"b", part()}, {"a", part()}}},
              {"required", random_.chance(2) ? Json{"b"} : Json::array()},
              {"additionalProperties", random_.chance(2) ? Json(false) : small_element()}};
    case 9:
      return {{"type", "object"}, {"additionalProperties", small_element()}};
    case 10:
      return depth < 2 ? set(depth + 1) : small_element();
    default:
      return small_element();
  }
}

Json SetMaker::set(int depth) {
  Json out{{"type", "array"}, {"uniqueItems", true}, {"items", element(depth)}};
  if (random_.chance(3)) out["minItems"] = random_.below(6);
  if (random_.chance(4)) out["maxItems"] = 5 + random_.below(9);
  if (random_.chance(6)) out["prefixItems"] = Json::array({element(depth), element(depth)});
  return out;
}

Json SetMaker::schema() {
  switch (random_.below(8)) {
    case 0:
      return {{"anyOf", {set(0), {{"type", "array"}, {"items", element(1)}}}}};
    case 1:
      return {{"anyOf", {set(0), set(0)}}};
    case 2:
      return {{"type", "object"}, {"properties", {{"a", set(0)}, {"b", set(1)}}}, {"required", {"a", "b"}}};
    case 3:
      return {{"type", "array"}, {"items", set(1)}, {"minItems", 1 + random_.below(3)}};
    case 4:
      return {{"$defs", {{"t", {{"anyOf", {{{"type", "array"}, {"items", {{"$ref", "#/$defs/t"}}}}, set(1)}}}}}},
              {"$ref", "#/$defs/t"}};
    default:
      return set(0);
  }
}

}  // namespace kvasir::grammar::testing
