#include "grammar/builder.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "grammar/assemble.h"
#include "grammar/determinize.h"

namespace kvasir::grammar {

void fail_too_large(const std::string& what, const std::string& rule_name) {
  throw Error(Error::Kind::kCapacity,
              {what, rule_name, "use smaller length and count limits, a simpler pattern or fewer alternatives"});
}

RuleId GrammarBuilder::add_rule(std::string name) {
  const auto id = static_cast<RuleId>(rules_.size());
  rules_.push_back({.name = std::move(name)});
  const NodeId start = node();
  const NodeId end = node();
  rules_[id].start = start;
  rules_[id].end = end;
  return id;
}

RuleId GrammarBuilder::add_element_rule(RuleId element) {
  const RuleId id = add_rule(rules_[element].name);
  rules_[id].is_element = true;
  call(rules_[id].start, element, rules_[id].end);
  return id;
}

NodeId GrammarBuilder::node() {
  if (first_edges_.size() >= limits_.nodes) {
    fail_too_large(fmt::format("the schema needs more than {} automaton nodes", limits_.nodes),
                   rules_[current_].name);
  }
  first_edges_.push_back(0);
  return static_cast<NodeId>(first_edges_.size() - 1);
}

void GrammarBuilder::add_edge(NodeId from, NodeEdge edge) {
  if (edges_.size() >= limits_.nodes * 4) {
    fail_too_large(fmt::format("the schema needs more than {} automaton edges", limits_.nodes * 4),
                   rules_[current_].name);
  }
  edge.next = first_edges_[from];
  edges_.push_back(edge);
  first_edges_[from] = static_cast<std::uint32_t>(edges_.size());
}

void GrammarBuilder::join(NodeId from, NodeId to) { add_edge(from, {.kind = NodeEdge::Kind::kEmpty, .target = to}); }

void GrammarBuilder::bytes(NodeId from, std::uint8_t low, std::uint8_t high, NodeId to) {
  CHECK(low <= high);
  add_edge(from, {.kind = NodeEdge::Kind::kBytes, .low = low, .high = high, .target = to});
}

void GrammarBuilder::call(NodeId from, RuleId rule, NodeId to) {
  add_edge(from, {.kind = NodeEdge::Kind::kCall, .rule = rule, .target = to});
}

NodeId GrammarBuilder::literal(NodeId from, std::string_view text) {
  for (const char c : text) {
    const NodeId to = node();
    bytes(from, static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c), to);
    from = to;
  }
  return from;
}

NodeId GrammarBuilder::call(NodeId from, RuleId rule) {
  const NodeId to = node();
  call(from, rule, to);
  return to;
}

std::shared_ptr<const Grammar> GrammarBuilder::build(RuleId root) const {
  std::optional<Grammar::Parts> parts = assemble(determinize(*this), root);
  if (!parts) {
    fail_input("no value at all satisfies the schema", rules_[root].name,
               "look for a recursion without an end, or for keywords that contradict each other");
  }
  return std::make_shared<const Grammar>(*std::move(parts));
}

}  // namespace kvasir::grammar
