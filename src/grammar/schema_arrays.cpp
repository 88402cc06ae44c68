#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "grammar/schema_compiler.h"
#include "grammar/schema_keywords.h"
#include "grammar/schema_negation.h"

namespace kvasir::grammar {
namespace {

constexpr std::size_t kMaxCounters = 3;
constexpr std::size_t kMaxUnique = 12;
constexpr std::size_t kMaxSets = 4;  // within each other; OpenSets has room for twice as many

void refuse_excepted_lists(const Json& flat, const std::string& path) {
  if (!flat.contains("$except")) return;
  for (const Json& value : flat["$except"]) {
    if (value.is_array() && !value.empty()) fail_unsupported("a list that it must not be", path);
  }
}

}  // namespace

struct SchemaCompiler::ArrayPlan {
  // Of the elements from `from` on, so many satisfy the schema.
  struct Counter {
    std::uint64_t from, least;
    std::optional<std::uint64_t> most;
    Json schema;

    std::uint64_t last() const { return most.value_or(least); }
  };
  std::vector<Json> fixed;
  std::optional<Json> others;  // what follows the fixed ones; nothing: none
  std::uint64_t least = 0;
  std::optional<std::uint64_t> most;
  std::vector<Counter> counters;
  bool is_unique = false;

  // By the element, up to the first that is like all that follow, and by those counters that it counts for.
  std::map<std::pair<std::uint64_t, std::size_t>, std::optional<RuleId>> rules;
  std::uint64_t kinds = 0;  // of elements: the last is that of all that follow

  // How many elements must be told apart: all behind them are alike, or there are none.
  std::uint64_t all_alike_from() const {
    if (most) return *most;
    std::uint64_t last = std::max<std::uint64_t>(fixed.size(), least);
    for (const Counter& counter : counters) last = std::max(last, counter.from);
    return last;
  }
  bool may_end(std::uint64_t count, const std::vector<std::uint64_t>& counts) const {
    if (count < least) return false;
    for (std::size_t i = 0; i < counters.size(); ++i) {
      if (counts[i] < counters[i].least) return false;
    }
    return true;
  }

  const Json& element(std::uint64_t i) const {
    return i < fixed.size() ? fixed[static_cast<std::size_t>(i)] : *others;
  }
};

SchemaCompiler::ArrayPlan SchemaCompiler::plan_array(const Json& flat, const std::string& path) {
  ArrayPlan plan;
  if (flat.contains("prefixItems")) plan.fixed = flat["prefixItems"].get<std::vector<Json>>();
  // A list of fixed elements has no others unless "items" says so: as with properties.
  if (flat.contains("items")) {
    if (!is_false(flat["items"])) plan.others = flat["items"];
  } else if (!flat.contains("prefixItems")) {
    plan.others = Json(true);
  }
  if (flat.contains("minItems")) plan.least = flat["minItems"].get<std::uint64_t>();
  if (flat.contains("$except") && std::ranges::find(flat["$except"], Json::array()) != flat["$except"].end()) {
    plan.least = std::max<std::uint64_t>(plan.least, 1);
  }
  if (flat.contains("maxItems")) plan.most = flat["maxItems"].get<std::uint64_t>();
  if (!plan.others) plan.most = std::min<std::uint64_t>(plan.most.value_or(plan.fixed.size()), plan.fixed.size());
  plan.is_unique = flat.contains("uniqueItems") && plan.most.value_or(2) > 1;
  plan.kinds = plan.fixed.size() + 1;
  if (!flat.contains("$some")) return plan;
  for (const Json& some : flat["$some"]) {
    ArrayPlan::Counter counter{
        some["from"].get<std::uint64_t>(), some["least"].get<std::uint64_t>(), {}, some["schema"]};
    if (some.contains("most")) counter.most = some["most"].get<std::uint64_t>();
    plan.kinds = std::max(plan.kinds, counter.from + 1);
    plan.counters.push_back(std::move(counter));
  }
  if (plan.counters.size() > kMaxCounters) fail_unsupported("more than three of \"contains\" together", path);
  return plan;
}

// The rule of an element that satisfies the schemas of some counters, and not those of others that count exactly.
// nullopt: there is none.
std::optional<RuleId> SchemaCompiler::element_rule(ArrayPlan& plan, std::uint64_t at, std::size_t choice,
                                                   const std::string& path) {
  const std::uint64_t kind = std::min(at, plan.kinds - 1);
  const auto [known, is_new] = plan.rules.try_emplace({kind, choice}, std::nullopt);
  if (!is_new) return known->second;
  const std::string here = at < plan.fixed.size() ? fmt::format("{}.prefixItems[{}]", path, at) : path + ".items";
  Json schema = plan.element(at);
  for (std::size_t i = 0; i < plan.counters.size(); ++i) {
    const ArrayPlan::Counter& counter = plan.counters[i];
    if ((choice >> i & 1) != 0) {
      schema = expansion_.both(schema, counter.schema, here);
    } else if (at >= counter.from && counter.most) {
      schema = expansion_.both(schema, opposite(counter.schema), here);
    }
  }
  if (is_false(schema)) return std::nullopt;
  return known->second = plan.is_unique ? rule_of_set_element(plan, kind, schema, here) : rule_of(schema, here);
}

// A set goes on while it may not end. So where it asks for n elements, the last of them has n - 1 before it, and one
// more value has to be left.
RuleId SchemaCompiler::rule_of_set_element(const ArrayPlan& plan, std::uint64_t at, const Json& schema,
                                           const std::string& path) {
  if (sets_ == kMaxSets) fail_unsupported("\"uniqueItems\" within itself, or within four others", path);
  ++sets_;
  const RuleId element = rule_of(schema, path);
  --sets_;
  const std::uint64_t last = at < plan.fixed.size() ? at + 1 : plan.least;
  const std::uint64_t needed = at < plan.least ? last : 0;
  Demand& demand = demands_[element];
  if (demand.texts < needed) demand = {needed, path};
  return builder_.add_element_rule(element);
}

// [ first, second … others ]: a node after each element up to where all further ones are alike, for each number of
// elements that count for something.
NodeId SchemaCompiler::build_array(NodeId from, const Json& flat, const std::string& path) {
  refuse_excepted_lists(flat, path);
  ArrayPlan plan = plan_array(flat, path);
  if (plan.is_unique) {
    if (const auto values = few_elements(plan, path)) return build_small_set(from, plan, *values, path);
    if (!plan.counters.empty()) fail_unsupported("\"uniqueItems\" of many values with \"contains\"", path);
  }
  const std::uint64_t last = plan.all_alike_from();

  // How many elements there are, up to `last`, and how many of them satisfy each counter's schema.
  using Place = std::pair<std::uint64_t, std::vector<std::uint64_t>>;
  std::map<Place, NodeId> after;
  std::vector<Place> todo;
  const auto node_at = [&](const Place& place) {
    const auto [found, is_new] = after.try_emplace(place, 0);
    if (is_new) {
      found->second = builder_.node();
      todo.push_back(place);
    }
    return found->second;
  };
  const auto add_element = [&](NodeId before, const Place& place) {
    const auto& [count, counts] = place;
    if (plan.most && count == last) return;
    if (count >= plan.fixed.size() && !plan.others) return;
    for (std::size_t choice = 0; choice < (std::size_t{1} << counts.size()); ++choice) {
      Place to{std::min(count + 1, last), counts};
      bool is_possible = true;
      for (std::size_t i = 0; i < counts.size(); ++i) {
        const ArrayPlan::Counter& counter = plan.counters[i];
        if ((choice >> i & 1) == 0) continue;
        is_possible = is_possible && count >= counter.from && !(counter.most && counts[i] == *counter.most);
        to.second[i] = std::min(counts[i] + 1, counter.last());
      }
      if (!is_possible) continue;
      if (const std::optional<RuleId> rule = element_rule(plan, count, choice, path)) {
        builder_.call(before, *rule, node_at(to));
      }
    }
  };
  const NodeId close = builder_.node();
  const auto may_end = [&](const Place& place) { return plan.may_end(place.first, place.second); };
  const Place none{0, std::vector<std::uint64_t>(plan.counters.size(), 0)};
  const NodeId open = optional_space(builder_.literal(from, "["));
  if (may_end(none)) builder_.join(open, close);
  add_element(open, none);
  while (!todo.empty()) {
    const Place place = todo.back();
    todo.pop_back();
    const NodeId node = after[place];
    if (may_end(place)) builder_.join(node, close);
    add_element(after_comma(node), place);
  }
  return builder_.literal(optional_space(close), "]");
}

// All values of the schema, where there are few.
std::optional<std::vector<Json>> SchemaCompiler::few_values(const Json& schema, const std::string& path) {
  std::vector<Json> out;
  for (const Json& flat : expansion_.expand(schema, path)) {
    Json values = Json::array();
    if (flat.contains("enum")) {
      values = flat["enum"];
    } else {
      if (!flat.contains("type")) return std::nullopt;
      for (const Json& type : flat["type"]) {
        if (type != "null" && type != "boolean") return std::nullopt;
        if (type == "null") values.push_back(nullptr);
        if (type == "boolean") values.insert(values.end(), {true, false});
      }
    }
    for (const Json& value : values) {
      const bool is_new = std::ranges::find(out, value) == out.end();
      if (is_new && expansion_.holds_flat(value, flat, path) == Truth::kYes) out.push_back(value);
      if (out.size() > kMaxUnique) return std::nullopt;
    }
  }
  return out;
}

// All values of all elements, where there are few.
std::optional<std::vector<Json>> SchemaCompiler::few_elements(const ArrayPlan& plan, const std::string& path) {
  std::vector<Json> values;
  const std::uint64_t kinds = plan.fixed.size() + (plan.others ? 1 : 0);
  for (std::uint64_t i = 0; i < kinds; ++i) {
    const auto few = few_values(plan.element(i), path);
    if (!few) return std::nullopt;
    const auto is_new = [&](const Json& value) { return std::ranges::find(values, value) == values.end(); };
    std::ranges::copy_if(*few, std::back_inserter(values), is_new);
    if (values.size() > kMaxUnique) return std::nullopt;
  }
  return values;
}

// No element twice: of a few values, a node for each set of those that are there.
NodeId SchemaCompiler::build_small_set(NodeId from, const ArrayPlan& plan, const std::vector<Json>& values,
                                       const std::string& path) {
  const auto may_end = [&](std::size_t used, std::uint64_t count) {
    if (count < plan.least) return false;
    return std::ranges::all_of(plan.counters, [&](const ArrayPlan::Counter& counter) {
      std::uint64_t satisfied = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        if ((used >> i & 1) == 0) continue;
        const Truth truth = expansion_.holds(values[i], counter.schema, path);
        if (truth == Truth::kUnknown || counter.from > 0) fail_unsupported("\"uniqueItems\" with \"contains\"", path);
        satisfied += truth == Truth::kYes ? 1 : 0;
      }
      return satisfied >= counter.least && !(counter.most && satisfied > *counter.most);
    });
  };
  const NodeId close = builder_.node();
  std::map<std::size_t, NodeId> after;
  std::vector<std::size_t> todo{0};
  while (!todo.empty()) {
    const std::size_t used = todo.back();
    todo.pop_back();
    const auto count = static_cast<std::uint64_t>(std::popcount(used));
    const NodeId node = used == 0 ? optional_space(builder_.literal(from, "[")) : after[used];
    if (may_end(used, count)) builder_.join(node, close);
    if (count == plan.most || count == values.size() || (count >= plan.fixed.size() && !plan.others)) continue;
    const NodeId before = used == 0 ? node : after_comma(node);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if ((used >> i & 1) != 0 || expansion_.holds(values[i], plan.element(count), path) != Truth::kYes) continue;
      const auto [to, is_new] = after.try_emplace(used | std::size_t{1} << i, 0);
      if (is_new) {
        to->second = builder_.node();
        todo.push_back(to->first);
      }
      builder_.call(before, rule_of({{"enum", Json::array({values[i]})}}, path + ".items"), to->second);
    }
  }
  return builder_.literal(optional_space(close), "]");
}

}  // namespace kvasir::grammar
