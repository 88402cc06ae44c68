#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "grammar/schema_expansion.h"
#include "grammar/schema_keywords.h"

namespace kvasir::grammar {
namespace {

// How deep into properties of properties two schemas are compared, and how large they may be: beyond that they are
// put together without a look at what comes of it.
constexpr int kMaxLooks = 3;
constexpr std::size_t kMaxLookBytes = 4096;

Json united(const Json& left, const Json& right) {
  Json out = left;
  for (const Json& item : right) {
    if (std::ranges::find(out, item) == out.end()) out.push_back(item);
  }
  return out;
}

Json intersected(const Json& left, const Json& right) {
  Json out = Json::array();
  for (const Json& item : left) {
    if (std::ranges::find(right, item) != right.end()) out.push_back(item);
  }
  return out;
}

Json merged_evaluated(const Json& left, const Json& right) {
  Json out = left;
  for (const auto& [key, value] : right.items()) {
    if (!out.contains(key)) {
      out[key] = value;
    } else if (value.is_array()) {
      out[key] = united(out[key], value);
    } else if (value.is_number() && out[key] < value) {
      out[key] = value;
    }
  }
  return out;
}

// Whether any of the flat schema's limits leave nothing between them.
bool nothing_between(const Json& flat, const char* least, const char* most) {
  return flat.contains(least) && flat.contains(most) && flat[most] < flat[least];
}

bool no_number(const Json& flat) {
  const auto touch = [&](const char* least, const char* most) {
    return flat.contains(least) && flat.contains(most) && flat[most] <= flat[least];
  };
  return nothing_between(flat, "minimum", "maximum") || touch("exclusiveMinimum", "maximum") ||
         touch("minimum", "exclusiveMaximum") || touch("exclusiveMinimum", "exclusiveMaximum");
}

// The tighter of an inclusive and an exclusive limit is the only one.
void keep_tighter(Json& flat, const char* inclusive, const char* exclusive, bool least) {
  if (!flat.contains(inclusive) || !flat.contains(exclusive)) return;
  const Json& in = flat[inclusive];
  const Json& ex = flat[exclusive];
  const bool in_is_tighter = least ? ex < in : in < ex;
  flat.erase(in_is_tighter ? exclusive : inclusive);
}

void remove_types(Json& flat, std::initializer_list<std::string_view> types) {
  Json left = Json::array();
  for (const std::string_view type : kAtomicTypes) {
    const bool had = !flat.contains("type") || std::ranges::find(flat["type"], type) != flat["type"].end();
    if (had && std::ranges::find(types, type) == types.end()) left.push_back(type);
  }
  if (!flat.contains("type") || left.size() < flat["type"].size()) flat["type"] = left;
}

}  // namespace

Json SchemaExpansion::both(const Json& left, const Json& right, const std::string& path) {
  if (left == right || is_true(right)) return left;
  if (is_true(left)) return right;
  if (is_false(left) || is_false(right)) return false;
  const Json together{{"allOf", Json::array({left, right})}};
  const std::size_t size = looks_ >= kMaxLooks ? kMaxLookBytes : left.dump().size() + right.dump().size();
  spend(1 + size / 16, path);
  if (size >= kMaxLookBytes) return together;
  ++looks_;
  const Flats flats = expand(together, path);
  Json out = together;
  if (flats.empty()) {
    out = false;
  } else if (flats == expand(left, path)) {
    out = left;
  } else if (flats == expand(right, path)) {
    out = right;
  } else if (flats.size() == 1 && flats.front().contains("enum") && !flats.front().contains("$inexact")) {
    out = {{"enum", flats.front()["enum"]}};
  }
  --looks_;
  return out;
}

Json SchemaExpansion::schema_of_name(const Json& flat, const std::string& name, const std::string& path) {
  Json out = true;
  if (flat.contains("$names")) {
    for (const Json& rule : flat["$names"]) {
      const Truth truth = holds(name, rule["names"], path);
      if (truth == Truth::kUnknown)
        fail_unsupported(fmt::format("a rule for names that \"{}\" may fall under", name), path);
      if (truth == Truth::kYes) out = both(out, rule["schema"], path);
    }
  }
  if (flat.contains("propertyNames")) {
    for (const Json& names : flat["propertyNames"]) {
      if (holds(name, names, path) != Truth::kYes) return false;
    }
  }
  return out;
}

// Properties that one side describes and the other does not: what the other says of all names holds for them too.
Json SchemaExpansion::merge_object(const Json& left, const Json& right, const std::string& path) {
  Json out = left.contains("properties") ? left["properties"] : Json::object();
  const Json more = right.contains("properties") ? right["properties"] : Json::object();
  for (auto& [name, schema] : out.get_ref<Json::object_t&>()) {
    const auto other = more.find(name);
    schema = both(schema, other == more.end() ? schema_of_name(right, name, path) : *other, path);
  }
  for (const auto& [name, schema] : more.items()) {
    if (!out.contains(name)) out[name] = both(schema_of_name(left, name, path), schema, path);
  }
  return out;
}

// "items" speaks of the elements after its own prefixItems.
void SchemaExpansion::merge_items(Json& out, const Json& right, const std::string& path) {
  const auto fixed = [](const Json& flat) { return flat.contains("prefixItems") ? flat["prefixItems"].size() : 0; };
  const auto at = [&](const Json& flat, std::size_t i) -> Json {
    if (i < fixed(flat)) return flat["prefixItems"][i];
    return flat.contains("items") ? flat["items"] : Json(true);
  };
  const Json left = out;
  const std::size_t count = std::max(fixed(left), fixed(right));
  Json prefix = Json::array();
  for (std::size_t i = 0; i < count; ++i) prefix.push_back(both(at(left, i), at(right, i), path));
  if (count > 0) out["prefixItems"] = prefix;
  if (left.contains("items") || right.contains("items")) out["items"] = both(at(left, count), at(right, count), path);
}

Json SchemaExpansion::filtered(const Json& values, const Json& flat, const std::string& path) {
  Json out{{"enum", Json::array()}};
  spend(values.size() * (1 + (flat.contains("enum") ? flat["enum"].size() / 256 : 0)), path);
  if (flat.contains("$inexact")) out["$inexact"] = flat["$inexact"];
  for (const Json& value : values) {
    const Truth truth = holds_flat(value, flat, path);
    if (truth == Truth::kYes) out["enum"].push_back(value);
    if (truth == Truth::kUnknown) out["$inexact"] = "an \"enum\" with a value that is perhaps none";
  }
  return out;
}

std::optional<Json> SchemaExpansion::merge(const Json& left, const Json& right, const std::string& path) {
  Json out = left;
  const auto carry = [&](const char* key) {
    if (!right.contains(key)) return;
    out[key] = left.contains(key) && key == std::string_view("$evaluated") ? merged_evaluated(left[key], right[key])
                                                                           : right[key];
  };
  if (left.contains("enum") || right.contains("enum")) {
    const bool is_left = left.contains("enum");
    out = filtered(is_left ? left["enum"] : right["enum"], is_left ? right : left, path);
    for (const Json* side : {&left, &right}) {
      if (side->contains("$inexact")) out["$inexact"] = (*side)["$inexact"];
    }
    if (left.contains("$evaluated")) out["$evaluated"] = left["$evaluated"];
    carry("$evaluated");
    if (!normalize(out, path)) return std::nullopt;
    return out;
  }
  for (const auto& [key, value] : right.items()) {
    if (key == "properties" || key == "items" || key == "prefixItems") continue;
    if (key == "$evaluated" || key == "$inexact" || !out.contains(key)) {
      carry(key.c_str());
    } else if (key == "type") {
      out[key] = intersected(out[key], value);
    } else if (value.is_array()) {
      spend(1 + out[key].size() * value.size() / 256, path);
      out[key] = united(out[key], value);
    } else if (key.starts_with("min") || key == "exclusiveMinimum") {
      if (out[key] < value) out[key] = value;
    } else if (key.starts_with("max") || key == "exclusiveMaximum") {
      if (value < out[key]) out[key] = value;
    }
  }
  if (left.contains("properties") || right.contains("properties"))
    out["properties"] = merge_object(left, right, path);
  if (right.contains("items") || right.contains("prefixItems")) merge_items(out, right, path);
  if (!normalize(out, path)) return std::nullopt;
  return out;
}

// What contradicts itself goes, with all that speaks of it. False: nothing is left.
bool SchemaExpansion::normalize(Json& flat, const std::string& path) {
  if (flat.contains("enum")) return !flat["enum"].empty();
  keep_tighter(flat, "minimum", "exclusiveMinimum", true);
  keep_tighter(flat, "maximum", "exclusiveMaximum", false);
  if (no_number(flat)) remove_types(flat, {"integer", "fraction"});
  if (nothing_between(flat, "minLength", "maxLength")) remove_types(flat, {"string"});
  if (nothing_between(flat, "minItems", "maxItems")) remove_types(flat, {"array"});
  if (nothing_between(flat, "minProperties", "maxProperties")) remove_types(flat, {"object"});
  if (flat.contains("required")) {
    const Json properties = flat.contains("properties") ? flat["properties"] : Json::object();
    const auto cannot_be = [&](const Json& entry) {
      const std::string& name = entry.get_ref<const std::string&>();
      const auto known = properties.find(name);
      return is_false(known != properties.end() ? *known : schema_of_name(flat, name, path));
    };
    if (std::ranges::any_of(flat["required"], cannot_be)) remove_types(flat, {"object"});
  }
  if (flat.contains("$exists")) drop_what_exists(flat, path);
  if (flat.contains("$except")) drop_exceptions(flat, path);
  if (!flat.contains("type")) return true;
  const Json types = flat["type"];
  std::vector<std::string> idle;
  for (const auto& [key, value] : flat.items()) {
    const std::vector<std::string_view> about = types_of_keyword(key);
    const auto is_left = [&](std::string_view type) { return std::ranges::find(types, type) != types.end(); };
    if (!about.empty() && std::ranges::none_of(about, is_left)) idle.push_back(key);
  }
  for (const std::string& key : idle) flat.erase(key);
  return !types.empty();
}

// What is no value of the schema need not be excepted; and a type all of whose values are excepted is none.
void SchemaExpansion::drop_exceptions(Json& flat, const std::string& path) {
  Json rest = flat;
  rest.erase("$except");
  Json left = Json::array();
  for (const Json& value : flat["$except"]) {
    if (holds_flat(value, rest, path) != Truth::kNo) left.push_back(value);
  }
  const auto is_left = [&](const Json& value) { return std::ranges::find(left, value) != left.end(); };
  if (is_left(nullptr)) remove_types(flat, {"null"});
  if (is_left(true) && is_left(false)) remove_types(flat, {"boolean"});
  if (left.empty()) {
    flat.erase("$except");
  } else {
    flat["$except"] = left;
  }
}

// A property that is required may be the one that has to exist.
void SchemaExpansion::drop_what_exists(Json& flat, const std::string& path) {
  if (!flat.contains("required")) return;
  Json left = Json::array();
  for (const Json& exists : flat["$exists"]) {
    const auto is_the_one = [&](const Json& name) {
      if (holds(name, exists["names"], path) != Truth::kYes) return false;
      if (is_true(exists["schema"])) return true;
      if (!flat.contains("properties") || !flat["properties"].contains(name.get<std::string>())) return false;
      const Json& known = flat["properties"][name.get<std::string>()];
      return both(known, exists["schema"], path) == known;
    };
    if (std::ranges::none_of(flat["required"], is_the_one)) left.push_back(exists);
  }
  if (left.empty()) {
    flat.erase("$exists");
  } else {
    flat["$exists"] = left;
  }
}

}  // namespace kvasir::grammar
