#include "grammar/determinize.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/hash.h"

namespace kvasir::grammar {
namespace {

using NodeSet = std::vector<NodeId>;  // sorted

struct NodeSetHash {
  std::size_t operator()(const NodeSet& set) const {
    std::uint64_t hash = set.size();
    for (const NodeId node : set) hash = mix(hash, node, 1);
    return hash;
  }
};

// What the limits count, over all rules.
struct Spent {
  std::size_t states = 0;
  std::size_t work = 0;
};

class Determinizer {
 public:
  Determinizer(const GrammarBuilder& builder, Spent& spent)
      : builder_(builder), spent_(spent), seen_(builder.node_count(), 0) {}

  RuleAutomaton run(const GrammarBuilder::Rule& rule) {
    rule_ = &rule;
    out_ = {};
    ids_.clear();
    pending_.clear();
    state_of(closure({rule.start}));
    for (std::size_t i = 0; i < pending_.size(); ++i) expand(static_cast<StateId>(i), *pending_[i]);
    CHECK(!out_.states.front().is_final);
    if (rule.is_element) mark_element();
    return std::move(out_);
  }

 private:
  void mark_element() {
    for (RuleState& state : out_.states) {
      if (state.is_final) state.role = Grammar::Role::kElementEnd;
    }
    out_.states.front().role = Grammar::Role::kElementStart;
  }

  void spend(std::size_t work) {
    spent_.work += work;
    if (spent_.work > builder_.limits().work) {
      fail_too_large("the schema takes too long to compile", rule_->name);
    }
  }

  // All nodes reachable without a letter, but only those that matter: with letters to go on, or the rule's end.
  NodeSet closure(NodeSet from) {
    ++stamp_;
    NodeSet kept;
    while (!from.empty()) {
      const NodeId node = from.back();
      from.pop_back();
      if (seen_[node] == stamp_) continue;
      seen_[node] = stamp_;
      bool matters = node == rule_->end;
      std::size_t visits = 1;
      for (std::uint32_t e = builder_.first_edge(node); e != 0; e = builder_.edge(e).next, ++visits) {
        const NodeEdge& edge = builder_.edge(e);
        if (edge.kind == NodeEdge::Kind::kEmpty) {
          from.push_back(edge.target);
        } else {
          matters = true;
        }
      }
      spend(visits);
      if (matters) kept.push_back(node);
    }
    std::ranges::sort(kept);
    return kept;
  }

  StateId state_of(NodeSet set) {
    const auto [place, is_new] = ids_.try_emplace(std::move(set), static_cast<StateId>(out_.states.size()));
    if (!is_new) return place->second;
    if (++spent_.states > builder_.limits().states) {
      fail_too_large(fmt::format("the schema needs more than {} automaton states", builder_.limits().states),
                     rule_->name);
    }
    out_.states.emplace_back();
    out_.states.back().is_final = std::ranges::binary_search(place->first, rule_->end);
    pending_.push_back(&place->first);
    return place->second;
  }

  void expand(StateId state, const NodeSet& set) {
    std::array<NodeSet, 256> by_byte;
    std::map<RuleId, NodeSet> by_rule;
    std::size_t visits = set.size();
    for (const NodeId node : set) {
      for (std::uint32_t e = builder_.first_edge(node); e != 0; e = builder_.edge(e).next) {
        const NodeEdge& edge = builder_.edge(e);
        if (edge.kind == NodeEdge::Kind::kCall) by_rule[edge.rule].push_back(edge.target);
        if (edge.kind != NodeEdge::Kind::kBytes) continue;
        for (unsigned byte = edge.low; byte <= edge.high; ++byte) by_byte[byte].push_back(edge.target);
        visits += static_cast<std::size_t>(edge.high - edge.low) / 16 + 1;
      }
    }
    spend(visits);
    for (unsigned low = 0; low < 256;) {
      unsigned high = low;
      while (high < 255 && by_byte[high + 1] == by_byte[low]) ++high;
      if (!by_byte[low].empty()) {
        const StateId target = state_of(closure(std::move(by_byte[low])));
        add_edge(state, {static_cast<std::uint8_t>(low), static_cast<std::uint8_t>(high), target});
      }
      low = high + 1;
    }
    for (auto& [rule, targets] : by_rule) {
      const StateId after = state_of(closure(std::move(targets)));
      out_.states[state].calls.push_back({rule, after});
    }
  }

  // Neighbouring ranges may lead to the same state though their node lists differ in order.
  void add_edge(StateId state, ByteEdge edge) {
    std::vector<ByteEdge>& edges = out_.states[state].edges;
    if (!edges.empty() && edges.back().target == edge.target && edges.back().high + 1 == edge.low) {
      edges.back().high = edge.high;
    } else {
      edges.push_back(edge);
    }
  }

  const GrammarBuilder& builder_;
  Spent& spent_;
  std::vector<std::uint32_t> seen_;  // the stamp of the closure that saw the node last
  std::uint32_t stamp_ = 0;

  // Of the rule at work.
  const GrammarBuilder::Rule* rule_ = nullptr;
  RuleAutomaton out_;
  std::unordered_map<NodeSet, StateId, NodeSetHash> ids_;
  std::vector<const NodeSet*> pending_;  // keys of ids_, which stay where they are, by state
};

}  // namespace

std::vector<RuleAutomaton> determinize(const GrammarBuilder& builder) {
  Spent spent;
  Determinizer determinizer(builder, spent);
  std::vector<RuleAutomaton> automata;
  automata.reserve(builder.rules().size());
  for (const GrammarBuilder::Rule& rule : builder.rules()) automata.push_back(determinizer.run(rule));
  return automata;
}

}  // namespace kvasir::grammar
