// SchemaCompiler: builds a rule for every distinct schema of values. Schemas that allow the same (once flat) share
// one, which is what makes recursion finite and repetition cheap.
//
// Within a set, an array that must not have an element twice, values are spelled in one way each, so that equal
// values are equal texts: no white space, properties sorted by name and at most one that the schema does not name,
// strings escaped only where they must be, numbers of at most 15 digits or up to 2^53, without an exponent or zeros
// at the end.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "grammar/builder.h"
#include "grammar/decimal_range.h"
#include "grammar/json_text.h"
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
    std::size_t sets;
  };
  // A rule that must have so many texts at least.
  struct Demand {
    std::uint64_t texts = 0;
    std::string path;
  };
  struct ObjectPlan;
  struct ArrayPlan;

  RuleId rule_of(const Json& schema, const std::string& path);
  RuleId rule_of_flat(std::vector<Json> alternatives, const std::string& path);
  Spelling spelling() const { return sets_ > 0 ? Spelling::kOneWay : Spelling::kFree; }
  std::string spell(const Json& value, const std::string& path) const;
  NodeId optional_space(NodeId from);
  NodeId after_comma(NodeId from);

  // Each builds one kind of value from a node, and returns the node at its end.
  NodeId build_flat(NodeId from, const Json& flat, const std::string& path);
  NodeId build_type(NodeId from, const Json& flat, const std::string& type, const std::string& path);
  NodeId build_literals(NodeId from, const Json& flat, const Json& values, const std::string& path);
  NodeId build_text(NodeId from, const Json& flat, const std::string& path);
  NodeId build_numeric(NodeId from, const Json& flat, const std::string& type, const std::string& path);
  NodeId build_object(NodeId from, const Json& flat, const std::string& path);
  NodeId build_existing(NodeId from, const Json& flat, const std::string& path);
  NodeId build_array(NodeId from, const Json& flat, const std::string& path);
  NodeId build_small_set(NodeId from, const ArrayPlan& plan, const std::vector<Json>& values,
                         const std::string& path);

  ObjectPlan plan_object(const Json& flat, const std::string& path);
  void plan_others(ObjectPlan& plan, const Json& flat, const std::string& path);
  void build_others(const ObjectPlan& plan, const std::vector<NodeId>& rows, NodeId close);
  std::optional<RuleId> element_rule(ArrayPlan& plan, std::uint64_t at, std::size_t choice, const std::string& path);
  ArrayPlan plan_array(const Json& flat, const std::string& path);
  std::optional<std::vector<Json>> few_values(const Json& schema, const std::string& path);
  std::optional<std::vector<Json>> few_elements(const ArrayPlan& plan, const std::string& path);
  RuleId rule_of_set_element(const ArrayPlan& plan, std::uint64_t at, const Json& schema, const std::string& path);
  void order_properties(ObjectPlan& plan) const;
  void check_demands(const Grammar& grammar) const;

  GrammarBuilder builder_;
  SchemaExpansion expansion_;
  RuleId space_ = 0;
  std::unordered_map<std::string, RuleId> rules_;       // by the text of the flat schemas
  std::unordered_map<std::string, RuleId> references_;  // by $ref, for schemas that are nothing else
  std::vector<Pending> pending_;
  std::size_t key_bytes_ = 0;  // of all texts ever looked up in rules_
  std::size_t sets_ = 0;       // around what is being built
  std::map<RuleId, Demand> demands_;
};

}  // namespace kvasir::grammar
