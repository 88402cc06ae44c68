// SchemaCompiler: builds a rule for every distinct schema of values. Schemas that allow the same (once flat) share
// one, which is what makes recursion finite and repetition cheap.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "grammar/builder.h"
#include "grammar/regex.h"
#include "grammar/schema_expansion.h"

namespace kvasir::grammar {

class SchemaCompiler {
 public:
  // `root` outlives this.
  explicit SchemaCompiler(const Json& root) : expansion_(root) {}

  // A text that is a value of `schema`, one character of white space before it allowed. Once.
  std::shared_ptr<const Grammar> compile(const Json& schema);

 private:
  // A rule that is named but not yet built.
  struct Pending {
    RuleId rule;
    std::vector<Json> alternatives;
    std::string path;
  };

  RuleId rule_of(const Json& schema, const std::string& path);
  RuleId rule_of_flat(std::vector<Json> alternatives, const std::string& path);
  NodeId optional_space(NodeId from);

  // Each builds one kind of value from a node, and returns the node at its end.
  NodeId build_flat(NodeId from, const Json& flat, const std::string& path);
  NodeId build_enum(NodeId from, const Json& flat, const std::string& path);
  NodeId build_type(NodeId from, const Json& flat, const std::string& type, const std::string& path);
  NodeId build_text(NodeId from, const Json& flat, const std::string& path);
  NodeId build_numeric(NodeId from, const Json& flat, const std::string& type, const std::string& path);
  NodeId build_object(NodeId from, const Json& flat, const std::string& path);
  NodeId build_array(NodeId from, const Json& flat, const std::string& path);

  GrammarBuilder builder_;
  SchemaExpansion expansion_;
  RuleId space_ = 0;
  std::unordered_map<std::string, RuleId> rules_;       // by the text of the flat schemas
  std::unordered_map<std::string, RuleId> references_;  // by $ref, for schemas that are nothing else
  std::vector<Pending> pending_;
  std::size_t key_bytes_ = 0;  // of all texts ever looked up in rules_
};

}  // namespace kvasir::grammar
