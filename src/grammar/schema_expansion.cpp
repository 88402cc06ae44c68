#include "grammar/schema_expansion.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "grammar/builder.h"
#include "grammar/schema_keywords.h"
#include "grammar/schema_negation.h"

namespace kvasir::grammar {
namespace {

constexpr int kMaxDepth = 200;
constexpr std::size_t kMaxAlternatives = 4096;
constexpr std::size_t kMaxSpent = std::size_t{1} << 22;
constexpr std::size_t kMaxSpentAtOnce = std::size_t{1} << 20;

// JSON values in it, itself included: what a copy costs. Nesting is bounded by the reader, and by kMaxDepth for
// merges.
std::size_t weight(const Json& value) {
  std::size_t sum = 1;
  if (value.is_structured()) {
    for (const Json& part : value) sum += weight(part);
  }
  return sum;
}

std::size_t weight(const std::vector<Json>& values) {
  std::size_t sum = 0;
  for (const Json& value : values) sum += weight(value);
  return sum;
}

void remove_duplicates(std::vector<Json>& schemas) {
  std::unordered_set<std::string> seen;
  std::erase_if(schemas, [&](const Json& schema) { return !seen.insert(schema.dump()).second; });
}

void append(std::vector<Json>& all, std::vector<Json> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

const Json& schema_list(const Json& list, const char* key, const std::string& path) {
  if (!list.is_array() || list.empty()) fail_schema(fmt::format("\"{}\" is not a list of schemas", key), path);
  return list;
}

// Whether `way` is `one` but for properties that it leaves out, and that `one` would not write: it describes others,
// and says nothing of these.
bool only_leaves_out_more(const Json& one, const Json& way) {
  if (!one.contains("$named") || !one["$named"].empty() || one.contains("$open") || !way.contains("properties"))
    return false;
  Json rest = way;
  for (const auto& [name, schema] : way["properties"].items()) {
    const bool is_known = one.contains("properties") && one["properties"].contains(name);
    if (!is_known && is_false(schema)) rest["properties"].erase(name);
  }
  if (rest["properties"].empty() && !one.contains("properties")) rest.erase("properties");
  return rest == one;
}

// Counts while it lives.
class Counted {
 public:
  explicit Counted(int& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  int& count_;
};

}  // namespace

void SchemaExpansion::spend(std::size_t values, const std::string& path) {
  spent_ += values;
  if (values > kMaxSpentAtOnce || spent_ > kMaxSpent) {
    fail_too_large("the schema combines into too many alternatives", path);
  }
}

// What a property's schema refers to is another value: references that are open outside are not open there.
std::vector<Json> SchemaExpansion::expand(const Json& schema, const std::string& path) {
  const auto outside = std::exchange(open_, {});
  const int negations = std::exchange(negations_, 0);
  Flats out = expand_inner(schema, path);
  open_ = outside;
  negations_ = negations;
  for (Json& flat : out) flat.erase("$evaluated");
  remove_duplicates(out);
  return out;
}

SchemaExpansion::Flats SchemaExpansion::expand_reference(const Json& reference, const std::string& path) {
  if (!reference.is_string()) fail_schema("$ref is not a string", path);
  const std::string name = reference.get<std::string>();
  const auto [place, is_new] = open_.emplace(name, negations_);
  if (!is_new) {
    if (place->second != negations_) fail_unsupported(fmt::format("$ref {} within its own negation", name), path);
    return {};  // a value of A that is a value of A: no value comes of it that does not come otherwise
  }
  Flats out = expand_inner(document_.at(name, path), path);
  open_.erase(name);
  return out;
}

SchemaExpansion::Flats SchemaExpansion::expand_inner(const Json& schema, const std::string& path) {
  const Counted deeper(depth_);
  if (depth_ > kMaxDepth) fail_too_large("the schema's $ref, allOf and anyOf nest too deep", path);
  if (schema.is_boolean()) return schema == true ? Flats{Json::object()} : Flats{};
  if (!schema.is_object()) fail_schema("a schema is an object, true or false", path);
  spend(64 + weight(schema), path);  // a step costs even where there is little to copy
  Json flat = flatten(schema, path);
  const bool says_more = !flat.empty();
  Flats out;
  if (normalize(flat, path)) out.push_back(std::move(flat));
  if (const auto reference = schema.find("$ref"); reference != schema.end()) {
    out = combine(out, expand_reference(*reference, path), path);
    if (document_.is_old_draft() && says_more) {
      for (Json& one : out) one["$inexact"] = "a keyword beside \"$ref\"";
    }
  }
  out = expand_lists(std::move(out), schema, path);
  out = expand_conditions(std::move(out), schema, path);
  out = expand_dependents(std::move(out), schema, path);
  return expand_unevaluated(std::move(out), schema, path);
}

SchemaExpansion::Flats SchemaExpansion::expand_lists(Flats out, const Json& schema, const std::string& path) {
  if (const auto all = schema.find("allOf"); all != schema.end()) {
    std::size_t i = 0;
    for (const Json& part : schema_list(*all, "allOf", path)) {
      out = combine(out, expand_inner(part, fmt::format("{}.allOf[{}]", path, i++)), path);
    }
  }
  if (const auto any = schema.find("anyOf"); any != schema.end()) {
    Flats alternatives;
    std::size_t i = 0;
    for (const Json& part : schema_list(*any, "anyOf", path)) {
      append(alternatives, expand_inner(part, fmt::format("{}.anyOf[{}]", path, i++)));
      if (alternatives.size() > kMaxAlternatives) fail_too_large("the schema has too many alternatives", path);
    }
    out = combine(out, alternatives, path);
  }
  if (const auto one = schema.find("oneOf"); one != schema.end()) {
    out = expand_one_of(out, schema_list(*one, "oneOf", path), path);
  }
  return out;
}

// Each alternative, without what the others allow.
SchemaExpansion::Flats SchemaExpansion::expand_one_of(const Flats& out, const Json& list, const std::string& path) {
  std::vector<Flats> alternatives;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string here = fmt::format("{}.oneOf[{}]", path, i);
    alternatives.push_back(list.size() == 1 ? expand_inner(list[i], here) : expand_negated(list[i], here));
  }
  Flats all;
  for (std::size_t i = 0; i < alternatives.size(); ++i) {
    Flats one = combine(out, alternatives[i], path);
    for (std::size_t k = 0; k < alternatives.size(); ++k) {
      if (k == i) continue;
      const std::string other = fmt::format("{}.oneOf[{}]", path, k);
      for (const Json& flat : alternatives[k]) one = exclude(one, flat, other);
    }
    append(all, std::move(one));
    if (all.size() > kMaxAlternatives) fail_too_large("the schema has too many alternatives", path);
  }
  return all;
}

// For what is to be turned round: no reference may lead back into it.
SchemaExpansion::Flats SchemaExpansion::expand_negated(const Json& schema, const std::string& path) {
  const Counted within(negations_);
  return expand_inner(schema, path);
}

SchemaExpansion::Flats SchemaExpansion::expand_conditions(Flats out, const Json& schema, const std::string& path) {
  if (const auto no = schema.find("not"); no != schema.end()) {
    for (const Json& flat : expand_negated(*no, path + ".not")) out = exclude(out, flat, path + ".not");
  }
  const auto condition = schema.find("if");
  const bool matters = schema.contains("then") || schema.contains("else") || document_.has_unevaluated();
  if (condition == schema.end() || !matters) return out;
  Flats when = expand_negated(*condition, path + ".if");
  Flats otherwise = out;
  for (const Json& flat : when) otherwise = exclude(otherwise, flat, path + ".if");
  for (Json& flat : when) flat.erase("$named");  // a condition does not describe what is to be written
  Flats then = combine(out, when, path);
  if (schema.contains("then")) then = combine(then, expand_inner(schema["then"], path + ".then"), path);
  if (schema.contains("else")) otherwise = combine(otherwise, expand_inner(schema["else"], path + ".else"), path);
  append(then, std::move(otherwise));
  return then;
}

// Without the property, or with it and what it asks for.
SchemaExpansion::Flats SchemaExpansion::expand_dependents(Flats out, const Json& schema, const std::string& path) {
  const auto apply = [&](const std::string& name, const Flats& asked) {
    Flats with = combine(out, {Json{{"type", {"object"}}, {"required", Json::array({name})}}}, path);
    out = combine(out, {Json{{"properties", {{name, false}}}}}, path);
    append(out, combine(with, asked, path));
    if (out.size() > kMaxAlternatives) fail_too_large("the schema has too many alternatives", path);
  };
  for (const char* key : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    const auto given = schema.find(key);
    if (given == schema.end()) continue;
    if (!given->is_object()) fail_schema(fmt::format("\"{}\" is not an object", key), path);
    for (const auto& [name, asked] : given->items()) {
      if (asked.is_array() && key != std::string_view("dependentSchemas")) {
        if (!std::ranges::all_of(asked, [](const Json& one) { return one.is_string(); })) {
          fail_schema(fmt::format("\"{}\" has a list of other things than names", key), path);
        }
        apply(name, {Json{{"required", asked}}});
      } else {
        if (key == std::string_view("dependentRequired")) fail_schema("\"dependentRequired\" is not of lists", path);
        apply(name, expand_inner(asked, fmt::format("{}.{}.{}", path, key, name)));
      }
    }
  }
  return out;
}

SchemaExpansion::Flats SchemaExpansion::expand_unevaluated(Flats out, const Json& schema, const std::string& path) {
  const auto names = schema.find("unevaluatedProperties");
  const auto items = schema.find("unevaluatedItems");
  if (names == schema.end() && items == schema.end()) return out;
  for (const auto& given : {names, items}) {
    if (given != schema.end() && !given->is_object() && !given->is_boolean()) {
      fail_schema("\"unevaluatedProperties\" or \"unevaluatedItems\" is not a schema", path);
    }
  }
  Flats all;
  for (const Json& flat : out) {
    Json more = Json::object();
    const Json evaluated = flat.contains("$evaluated") ? flat["$evaluated"] : Json::object();
    Json seen = evaluated;
    if (names != schema.end() && !evaluated.contains("allNames")) {
      Json others = Json::array();
      if (!evaluated.value("names", Json::array()).empty())
        others.push_back(opposite({{"enum", evaluated["names"]}}));
      for (const Json& pattern : evaluated.value("patterns", Json::array())) {
        others.push_back(opposite({{"pattern", pattern}}));
      }
      const Json which = others.empty() ? Json(true) : Json{{"allOf", others}};
      more["$names"] = Json::array({{{"names", which}, {"schema", *names}}});
      if (!is_false(*names)) more["$open"] = true;
      seen["allNames"] = true;
    }
    if (items != schema.end() && !evaluated.contains("allItems")) {
      if (evaluated.contains("contains")) fail_unsupported("\"unevaluatedItems\" together with \"contains\"", path);
      more["prefixItems"] = Json(evaluated.value("items", std::size_t{0}), Json(true));
      more["items"] = *items;
      seen["allItems"] = true;
    }
    more["$evaluated"] = seen;
    more["$inexact"] = "\"unevaluatedProperties\" or \"unevaluatedItems\"";
    append(all, combine({flat}, {more}, path));
  }
  return all;
}

SchemaExpansion::Flats SchemaExpansion::combine(const Flats& left, const Flats& right, const std::string& path) {
  if (left.size() * right.size() > kMaxAlternatives) fail_too_large("the schema has too many alternatives", path);
  spend(left.size() * weight(right) + right.size() * weight(left), path);
  Flats out;
  out.reserve(left.size() * right.size());
  for (const Json& a : left) {
    for (const Json& b : right) {
      if (std::optional<Json> one = merge(a, b, path)) out.push_back(*std::move(one));
    }
  }
  remove_duplicates(out);
  return out;
}

SchemaExpansion::Flats SchemaExpansion::exclude(const Flats& all, const Json& flat, const std::string& path) {
  const Negation no = negated(flat);
  Flats out;
  for (const Json& one : all) {
    Flats ways;
    bool is_apart = false;  // nothing of it is allowed by `flat`: one way is to be as it is
    for (std::size_t i = 0; i < no.ways.size() && !is_apart; ++i) {
      spend(weight(one) + weight(no.ways[i]), path);
      std::optional<Json> way = merge(one, no.ways[i], path);
      if (!way) continue;
      is_apart = *way == one || only_leaves_out_more(one, *way);
      ways.push_back(*std::move(way));
    }
    if (is_apart) {
      out.push_back(std::move(ways.back()));
      continue;
    }
    if (!no.missing.empty()) {
      fail_unsupported(
          fmt::format("values that do not satisfy {}, which the schema's \"not\", \"if\" or \"oneOf\" asks for",
                      no.missing),
          path);
    }
    append(out, std::move(ways));
    if (out.size() > kMaxAlternatives) fail_too_large("the schema has too many alternatives", path);
  }
  remove_duplicates(out);
  return out;
}

}  // namespace kvasir::grammar
