#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "grammar/schema_expansion.h"
#include "grammar/schema_keywords.h"
#include "grammar/schema_negation.h"

namespace kvasir::grammar {
namespace {

Json taken(Json& flat, const char* key) {
  const auto found = flat.find(key);
  if (found == flat.end()) return nullptr;
  Json out = std::move(*found);
  flat.erase(key);
  return out;
}

// What unevaluatedProperties and unevaluatedItems will not speak of.
Json evaluated_by(const Json& flat) {
  Json out = Json::object();
  for (const auto& [key, list] : {std::pair{"properties", "names"}, std::pair{"patternProperties", "patterns"}}) {
    if (!flat.contains(key)) continue;
    out[list] = Json::array();
    for (const auto& [name, schema] : flat[key].items()) out[list].push_back(name);
  }
  if (flat.contains("additionalProperties")) out["allNames"] = true;
  if (flat.contains("prefixItems")) out["items"] = flat["prefixItems"].size();
  if (flat.contains("items")) out["allItems"] = true;
  if (flat.contains("contains")) out["contains"] = true;
  return out;
}

}  // namespace

Json SchemaExpansion::flatten(const Json& schema, const std::string& path) {
  Json flat = read_keywords(schema, path);
  const Json evaluated = document_.has_unevaluated() ? evaluated_by(flat) : Json::object();
  flatten_object(flat, path);
  flatten_array(flat, path);
  if (const Json values = taken(flat, "enum"); !values.is_null()) flat = filtered(values, flat, path);
  if (!evaluated.empty()) flat["$evaluated"] = evaluated;
  return flat;
}

// patternProperties, additionalProperties and propertyNames speak of all names: of those that are known here, what
// they say goes to `properties`, and the rest is said of names by rule.
void SchemaExpansion::flatten_object(Json& flat, const std::string& path) {
  const Json patterns = taken(flat, "patternProperties");
  const Json others = taken(flat, "additionalProperties");
  const Json names = taken(flat, "propertyNames");
  const bool describes = flat.contains("properties") || patterns.is_object();
  Json rules = Json::array();
  Json unmatched = Json::array();
  if (patterns.is_object()) {
    for (const auto& [pattern, schema] : patterns.items()) {
      const Language& language = languages_.of_pattern(pattern, path + ".patternProperties");
      if (flat.contains("properties")) {
        for (auto& [name, known] : flat["properties"].get_ref<Json::object_t&>()) {
          if (language.contains(name)) known = both(known, schema, path);
        }
      }
      if (!is_true(schema)) rules.push_back({{"names", {{"pattern", pattern}}}, {"schema", schema}});
      unmatched.push_back(opposite({{"pattern", pattern}}));
    }
  }
  if (!others.is_null() && !is_true(others)) {
    rules.push_back({{"names", unmatched.empty() ? Json(true) : Json{{"allOf", unmatched}}}, {"schema", others}});
  }
  if (!rules.empty()) flat["$names"] = rules;
  if (!others.is_null()) {
    if (!is_false(others)) flat["$open"] = true;
  } else if (describes) {
    flat["$named"] = Json::array();
    if (patterns.is_object()) {
      for (const auto& [pattern, schema] : patterns.items()) flat["$named"].push_back(pattern);
    }
  }
  if (names.is_null() || is_true(names)) return;
  flat["propertyNames"] = Json::array({names});
  if (!flat.contains("properties")) return;
  bool is_exact = true;
  for (auto& [name, known] : flat["properties"].get_ref<Json::object_t&>()) {
    const Truth truth = holds(name, names, path + ".propertyNames");
    if (truth != Truth::kYes) known = false;
    is_exact = is_exact && truth != Truth::kUnknown;
  }
  if (!is_exact) flat["$inexact"] = "\"propertyNames\"";
}

void SchemaExpansion::flatten_array(Json& flat, const std::string& path) {
  const Json what = taken(flat, "contains");
  const Json least = taken(flat, "minContains");
  const Json most = taken(flat, "maxContains");
  if (what.is_null()) return;
  if (document_.is_old_draft() && (!least.is_null() || !most.is_null())) {
    fail_unsupported("\"minContains\" and \"maxContains\" before draft 2019-09", path);
  }
  Json some{{"from", 0}, {"schema", what}, {"least", least.is_null() ? Json(1) : least}};
  if (!most.is_null()) some["most"] = most;
  if (some["least"] > 0 || some.contains("most")) flat["$some"] = Json::array({some});
}

}  // namespace kvasir::grammar
