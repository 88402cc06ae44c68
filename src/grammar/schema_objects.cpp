#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "grammar/json_text.h"
#include "grammar/schema_compiler.h"
#include "grammar/schema_keywords.h"

namespace kvasir::grammar {
namespace {

constexpr std::size_t kMaxKinds = 64;
constexpr std::size_t kMaxListed = 64;
constexpr NodeId kNone = std::numeric_limits<NodeId>::max();

bool may_have_others(const Json& flat) {
  return !flat.contains("$named") || flat.contains("$open") || !flat["$named"].empty();
}

// Whole, since the schema may not have it.
Json at_or(const Json& flat, const char* key, const Json& absent) {
  const auto found = flat.find(key);
  return found == flat.end() ? absent : *found;
}

}  // namespace

struct SchemaCompiler::ObjectPlan {
  struct Property {
    std::string name;
    Json schema;
    bool required;
  };
  // Other names, by what their values must be.
  struct Others {
    Language names;
    RuleId value;
    bool is_needed;  // one of these has to be there
  };
  std::vector<Property> properties;  // in the order they are written
  std::vector<Others> others;
  bool needs_other = false;
  bool is_impossible = false;
  std::uint64_t least = 0;
  std::optional<std::uint64_t> most;
  std::string path;
};

// In the schema's order; then those that are required but not described, and those that a list of names allows.
SchemaCompiler::ObjectPlan SchemaCompiler::plan_object(const Json& flat, const std::string& path) {
  const Json none = Json::array();
  const Json described = at_or(flat, "properties", Json::object());
  ObjectPlan plan;
  plan.path = path;
  if (flat.contains("minProperties")) plan.least = flat["minProperties"].get<std::uint64_t>();
  const Json excepted = at_or(flat, "$except", none);
  if (std::ranges::find(excepted, Json::object()) != excepted.end())
    plan.least = std::max<std::uint64_t>(plan.least, 1);
  if (flat.contains("maxProperties")) plan.most = flat["maxProperties"].get<std::uint64_t>();
  std::unordered_map<std::string, std::size_t> places;
  for (const auto& [name, schema] : described.items()) {
    places.emplace(name, plan.properties.size());
    plan.properties.push_back({name, schema, false});
  }
  for (const Json& entry : at_or(flat, "required", none)) {
    const std::string name = entry.get<std::string>();
    const auto [place, is_new] = places.emplace(name, plan.properties.size());
    if (is_new) plan.properties.push_back({name, expansion_.schema_of_name(flat, name, path), true});
    plan.properties[place->second].required = true;
  }
  if (may_have_others(flat)) plan_others(plan, flat, path);
  std::erase_if(plan.properties, [&](const ObjectPlan::Property& property) {
    if (!is_false(property.schema)) return false;
    plan.is_impossible = plan.is_impossible || property.required;
    return true;
  });
  if (spelling() == Spelling::kOneWay) order_properties(plan);
  return plan;
}

// One order for each set of names, whichever schema describes them: names that are free would come between.
void SchemaCompiler::order_properties(ObjectPlan& plan) const {
  std::ranges::sort(plan.properties, {}, &ObjectPlan::Property::name);
  if (plan.others.empty()) return;
  if (plan.properties.empty()) {
    plan.most = std::min<std::uint64_t>(plan.most.value_or(1), 1);
    return;
  }
  if (plan.needs_other || plan.least > plan.properties.size()) {
    fail_unsupported("a property that the schema does not name, beside others, within \"uniqueItems\"", plan.path);
  }
  plan.others.clear();
}

void SchemaCompiler::plan_others(ObjectPlan& plan, const Json& flat, const std::string& path) {
  const Json none = Json::array();
  Languages& languages = expansion_.languages();
  const auto narrowed = [&](const Language& from, const Language& by, Languages::Keep keep) {
    return languages.combined(from, by, keep, path);
  };
  Language names;
  if (flat.contains("$named") && !flat.contains("$open")) {
    for (const Json& pattern : flat["$named"]) {
      names = narrowed(names, languages.of_pattern(pattern.get<std::string>(), path), Languages::Keep::kEither);
    }
  } else {
    names = languages.of_length({}, path);
  }
  for (const Json& allowed : at_or(flat, "propertyNames", none)) {
    names = narrowed(names, expansion_.strings_of(allowed, SchemaExpansion::Need::kSome, path + ".propertyNames"),
                     Languages::Keep::kBoth);
  }
  std::vector<std::string> known;
  for (const ObjectPlan::Property& property : plan.properties) known.push_back(property.name);
  names = narrowed(names, languages.of_texts(known, path), Languages::Keep::kFirstOnly);
  std::vector<std::pair<Language, Json>> kinds;
  if (!names.is_empty()) kinds.emplace_back(std::move(names), true);
  for (const Json& rule : at_or(flat, "$names", none)) {
    const Language rule_names = expansion_.strings_of(rule["names"], SchemaExpansion::Need::kExact, path);
    std::vector<std::pair<Language, Json>> next;
    for (auto& [language, schema] : kinds) {
      Language within = narrowed(language, rule_names, Languages::Keep::kBoth);
      Language without = narrowed(language, rule_names, Languages::Keep::kFirstOnly);
      Json both = within.is_empty() ? Json(false) : expansion_.both(schema, rule["schema"], path);
      if (!is_false(both)) next.emplace_back(std::move(within), std::move(both));
      if (!without.is_empty()) next.emplace_back(std::move(without), std::move(schema));
    }
    if (next.size() > kMaxKinds) fail_too_large("the schema tells too many kinds of properties apart", path);
    kinds = std::move(next);
  }
  const bool is_needed = flat.contains("$need");
  plan.needs_other = is_needed;
  for (auto& [language, schema] : kinds) {
    // Few names are properties like others: each at most once.
    if (const auto listed = is_needed ? std::nullopt : language.texts(kMaxListed)) {
      for (const std::string& name : *listed) plan.properties.push_back({name, schema, false});
      continue;
    }
    const RuleId value = rule_of(schema, path + ".additionalProperties");
    if (!is_needed) {
      plan.others.push_back({std::move(language), value, false});
      continue;
    }
    const Language needed = expansion_.strings_of(flat["$need"], SchemaExpansion::Need::kSome, path);
    Language within = narrowed(language, needed, Languages::Keep::kBoth);
    Language without = narrowed(language, needed, Languages::Keep::kFirstOnly);
    if (!within.is_empty()) plan.others.push_back({std::move(within), value, true});
    if (!without.is_empty()) plan.others.push_back({std::move(without), value, false});
  }
}

// { a, b?, c? … others }: properties in order. A row of nodes for each number of properties written so far, up to
// where it makes no difference: without counts, one for none, after which no comma follows, and one for some.
NodeId SchemaCompiler::build_object(NodeId from, const Json& flat, const std::string& path) {
  for (const Json& value : at_or(flat, "$except", Json::array())) {
    if (value.is_object() && !value.empty()) fail_unsupported("an object that it must not be", path);
  }
  if (flat.contains("$exists")) return build_existing(from, flat, path);
  const ObjectPlan plan = plan_object(flat, path);
  const std::size_t count = plan.properties.size();
  if (plan.is_impossible || plan.least > count + (plan.others.empty() ? 0 : 1)) {
    if (!plan.is_impossible && !plan.others.empty()) {
      fail_unsupported(
          fmt::format("\"minProperties\": {} where names are free, since none may come twice", plan.least), path);
    }
    return builder_.node();  // nothing leads there
  }
  const bool has_most = plan.most && (!plan.others.empty() || *plan.most < count);
  const std::uint64_t last = has_most ? *plan.most : std::max<std::uint64_t>(plan.least, 1);
  if (last > (1U << 16)) fail_too_large("the schema counts too many properties", path);
  std::vector<NodeId> rows(last + 1, kNone);
  rows.front() = optional_space(builder_.literal(from, "{"));
  for (const ObjectPlan::Property& property : plan.properties) {
    const RuleId rule = rule_of(property.schema, fmt::format("{}.{}", path, property.name));
    std::vector<NodeId> next(rows.size(), kNone);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const std::size_t to = has_most ? row + 1 : std::min<std::size_t>(row + 1, last);
      if (rows[row] == kNone || to > last) continue;
      const NodeId key = row == 0 ? rows[row] : after_comma(rows[row]);
      if (next[to] == kNone) next[to] = builder_.node();
      builder_.call(build_key(builder_, key, property.name, spelling()), rule, next[to]);
    }
    for (std::size_t row = 0; row < rows.size() && !property.required; ++row) {
      if (rows[row] == kNone) continue;
      if (next[row] == kNone) next[row] = builder_.node();
      builder_.join(rows[row], next[row]);
    }
    rows = std::move(next);
  }
  const NodeId close = builder_.node();
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows[row] != kNone && row >= plan.least && !plan.needs_other) builder_.join(rows[row], close);
  }
  build_others(plan, rows, close);
  return builder_.literal(optional_space(close), "}");
}

// Names that are free may come twice, and then count once: no more than one of them counts for minProperties.
void SchemaCompiler::build_others(const ObjectPlan& plan, const std::vector<NodeId>& rows, NodeId close) {
  if (plan.others.empty()) return;
  std::vector<RuleId> pairs;
  for (const ObjectPlan::Others& others : plan.others) {
    const RuleId pair = builder_.add_rule(plan.path + ".additionalProperties");
    builder_.enter(pair);
    const GrammarBuilder::Rule rule = builder_.rule(pair);
    builder_.call(build_key(builder_, rule.start, others.names, spelling()), others.value, rule.end);
    pairs.push_back(pair);
  }
  // Nodes after a pair: by how many properties there are, where that counts, and whether the needed one is there.
  const std::uint64_t last = plan.most.value_or(0);
  std::vector<std::array<NodeId, 2>> after(last + 1, {kNone, kNone});
  std::vector<std::pair<std::uint64_t, std::size_t>> todo;
  const auto pair_from = [&](NodeId key, std::uint64_t written, std::size_t met) {
    const std::uint64_t to = plan.most ? written + 1 : 0;
    if (to > last) return;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const std::size_t met_now = met == 1 || plan.others[i].is_needed ? 1 : 0;
      NodeId& node = after[to][met_now];
      if (node == kNone) {
        node = builder_.node();
        todo.emplace_back(to, met_now);
      }
      builder_.call(key, pairs[i], node);
    }
  };
  const std::size_t met_at_first = plan.needs_other ? 0 : 1;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows[row] == kNone || row + 1 < plan.least) continue;
    pair_from(row == 0 ? rows[row] : after_comma(rows[row]), row, met_at_first);
  }
  while (!todo.empty()) {
    const auto [written, met] = todo.back();
    todo.pop_back();
    const NodeId node = after[written][met];
    if (met == 1) builder_.join(node, close);
    pair_from(after_comma(node), written, met);
  }
}

// Some property has such a name and value: one that is described, or another.
NodeId SchemaCompiler::build_existing(NodeId from, const Json& flat, const std::string& path) {
  Json rest = flat;
  const Json exists = rest["$exists"].front();
  rest["$exists"].erase(0);
  if (rest["$exists"].empty()) rest.erase("$exists");
  std::set<std::string> names;
  const Json described = at_or(flat, "properties", Json::object());
  for (const auto& [name, schema] : described.items()) names.insert(name);
  for (const Json& name : at_or(flat, "required", Json::array())) names.insert(name.get<std::string>());
  const NodeId end = builder_.node();
  for (const std::string& name : names) {
    if (expansion_.holds(name, exists["names"], path) != Truth::kYes) continue;
    Json with = rest;
    Json& schema = with["properties"][name];
    if (!flat.contains("properties") || !flat["properties"].contains(name)) {
      schema = expansion_.schema_of_name(flat, name, path);
    }
    schema = expansion_.both(schema, exists["schema"], path);
    if (!with.contains("required")) with["required"] = Json::array();
    if (std::ranges::find(with["required"], Json(name)) == with["required"].end()) with["required"].push_back(name);
    builder_.join(build_object(from, with, path), end);
  }
  if (!may_have_others(rest)) return end;
  if (rest.contains("$need")) fail_unsupported("two properties of any name that must be there", path);
  // All others of such names have such values: then it does no harm when one of them comes twice.
  if (!is_true(exists["schema"])) {
    if (!rest.contains("$names")) rest["$names"] = Json::array();
    rest["$names"].push_back(exists);
  }
  rest["$need"] = exists["names"];
  builder_.join(build_object(from, rest, path), end);
  return end;
}

}  // namespace kvasir::grammar
