#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "grammar/language.h"

namespace kvasir::grammar {
namespace {

constexpr std::size_t kMaxNodes = std::size_t{1} << 18;

// The pattern as a nondeterministic automaton over characters.
struct CharacterGraph {
  struct Edge {
    NodeId to;
    const CodePointSet* set;  // nullptr: nothing is read
  };
  std::vector<std::vector<Edge>> edges;  // of each node
};

class Unroller {
 public:
  Unroller(Languages& languages, const std::string& where) : languages_(languages), where_(where) {}

  NodeId node() {
    if (graph.edges.size() >= kMaxNodes) fail_too_large("the schema has a pattern that is too large", where_);
    languages_.spend(1, where_);
    graph.edges.emplace_back();
    return static_cast<NodeId>(graph.edges.size() - 1);
  }

  NodeId build(NodeId from, const Regex& regex) {
    switch (regex.kind) {
      case Regex::Kind::kSet: {
        const NodeId to = node();
        join(from, to, &regex.set);
        return to;
      }
      case Regex::Kind::kSequence:
        for (const Regex& part : regex.parts) from = build(from, part);
        return from;
      case Regex::Kind::kAlternatives: {
        const NodeId to = node();
        for (const Regex& part : regex.parts) join(build(from, part), to);
        return to;
      }
      case Regex::Kind::kRepeat:
        return repeat(from, regex);
      case Regex::Kind::kAll: {
        Language all = languages_.of_regex(regex.parts.front(), where_);
        for (std::size_t i = 1; i < regex.parts.size(); ++i) {
          const Language next = languages_.of_regex(regex.parts[i], where_);
          all = languages_.combined(all, next, Languages::Keep::kBoth, where_);
        }
        return embed(from, all);
      }
      case Regex::Kind::kNot: {
        const Language what = languages_.of_regex(regex.parts.front(), where_);
        const Language any = languages_.of_length({}, where_);
        return embed(from, languages_.combined(any, what, Languages::Keep::kFirstOnly, where_));
      }
      default:
        return from;  // parse_pattern leaves no anchors
    }
  }

  CharacterGraph graph;

 private:
  void join(NodeId from, NodeId to, const CodePointSet* set = nullptr) { graph.edges[from].push_back({to, set}); }

  NodeId skip(NodeId from) {
    const NodeId to = node();
    join(from, to);
    return to;
  }

  NodeId repeat(NodeId from, const Regex& regex) {
    const Regex& what = regex.parts.front();
    // Each round has a node of its own, so that even a part that builds nothing counts against the limit.
    for (std::uint32_t i = 0; i < regex.least; ++i) from = skip(build(from, what));
    if (regex.most == Regex::kNoLimit) {
      const NodeId loop = skip(from);
      join(build(loop, what), loop);
      return skip(loop);
    }
    const NodeId to = node();
    for (std::uint32_t i = regex.least; i < regex.most; ++i) {
      join(from, to);
      from = skip(build(from, what));
    }
    join(from, to);
    return to;
  }

  NodeId embed(NodeId from, const Language& language) {
    const NodeId end = node();
    std::vector<NodeId> nodes;
    for (std::size_t i = 0; i < language.states.size(); ++i) nodes.push_back(node());
    if (!nodes.empty()) join(from, nodes.front());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      for (const Language::Edge& edge : language.states[i].edges) {
        sets_.push_back({{edge.low, edge.high}});
        join(nodes[i], nodes[edge.target], &sets_.back());
      }
      if (language.states[i].accepts) join(nodes[i], end);
    }
    return end;
  }

  Languages& languages_;
  const std::string& where_;
  std::deque<CodePointSet> sets_;  // of what was embedded
};

// The subset construction.
class Determinizer {
 public:
  Determinizer(const CharacterGraph& graph, Languages& languages, const std::string& where)
      : graph_(graph), languages_(languages), where_(where), seen_(graph.edges.size(), 0) {}

  Language run(NodeId start, NodeId finish) {
    state_of({start}, finish);
    for (std::size_t i = 0; i < sets_.size(); ++i) expand(i, finish);
    return std::move(out_);
  }

 private:
  using NodeSet = std::vector<NodeId>;  // sorted

  std::uint32_t state_of(NodeSet from, NodeId finish) {
    ++stamp_;
    NodeSet kept;
    while (!from.empty()) {
      const NodeId node = from.back();
      from.pop_back();
      if (seen_[node] == stamp_) continue;
      seen_[node] = stamp_;
      bool matters = node == finish;
      for (const CharacterGraph::Edge& edge : graph_.edges[node]) {
        if (edge.set == nullptr) {
          from.push_back(edge.to);
        } else {
          matters = true;
        }
      }
      languages_.spend(1 + graph_.edges[node].size(), where_);
      if (matters) kept.push_back(node);
    }
    std::ranges::sort(kept);
    const auto [place, is_new] = ids_.try_emplace(std::move(kept), static_cast<std::uint32_t>(sets_.size()));
    if (is_new) {
      sets_.push_back(&place->first);
      out_.states.emplace_back().accepts = std::ranges::binary_search(place->first, finish);
    }
    return place->second;
  }

  void expand(std::size_t state, NodeId finish) {
    struct Change {
      char32_t at;
      bool begins;
      NodeId target;
      auto operator<=>(const Change&) const = default;
    };
    std::vector<Change> changes;
    for (const NodeId node : *sets_[state]) {
      for (const CharacterGraph::Edge& edge : graph_.edges[node]) {
        if (edge.set == nullptr) continue;
        for (const auto& [low, high] : edge.set->ranges()) {
          changes.push_back({low, true, edge.to});
          changes.push_back({high + 1, false, edge.to});
        }
      }
    }
    languages_.spend(2 * changes.size(), where_);
    std::ranges::sort(changes);
    std::map<NodeId, int> open;  // targets of the edges that are open, each with their number
    std::map<NodeSet, std::uint32_t> known;
    for (std::size_t i = 0; i < changes.size();) {
      const char32_t low = changes[i].at;
      for (; i < changes.size() && changes[i].at == low; ++i) {
        const int count = open[changes[i].target] += changes[i].begins ? 1 : -1;
        if (count == 0) open.erase(changes[i].target);
      }
      if (open.empty()) continue;
      NodeSet targets;
      for (const auto& [target, count] : open) targets.push_back(target);
      languages_.spend(targets.size(), where_);
      auto found = known.find(targets);
      if (found == known.end()) found = known.emplace(targets, state_of(targets, finish)).first;
      std::vector<Language::Edge>& edges = out_.states[state].edges;
      const char32_t high = changes[i].at - 1;
      if (!edges.empty() && edges.back().target == found->second && edges.back().high + 1 == low) {
        edges.back().high = high;
      } else {
        edges.push_back({low, high, found->second});
      }
    }
  }

  const CharacterGraph& graph_;
  Languages& languages_;
  const std::string& where_;
  std::vector<std::uint32_t> seen_;  // the stamp of the closure that saw the node last
  std::uint32_t stamp_ = 0;
  Language out_;
  std::map<NodeSet, std::uint32_t> ids_;
  std::vector<const NodeSet*> sets_;  // keys of ids_, which stay where they are, by state
};

}  // namespace

Language Languages::of_regex(const Regex& regex, const std::string& where) {
  Unroller unroller(*this, where);
  const NodeId start = unroller.node();
  const NodeId finish = unroller.build(start, regex);
  const Language all = Determinizer(unroller.graph, *this, where).run(start, finish);
  const Language any = of_length({}, where);
  return combined(all, any, Keep::kBoth, where);  // without what leads nowhere
}

}  // namespace kvasir::grammar
