// SchemaCompiler: builds a rule for every distinct schema of values. Schemas that allow the same (once flat) share
// one, which is what makes recursion finite and repetition cheap.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "grammar/builder.h"
#include "grammar/decimal_range.h"
#include "grammar/schema_expansion.h"

namespace kvasir::grammar {

class SchemaCompiler {
 public:
  // `document` outlives this.
  explicit SchemaCompiler(const SchemaDocument& document) : expansion_(document) {}

  // A text that is a value of `schema`, one character of white space before it allowed. Once.
  std::shared_ptr<const Grammar> compile(const Json& schema);

 private:
  // A rule that is named but not yet built.
  struct Pending {
    RuleId rule;
    std::vector<Json> alternatives;
    std::string path;
  };
  struct ObjectPlan;
  struct ArrayPlan;

  RuleId rule_of(const Json& schema, const std::string& path);
  RuleId rule_of_flat(std::vector<Json> alternatives, const std::string& path);
  NodeId optional_space(NodeId from);
  NodeId after_comma(NodeId from);

  // Each builds one kind of value from a node, and returns the node at its end.
  NodeId build_flat(NodeId from, const Json& flat, const std::string& path);
  NodeId build_type(NodeId from, const Json& flat, const std::string& type, const std::string& path);
  NodeId build_literals(NodeId from, const Json& flat, const Json& values);
  NodeId build_text(NodeId from, const Json& flat, const std::string& path);
  NodeId build_numeric(NodeId from, const Json& flat, const std::string& type, const std::string& path);
  NodeId build_object(NodeId from, const Json& flat, const std::string& path);
  NodeId build_existing(NodeId from, const Json& flat, const std::string& path);
  NodeId build_array(NodeId from, const Json& flat, const std::string& path);
  NodeId build_unique(NodeId from, const ArrayPlan& plan, const std::string& path);

  ObjectPlan plan_object(const Json& flat, const std::string& path);
  void plan_others(ObjectPlan& plan, const Json& flat, const std::string& path);
  void build_others(const ObjectPlan& plan, const std::vector<NodeId>& rows, NodeId close);
  std::optional<RuleId> element_rule(ArrayPlan& plan, std::uint64_t at, std::size_t choice, const std::string& path);
  ArrayPlan plan_array(const Json& flat, const std::string& path);
  std::optional<std::vector<Json>> few_values(const Json& schema, const std::string& path);

  GrammarBuilder builder_;
  SchemaExpansion expansion_;
  RuleId space_ = 0;
  std::unordered_map<std::string, RuleId> rules_;       // by the text of the flat schemas
  std::unordered_map<std::string, RuleId> references_;  // by $ref, for schemas that are nothing else
  std::vector<Pending> pending_;
  std::size_t key_bytes_ = 0;  // of all texts ever looked up in rules_
};

}  // namespace kvasir::grammar
