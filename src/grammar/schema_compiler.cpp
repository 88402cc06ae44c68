#include "grammar/schema_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "grammar/decimal_range.h"
#include "grammar/formats.h"
#include "grammar/json_text.h"
#include "grammar/schema_merge.h"

namespace kvasir::grammar {
namespace {

// Merged schemas of a recursion can grow with every turn; this ends it. Far above what honest documents need.
constexpr std::size_t kMaxKeyBytes = std::size_t{16} << 20;

// The keywords that speak of each type only. Without "type", they say which types are meant.
struct TypeKeywords {
  const char* type;
  std::array<const char*, 4> keywords;
};
constexpr std::array<TypeKeywords, 4> kTypeKeywords{{
    {"object", {"properties", "required", "additionalProperties", "additionalProperties"}},
    {"array", {"items", "prefixItems", "minItems", "maxItems"}},
    {"string", {"minLength", "maxLength", "pattern", "format"}},
    {"number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}},
}};

// The first keyword of the type that the schema has, or nullptr.
const char* keyword_of(const Json& flat, const TypeKeywords& type) {
  const auto found = std::ranges::find_if(type.keywords, [&](const char* key) { return flat.contains(key); });
  return found == type.keywords.end() ? nullptr : *found;
}

std::vector<std::string> types_of(const Json& flat) {
  if (const auto type = flat.find("type"); type != flat.end()) return type->get<std::vector<std::string>>();
  std::vector<std::string> out;
  for (const TypeKeywords& type : kTypeKeywords) {
    if (keyword_of(flat, type) != nullptr) out.emplace_back(type.type);
  }
  if (out.empty()) out = {"object", "array", "string", "number", "boolean", "null"};
  return out;
}

bool is_of_type(const Json& value, const std::string& type) {
  if (type == "string") return value.is_string();
  if (type == "number") return value.is_number();
  if (type == "integer") return value.is_number_integer();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  return type == "object" ? value.is_object() : value.is_array();
}

// A count, for what is repeated. Larger ones are cut: they exceed the builder's limits in any case.
std::optional<std::uint32_t> count_at(const Json& flat, const char* key) {
  const auto found = flat.find(key);
  if (found == flat.end()) return std::nullopt;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(found->get<std::uint64_t>(), 1U << 30));
}

LengthLimits length_limits(const Json& flat) {
  return {count_at(flat, "minLength").value_or(0), count_at(flat, "maxLength").value_or(Regex::kNoLimit)};
}

}  // namespace

std::shared_ptr<const Grammar> SchemaCompiler::compile(const Json& schema) {
  const RuleId root = builder_.add_rule("schema");
  space_ = builder_.add_rule("white space");
  build_white_space_rule(builder_, space_);
  const NodeId begin = build_leading_space(builder_, builder_.rule(root).start);
  builder_.call(begin, rule_of(schema, "schema"), builder_.rule(root).end);
  while (!pending_.empty()) {
    const Pending next = std::move(pending_.back());
    pending_.pop_back();
    builder_.enter(next.rule);
    const auto [name, start, end] = builder_.rule(next.rule);
    for (const Json& flat : next.alternatives) builder_.join(build_flat(start, flat, next.path), end);
  }
  return builder_.build(root);
}

RuleId SchemaCompiler::rule_of(const Json& schema, const std::string& path) {
  // A large definition may be used in many places: looking at it once will do.
  std::string reference;
  if (schema.is_object() && schema.size() == 1 && schema.contains("$ref") && schema["$ref"].is_string()) {
    reference = schema["$ref"].get<std::string>();
    const auto known = references_.find(reference);
    if (known != references_.end()) return known->second;
  }
  const RuleId rule = rule_of_flat(expansion_.expand(schema, path), path);
  if (!reference.empty()) references_.emplace(std::move(reference), rule);
  return rule;
}

RuleId SchemaCompiler::rule_of_flat(std::vector<Json> alternatives, const std::string& path) {
  std::string key;
  for (const Json& flat : alternatives) key += flat.dump() + "\n";
  key_bytes_ += key.size();
  if (key_bytes_ > kMaxKeyBytes) fail_too_large("the schema's recursion makes ever larger schemas", path);
  const auto found = rules_.find(key);
  if (found != rules_.end()) return found->second;
  const RuleId rule = builder_.add_rule(path);
  rules_.emplace(std::move(key), rule);
  pending_.push_back({rule, std::move(alternatives), path});
  return rule;
}

NodeId SchemaCompiler::optional_space(NodeId from) {
  const NodeId to = builder_.call(from, space_);
  builder_.join(from, to);
  return to;
}

NodeId SchemaCompiler::build_flat(NodeId from, const Json& flat, const std::string& path) {
  if (flat.contains("enum")) return build_enum(from, flat, path);
  const NodeId end = builder_.node();
  const std::vector<std::string> types = types_of(flat);
  const bool has_number = std::ranges::find(types, "number") != types.end();
  for (const std::string& type : types) {
    if (type == "integer" && has_number) continue;
    builder_.join(build_type(from, flat, type, path), end);
  }
  return end;
}

NodeId SchemaCompiler::build_enum(NodeId from, const Json& flat, const std::string& path) {
  const NodeId end = builder_.node();
  const bool any_type = !flat.contains("type");
  const std::vector<std::string> types = any_type ? std::vector<std::string>{} : types_of(flat);
  for (const Json& value : flat["enum"]) {
    const auto fits = [&](const std::string& type) { return is_of_type(value, type); };
    if (!any_type && std::ranges::none_of(types, fits)) continue;
    for (const TypeKeywords& type : kTypeKeywords) {
      const char* key = is_of_type(value, type.type) ? keyword_of(flat, type) : nullptr;
      if (key != nullptr) fail_unsupported(fmt::format("enum or const together with \"{}\"", key), path);
    }
    builder_.join(builder_.literal(from, value.dump()), end);
  }
  return end;
}

NodeId SchemaCompiler::build_type(NodeId from, const Json& flat, const std::string& type, const std::string& path) {
  if (type == "object") return build_object(from, flat, path);
  if (type == "array") return build_array(from, flat, path);
  if (type == "string") return build_text(from, flat, path);
  if (type == "null") return builder_.literal(from, "null");
  if (type != "boolean") return build_numeric(from, flat, type, path);
  const NodeId end = builder_.literal(from, "true");
  builder_.join(builder_.literal(from, "false"), end);
  return end;
}

NodeId SchemaCompiler::build_text(NodeId from, const Json& flat, const std::string& path) {
  std::optional<std::string> pattern;
  if (const auto given = flat.find("pattern"); given != flat.end()) pattern = given->get<std::string>();
  if (const auto format = flat.find("format"); format != flat.end()) {
    if (pattern) fail_unsupported("\"pattern\" together with \"format\"", path);
    pattern = pattern_of_format(format->get<std::string>());
    if (!pattern) fail_unsupported(fmt::format("\"format\": {}", format->dump()), path);
  }
  const LengthLimits length = length_limits(flat);
  if (length.most < length.least) return builder_.node();  // nothing leads there
  if (!pattern) return build_string(builder_, from, length);
  const NodeId inside = builder_.literal(from, "\"");
  return builder_.literal(build_pattern(builder_, inside, parse_pattern(*pattern, path + ".pattern"), length), "\"");
}

NodeId SchemaCompiler::build_numeric(NodeId from, const Json& flat, const std::string& type,
                                     const std::string& path) {
  DecimalRange range = type == "integer" ? integer_range() : DecimalRange{};
  bool bounded = type == "integer";
  const auto read = [&](const char* key, BoundKind kind) -> std::optional<Bound> {
    const auto found = flat.find(key);
    if (found == flat.end()) return std::nullopt;
    const std::optional<Decimal> value = parse_decimal(found->dump());
    if (!value) fail_unsupported(fmt::format("\"{}\": {}", key, found->dump()), path);
    bounded = true;
    return Bound{*value, kind};
  };
  const auto one_of = [&](const char* inclusive, const char* exclusive) {
    const std::optional<Bound> bound = read(inclusive, BoundKind::kInclusive);
    const std::optional<Bound> open = read(exclusive, BoundKind::kExclusive);
    if (bound && open) fail_unsupported(fmt::format("\"{}\" together with \"{}\"", inclusive, exclusive), path);
    return bound ? bound : open;
  };
  if (const auto least = one_of("minimum", "exclusiveMinimum")) range.least = least;
  if (const auto most = one_of("maximum", "exclusiveMaximum")) range.most = most;
  return bounded ? build_range(builder_, from, range) : build_number(builder_, from);
}

}  // namespace kvasir::grammar
