#include <algorithm>

#include "grammar/regex.h"

namespace kvasir::grammar {
namespace {

// The pattern over characters, before characters become bytes: this form can count characters.
struct CharacterGraph {
  struct Edge {
    NodeId from, to;
    const CodePointSet* set;  // nullptr: nothing is read
  };
  NodeId nodes = 0;
  std::vector<Edge> edges;
};

class Unroller {
 public:
  explicit Unroller(GrammarBuilder& builder) : builder_(builder) {}

  NodeId node() {
    builder_.node();  // counts against the builder's limit, which stops patterns that unroll without end
    return graph.nodes++;
  }

  NodeId build(NodeId from, const Regex& regex) {
    switch (regex.kind) {
      case Regex::Kind::kSet: {
        const NodeId to = node();
        graph.edges.push_back({from, to, &regex.set});
        return to;
      }
      case Regex::Kind::kSequence:
        for (const Regex& part : regex.parts) from = build(from, part);
        return from;
      case Regex::Kind::kAlternatives: {
        const NodeId to = node();
        for (const Regex& part : regex.parts) graph.edges.push_back({build(from, part), to, nullptr});
        return to;
      }
      case Regex::Kind::kRepeat:
        return repeat(from, regex);
      case Regex::Kind::kBegin:
      case Regex::Kind::kEnd:
        break;  // parse_pattern leaves none
    }
    return from;
  }

  CharacterGraph graph;

 private:
  NodeId skip(NodeId from) {
    const NodeId to = node();
    graph.edges.push_back({from, to, nullptr});
    return to;
  }

  NodeId repeat(NodeId from, const Regex& regex) {
    const Regex& what = regex.parts.front();
    // Each round has a node of its own, so that even a part that builds nothing counts against the limit.
    for (std::uint32_t i = 0; i < regex.least; ++i) from = skip(build(from, what));
    if (regex.most == Regex::kNoLimit) {
      const NodeId loop = skip(from);
      graph.edges.push_back({build(loop, what), loop, nullptr});
      return skip(loop);
    }
    const NodeId to = node();
    for (std::uint32_t i = regex.least; i < regex.most; ++i) {
      graph.edges.push_back({from, to, nullptr});
      from = skip(build(from, what));
    }
    graph.edges.push_back({from, to, nullptr});
    return to;
  }

  GrammarBuilder& builder_;
};

}  // namespace

NodeId build_pattern(GrammarBuilder& builder, NodeId from, const Regex& regex, LengthLimits length) {
  Unroller unroller(builder);
  const NodeId start = unroller.node();
  const NodeId finish = unroller.build(start, regex);
  const CharacterGraph& graph = unroller.graph;

  // One layer for each number of characters that makes a difference; the last one keeps to itself where there is no
  // upper limit.
  const bool limited = length.most != Regex::kNoLimit;
  const std::size_t layers = std::size_t{limited ? length.most : length.least} + 1;
  const NodeId end = builder.node();
  std::vector<NodeId> layer(graph.nodes);
  for (NodeId& node : layer) node = builder.node();
  builder.join(from, layer[start]);
  for (std::size_t count = 0; count < layers; ++count) {
    std::vector<NodeId> next = layer;
    const bool is_last = count + 1 == layers;
    if (!is_last) {
      for (NodeId& node : next) node = builder.node();
    }
    for (const CharacterGraph::Edge& edge : graph.edges) {
      if (edge.set == nullptr) {
        builder.join(layer[edge.from], layer[edge.to]);
      } else if (!is_last || !limited) {
        build_characters(builder, layer[edge.from], *edge.set, next[edge.to]);
      }
    }
    if (count >= length.least) builder.join(layer[finish], end);
    layer = std::move(next);
  }
  return end;
}

}  // namespace kvasir::grammar
