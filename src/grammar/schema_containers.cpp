#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "grammar/json_text.h"
#include "grammar/schema_compiler.h"
#include "grammar/schema_merge.h"

namespace kvasir::grammar {
namespace {

struct Property {
  std::string name;
  const Json* schema;
  bool required;
};

// What additionalProperties means here: nullptr when there may be none. Absent, it means "none" for a schema that
// names properties, since a model that may add what it likes seldom stops, and "any" for one that does not.
const Json* additional_schema(const Json& flat, const Json& any) {
  const auto given = flat.find("additionalProperties");
  if (given != flat.end()) return *given == false ? nullptr : &*given;
  return flat.contains("properties") ? nullptr : &any;
}

// In the schema's order; then those that are required but not described.
std::vector<Property> properties_of(const Json& flat, const Json* additional, const std::string& path) {
  std::vector<Property> out;
  std::unordered_map<std::string, std::size_t> places;
  if (const auto properties = flat.find("properties"); properties != flat.end()) {
    for (const auto& [name, schema] : properties->items()) {
      places.emplace(name, out.size());
      out.push_back({name, &schema, false});
    }
  }
  const auto required = flat.find("required");
  if (required == flat.end()) return out;
  for (const Json& entry : *required) {
    const std::string name = entry.get<std::string>();
    const auto [place, is_new] = places.emplace(name, out.size());
    if (!is_new) {
      out[place->second].required = true;
    } else if (additional == nullptr) {
      fail_schema(fmt::format("\"{}\" is required, but is not among the properties", name), path);
    } else {
      out.push_back({name, additional, true});
    }
  }
  return out;
}

}  // namespace

// { a, b?, c? … others }: properties in order. Two rows of nodes: nothing written yet, so that no comma precedes; and
// something written.
NodeId SchemaCompiler::build_object(NodeId from, const Json& flat, const std::string& path) {
  const Json any = true;
  const Json* additional = additional_schema(flat, any);
  const std::vector<Property> properties = properties_of(flat, additional, path);
  NodeId none_yet = optional_space(builder_.literal(from, "{"));
  NodeId some = builder_.node();  // nothing leads there before the first property
  const auto after_comma = [this](NodeId at) { return optional_space(builder_.literal(at, ",")); };
  std::vector<std::string> names;
  for (const Property& property : properties) {
    const NodeId key = builder_.node();
    builder_.join(none_yet, key);
    builder_.join(after_comma(some), key);
    const RuleId rule = rule_of(*property.schema, fmt::format("{}.{}", path, property.name));
    const NodeId written = builder_.call(build_key(builder_, key, property.name), rule);
    if (property.required) {
      none_yet = builder_.node();  // nothing leads there any more
    } else {
      builder_.join(some, written);
      // The way on without any property needs a node of its own.
      const NodeId still_none = builder_.node();
      builder_.join(none_yet, still_none);
      none_yet = still_none;
    }
    some = written;
    names.push_back(property.name);
  }
  if (additional != nullptr) {
    const NodeId key = builder_.node();
    builder_.join(none_yet, key);
    const NodeId loop = builder_.node();
    builder_.join(some, loop);
    builder_.join(after_comma(loop), key);
    const RuleId rule = rule_of(*additional, path + ".additionalProperties");
    builder_.call(build_other_key(builder_, key, names), rule, loop);
    some = loop;
  }
  const NodeId close = builder_.node();
  builder_.join(none_yet, close);
  builder_.join(some, close);
  return builder_.literal(optional_space(close), "}");
}

// [ first, second … others ]: a node before and after each element up to where all further ones are alike.
NodeId SchemaCompiler::build_array(NodeId from, const Json& flat, const std::string& path) {
  const auto count_of = [&](const char* key) -> std::optional<std::uint64_t> {
    const auto found = flat.find(key);
    return found == flat.end() ? std::nullopt : std::optional(found->get<std::uint64_t>());
  };
  const Json any = true;
  const auto prefix = flat.find("prefixItems");
  const std::size_t fixed = prefix == flat.end() ? 0 : prefix->size();
  const auto items = flat.find("items");
  // A list of fixed elements has no others unless "items" says so: as with properties.
  const Json* others = items != flat.end() ? &*items : prefix != flat.end() ? nullptr : &any;
  const std::uint64_t least = count_of("minItems").value_or(0);
  std::optional<std::uint64_t> most = count_of("maxItems");
  if (others == nullptr || *others == false) most = std::min<std::uint64_t>(most.value_or(fixed), fixed);

  const NodeId close = builder_.node();
  NodeId before = optional_space(builder_.literal(from, "["));
  if (least == 0) builder_.join(before, close);
  // Elements that need a place of their own: fixed ones, counted ones; then one more, which repeats.
  const std::uint64_t counted = most.value_or(std::max<std::uint64_t>(fixed, least));
  std::optional<RuleId> other_rule;
  const auto rule_at = [&](std::uint64_t i) {
    if (i < fixed) return rule_of((*prefix)[static_cast<std::size_t>(i)], fmt::format("{}.prefixItems[{}]", path, i));
    if (!other_rule) other_rule = rule_of(*others, path + ".items");
    return *other_rule;
  };
  for (std::uint64_t i = 0; i < counted; ++i) {
    const NodeId after = builder_.call(before, rule_at(i));
    if (i + 1 >= least) builder_.join(after, close);
    before = optional_space(builder_.literal(after, ","));
  }
  if (!most) {
    // A node of its own to come back to: the one before it may be the empty array's.
    const NodeId again = builder_.node();
    builder_.join(before, again);
    const NodeId after = builder_.call(again, rule_at(counted));
    builder_.join(after, close);
    builder_.join(optional_space(builder_.literal(after, ",")), again);
  }
  return builder_.literal(optional_space(close), "]");
}

}  // namespace kvasir::grammar
