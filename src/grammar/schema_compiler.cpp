#include "grammar/schema_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "grammar/json_text.h"
#include "grammar/schema_keywords.h"

namespace kvasir::grammar {
namespace {

// Merged schemas of a recursion can grow with every turn; this ends it. Far above what honest documents need.
constexpr std::size_t kMaxKeyBytes = std::size_t{16} << 20;

// Without "type", the other keywords say which types are meant.
std::vector<std::string> types_of(const Json& flat) {
  if (const auto type = flat.find("type"); type != flat.end()) return type->get<std::vector<std::string>>();
  std::vector<std::string> out;
  for (const std::string_view type : kAtomicTypes) {
    for (const auto& [key, value] : flat.items()) {
      const std::vector<std::string_view> about = types_of_keyword(key);
      if (std::ranges::find(about, type) == about.end()) continue;
      out.emplace_back(type);
      break;
    }
  }
  if (out.empty()) out.assign(kAtomicTypes.begin(), kAtomicTypes.end());
  return out;
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
    sets_ = next.sets;
    const GrammarBuilder::Rule rule = builder_.rule(next.rule);
    for (const Json& flat : next.alternatives) builder_.join(build_flat(rule.start, flat, next.path), rule.end);
  }
  std::shared_ptr<const Grammar> grammar = builder_.build(root);
  check_demands(*grammar);
  return grammar;
}

RuleId SchemaCompiler::rule_of(const Json& schema, const std::string& path) {
  // A large definition may be used in many places: looking at it once will do.
  std::string reference;
  if (schema.is_object() && schema.size() == 1 && schema.contains("$ref") && schema["$ref"].is_string()) {
    reference = fmt::format("{} {}", sets_, schema["$ref"].get_ref<const std::string&>());
    const auto known = references_.find(reference);
    if (known != references_.end()) return known->second;
  }
  const RuleId rule = rule_of_flat(expansion_.expand(schema, path), path);
  if (!reference.empty()) references_.emplace(std::move(reference), rule);
  return rule;
}

RuleId SchemaCompiler::rule_of_flat(std::vector<Json> alternatives, const std::string& path) {
  std::string key = fmt::format("{}\n", sets_);
  for (Json& flat : alternatives) {
    flat.erase("$inexact");
    key += flat.dump() + "\n";
  }
  key_bytes_ += key.size();
  if (key_bytes_ > kMaxKeyBytes) fail_too_large("the schema's recursion makes ever larger schemas", path);
  const auto found = rules_.find(key);
  if (found != rules_.end()) return found->second;
  const RuleId rule = builder_.add_rule(path);
  rules_.emplace(std::move(key), rule);
  pending_.push_back({rule, std::move(alternatives), path, sets_});
  return rule;
}

NodeId SchemaCompiler::optional_space(NodeId from) {
  if (spelling() == Spelling::kOneWay) return from;
  const NodeId to = builder_.call(from, space_);
  builder_.join(from, to);
  return to;
}

NodeId SchemaCompiler::after_comma(NodeId from) { return optional_space(builder_.literal(from, ",")); }

NodeId SchemaCompiler::build_flat(NodeId from, const Json& flat, const std::string& path) {
  if (flat.contains("enum")) return build_literals(from, Json::object(), flat["enum"], path);
  const NodeId end = builder_.node();
  const std::vector<std::string> types = types_of(flat);
  const auto has = [&](const char* type) { return std::ranges::find(types, type) != types.end(); };
  for (const std::string& type : types) {
    if (type == "fraction" && has("integer")) continue;
    const bool both = type == "integer" && has("fraction");
    builder_.join(build_type(from, flat, both ? "number" : type, path), end);
  }
  return end;
}

NodeId SchemaCompiler::build_literals(NodeId from, const Json& flat, const Json& values, const std::string& path) {
  const NodeId end = builder_.node();
  for (const Json& value : values) {
    const bool is_out =
        flat.contains("$except") && std::ranges::find(flat["$except"], value) != flat["$except"].end();
    if (!is_out) builder_.join(builder_.literal(from, spell(value, path)), end);
  }
  return end;
}

NodeId SchemaCompiler::build_type(NodeId from, const Json& flat, const std::string& type, const std::string& path) {
  if (type == "object") return build_object(from, flat, path);
  if (type == "array") return build_array(from, flat, path);
  if (type == "string") return build_text(from, flat, path);
  if (type == "null") return build_literals(from, flat, Json::array({nullptr}), path);
  if (type == "boolean") return build_literals(from, flat, Json::array({true, false}), path);
  return build_numeric(from, flat, type, path);
}

NodeId SchemaCompiler::build_text(NodeId from, const Json& flat, const std::string& path) {
  const LengthLimits length = length_limits(flat);
  if (length.most < length.least) return builder_.node();  // nothing leads there
  std::optional<Language> language = expansion_.strings_of_flat(flat, path);
  if (!language && spelling() == Spelling::kFree) return build_string(builder_, from, length);
  if (!language) language = expansion_.languages().of_length(length, path);
  const NodeId inside = builder_.literal(from, "\"");
  return builder_.literal(build_language(builder_, inside, *language), "\"");
}

}  // namespace kvasir::grammar
