#include "grammar/language.h"

#include <algorithm>
#include <map>
#include <utility>

namespace kvasir::grammar {
namespace {

constexpr std::size_t kMaxWork = std::size_t{6} << 20;
constexpr std::uint32_t kMaxLength = 1U << 17;
constexpr std::uint32_t kDead = 0xFFFFFFFF;
constexpr char32_t kPastLast = 0x110000;

// Leaves the states that can be reached and lead to an accepting one.
Language trimmed(const Language& all) {
  const std::size_t count = all.states.size();
  std::vector<std::vector<std::uint32_t>> before(count);
  std::vector<std::uint32_t> todo;
  std::vector<bool> good(count, false);
  for (std::uint32_t from = 0; from < count; ++from) {
    for (const Language::Edge& edge : all.states[from].edges) before[edge.target].push_back(from);
    if (all.states[from].accepts) todo.push_back(from);
  }
  while (!todo.empty()) {
    const std::uint32_t state = todo.back();
    todo.pop_back();
    if (good[state]) continue;
    good[state] = true;
    todo.insert(todo.end(), before[state].begin(), before[state].end());
  }
  Language out;
  if (count == 0 || !good[0]) return out;
  std::vector<std::uint32_t> ids(count, kDead);
  std::uint32_t next = 0;
  for (std::uint32_t state = 0; state < count; ++state) {
    if (good[state]) ids[state] = next++;
  }
  for (std::uint32_t state = 0; state < count; ++state) {
    if (!good[state]) continue;
    Language::State& kept = out.states.emplace_back();
    kept.accepts = all.states[state].accepts;
    for (const Language::Edge& edge : all.states[state].edges) {
      if (good[edge.target]) kept.edges.push_back({edge.low, edge.high, ids[edge.target]});
    }
  }
  return out;
}

// The edges of a state that may be none.
std::span<const Language::Edge> edges_of(const Language& language, std::uint32_t state) {
  return state == kDead ? std::span<const Language::Edge>() : std::span(language.states[state].edges);
}

void add_edge(Language::State& state, Language::Edge edge) {
  if (!state.edges.empty() && state.edges.back().target == edge.target && state.edges.back().high + 1 == edge.low) {
    state.edges.back().high = edge.high;
  } else {
    state.edges.push_back(edge);
  }
}

// Where two states lead, range by range: each is told with the two targets, either of which may be kDead.
template <class Tell>
void walk_together(std::span<const Language::Edge> a, std::span<const Language::Edge> b, Tell&& tell) {
  std::size_t i = 0, k = 0;
  for (char32_t low = 0; i < a.size() || k < b.size();) {
    const auto side = [low](std::span<const Language::Edge> edges,
                            std::size_t at) -> std::pair<std::uint32_t, char32_t> {
      if (at == edges.size()) return {kDead, kPastLast};
      if (edges[at].low > low) return {kDead, edges[at].low};
      return {edges[at].target, edges[at].high + 1};
    };
    const auto [first, first_end] = side(a, i);
    const auto [second, second_end] = side(b, k);
    const char32_t end = std::min(first_end, second_end);
    if (first != kDead || second != kDead) tell(low, end - 1, first, second);
    if (i < a.size() && a[i].high < end) ++i;
    if (k < b.size() && b[k].high < end) ++k;
    low = end;
  }
}

}  // namespace

bool Language::contains(std::string_view text) const {
  if (is_empty()) return false;
  std::uint32_t at = 0;
  while (!text.empty()) {
    const std::optional<char32_t> character = take_utf8(text);
    if (!character) return false;
    const auto edge = std::ranges::lower_bound(states[at].edges, *character, {}, &Edge::high);
    if (edge == states[at].edges.end() || edge->low > *character) return false;
    at = edge->target;
  }
  return states[at].accepts;
}

std::optional<std::vector<std::string>> Language::texts(std::size_t most) const {
  // Breadth first: in a language with a loop, the paths are more and more.
  std::vector<std::string> out;
  std::vector<std::pair<std::uint32_t, std::string>> paths;
  if (!is_empty()) paths.emplace_back(0, "");
  while (!paths.empty()) {
    std::vector<std::pair<std::uint32_t, std::string>> next;
    for (const auto& [state, text] : paths) {
      if (states[state].accepts) out.push_back(text);
      for (const Edge& edge : states[state].edges) {
        if (edge.high - edge.low >= most) return std::nullopt;
        for (char32_t c = edge.low; c <= edge.high; ++c) next.emplace_back(edge.target, text + utf8(c));
      }
      if (out.size() > most || next.size() > most || text.size() > 256) return std::nullopt;
    }
    paths = std::move(next);
  }
  return out;
}

void Languages::spend(std::size_t work, const std::string& where) {
  spent_ += work;
  if (spent_ > kMaxWork) fail_too_large("the schema's patterns take too long to combine", where);
}

const Language& Languages::of_pattern(const std::string& pattern, const std::string& where) {
  const auto known = patterns_.find(pattern);
  if (known != patterns_.end()) return known->second;
  return patterns_.emplace(pattern, of_regex(parse_pattern(pattern, where), where)).first->second;
}

Language Languages::of_texts(std::span<const std::string> texts, const std::string& where) {
  std::vector<std::map<char32_t, std::uint32_t>> trie(1);
  std::vector<bool> ends(1, false);
  for (const std::string& text : texts) {
    spend(text.size() + 1, where);
    std::uint32_t at = 0;
    std::string_view rest = text;
    while (const std::optional<char32_t> character = take_utf8(rest)) {
      const auto [child, is_new] = trie[at].try_emplace(*character, static_cast<std::uint32_t>(trie.size()));
      at = child->second;
      if (!is_new) continue;
      trie.emplace_back();
      ends.push_back(false);
    }
    ends[at] = true;
  }
  Language out;
  for (std::size_t i = 0; i < trie.size(); ++i) {
    Language::State& state = out.states.emplace_back();
    state.accepts = ends[i];
    for (const auto& [character, child] : trie[i]) state.edges.push_back({character, character, child});
  }
  return trimmed(out);
}

Language Languages::of_length(LengthLimits length, const std::string& where) {
  const bool limited = length.most != Regex::kNoLimit;
  const std::uint32_t last = limited ? length.most : length.least;
  if (last > kMaxLength) fail_too_large("the schema has too long a string with a pattern", where);
  spend(last, where);
  Language out;
  if (length.most < length.least) return out;
  const CodePointSet any = CodePointSet::all();
  for (std::uint32_t i = 0; i <= last; ++i) {
    Language::State& state = out.states.emplace_back();
    state.accepts = i >= length.least;
    if (i == last && limited) break;
    for (const auto& [low, high] : any.ranges()) state.edges.push_back({low, high, std::min(i + 1, last)});
  }
  return out;
}

Language Languages::combined(const Language& a, const Language& b, Keep keep, const std::string& where) {
  Language out;
  const auto none = [](const Language& language) { return language.is_empty() ? kDead : 0; };
  const auto dead = [keep](std::uint32_t first, std::uint32_t second) {
    if (keep == Keep::kEither) return first == kDead && second == kDead;
    return first == kDead || (keep == Keep::kBoth && second == kDead);
  };
  if (dead(none(a), none(b))) return out;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> ids{{{none(a), none(b)}, 0}};
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs{{none(a), none(b)}};
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto [first, second] = pairs[i];
    const auto accepts = [](const Language& of, std::uint32_t state) {
      return state != kDead && of.states[state].accepts;
    };
    Language::State state;
    state.accepts = keep == Keep::kBoth        ? accepts(a, first) && accepts(b, second)
                    : keep == Keep::kFirstOnly ? accepts(a, first) && !accepts(b, second)
                                               : accepts(a, first) || accepts(b, second);
    const auto to_a = edges_of(a, first);
    const auto to_b = edges_of(b, second);
    spend(4 + 2 * (to_a.size() + to_b.size()), where);
    walk_together(to_a, to_b, [&](char32_t low, char32_t high, std::uint32_t x, std::uint32_t y) {
      if (dead(x, y)) return;
      const auto [place, is_new] = ids.try_emplace({x, y}, static_cast<std::uint32_t>(pairs.size()));
      if (is_new) pairs.push_back(place->first);
      add_edge(state, {low, high, place->second});
    });
    out.states.push_back(std::move(state));
  }
  return trimmed(out);
}

NodeId build_language(GrammarBuilder& builder, NodeId from, const Language& language) {
  const NodeId end = builder.node();
  if (language.is_empty()) return end;
  std::vector<NodeId> nodes(language.states.size());
  for (NodeId& node : nodes) node = builder.node();
  builder.join(from, nodes.front());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::map<std::uint32_t, CodePointSet> by_target;
    for (const Language::Edge& edge : language.states[i].edges) by_target[edge.target].add(edge.low, edge.high);
    for (const auto& [target, set] : by_target) build_characters(builder, nodes[i], set, nodes[target]);
    if (language.states[i].accepts) builder.join(nodes[i], end);
  }
  return end;
}

}  // namespace kvasir::grammar
