// GrammarBuilder: rules built as graphs of nodes (a nondeterministic automaton), then compiled to a Grammar.
//
// Whoever builds a piece of a rule starts at a node and returns the node where the piece ends:
//   NodeId at = builder.literal(from, "\"x\":");  at = builder.call(at, value_rule);
// Everything is bounded: a grammar that would grow past the limits gives an Error that names the rule.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"

namespace kvasir::grammar {

using NodeId = std::uint32_t;

struct BuildLimits {
  std::size_t nodes = std::size_t{1} << 20;   // built
  std::size_t states = std::size_t{1} << 18;  // compiled
  std::size_t work = std::size_t{12} << 20;   // node visits while compiling: a fifth of a second
};

struct NodeEdge {
  enum class Kind : std::uint8_t { kEmpty, kBytes, kCall };
  Kind kind = Kind::kEmpty;
  std::uint8_t low = 0, high = 0;  // kBytes
  RuleId rule = 0;                 // kCall
  NodeId target = 0;
  std::uint32_t next = 0;  // edge of the same node, + 1; 0: none
};

class GrammarBuilder {
 public:
  struct Rule {
    std::string name;  // for errors: where in the schema it stands
    NodeId start = 0;
    NodeId end = 0;
    bool is_element = false;  // of a set (grammar.h)
  };

  explicit GrammarBuilder(BuildLimits limits = {}) : limits_(limits) {}

  RuleId add_rule(std::string name);
  // A rule of its own for the elements of a set, with the texts of this one.
  RuleId add_element_rule(RuleId element);
  const Rule& rule(RuleId id) const { return rules_[id]; }

  // What is built from here on belongs to this rule, as far as errors are concerned.
  void enter(RuleId id) { current_ = id; }

  NodeId node();
  void join(NodeId from, NodeId to);
  void bytes(NodeId from, std::uint8_t low, std::uint8_t high, NodeId to);
  void call(NodeId from, RuleId rule, NodeId to);

  NodeId literal(NodeId from, std::string_view text);
  NodeId call(NodeId from, RuleId rule);

  // Throws Error when a limit is exceeded, or when no text at all matches the root. REQUIRES: no rule matches the
  // empty text or begins with itself.
  std::shared_ptr<const Grammar> build(RuleId root) const;

  // For determinize.cpp.
  const std::vector<Rule>& rules() const { return rules_; }
  const BuildLimits& limits() const { return limits_; }
  std::uint32_t first_edge(NodeId node) const { return first_edges_[node]; }
  const NodeEdge& edge(std::uint32_t number) const { return edges_[number - 1]; }
  std::size_t node_count() const { return first_edges_.size(); }

 private:
  void add_edge(NodeId from, NodeEdge edge);

  BuildLimits limits_;
  std::vector<Rule> rules_;
  std::vector<std::uint32_t> first_edges_;  // of each node, + 1; 0: none
  std::vector<NodeEdge> edges_;
  RuleId current_ = 0;
};

// The Error for a grammar too large to be compiled.
[[noreturn]] void fail_too_large(const std::string& what, const std::string& rule_name);

}  // namespace kvasir::grammar
