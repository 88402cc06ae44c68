#include "grammar/assemble.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "grammar/plain_runs.h"

namespace kvasir::grammar {
namespace {

// All states of all rules in one row, as they come.
struct Row {
  std::vector<RuleState> states;
  std::vector<StateId> starts;
};

Row lay_out(std::vector<RuleAutomaton> automata) {
  Row row;
  for (RuleAutomaton& automaton : automata) {
    const auto first = static_cast<StateId>(row.states.size());
    row.starts.push_back(first);
    for (RuleState& state : automaton.states) {
      for (ByteEdge& edge : state.edges) edge.target += first;
      for (RuleCall& call : state.calls) call.after += first;
      row.states.push_back(std::move(state));
    }
    automaton = {};
  }
  return row;
}

// Which states have a way to the end of their rule. Backwards from the ends, each edge once: a call is a way only
// when its rule has one, so it waits until that is known.
class Productive {
 public:
  explicit Productive(const Row& row) : good_(row.states.size(), false), waiting_(row.starts.size()) {
    before_.resize(row.states.size());
    for (StateId from = 0; from < row.states.size(); ++from) {
      for (const ByteEdge& edge : row.states[from].edges) before_[edge.target].push_back({from, kNoRule});
      for (const RuleCall& call : row.states[from].calls) before_[call.after].push_back({from, call.rule});
      if (row.states[from].is_final) todo_.push_back(from);
    }
    rule_of_start_.assign(row.states.size(), kNoRule);
    for (RuleId rule = 0; rule < row.starts.size(); ++rule) rule_of_start_[row.starts[rule]] = rule;
    rule_good_.assign(row.starts.size(), false);
    while (!todo_.empty()) {
      const StateId state = todo_.back();
      todo_.pop_back();
      if (!good_[state]) mark(state);
    }
  }

  bool state(StateId id) const { return good_[id]; }
  bool rule(RuleId id) const { return rule_good_[id]; }

 private:
  static constexpr RuleId kNoRule = kNoState;
  struct Before {
    StateId state;
    RuleId through;  // the rule called on the way; kNoRule: a byte
  };

  void mark(StateId state) {
    good_[state] = true;
    for (const Before& before : before_[state]) {
      if (before.through == kNoRule || rule_good_[before.through]) {
        todo_.push_back(before.state);
      } else {
        waiting_[before.through].push_back(before.state);
      }
    }
    const RuleId rule = rule_of_start_[state];
    if (rule == kNoRule) return;
    rule_good_[rule] = true;
    todo_.insert(todo_.end(), waiting_[rule].begin(), waiting_[rule].end());
  }

  std::vector<bool> good_;
  std::vector<bool> rule_good_;
  std::vector<std::vector<Before>> before_;
  std::vector<std::vector<StateId>> waiting_;  // by rule: states that are good once it is
  std::vector<RuleId> rule_of_start_;
  std::vector<StateId> todo_;
};

void cut(Row& row, const Productive& productive) {
  for (RuleState& state : row.states) {
    std::erase_if(state.edges, [&](const ByteEdge& edge) { return !productive.state(edge.target); });
    std::erase_if(state.calls,
                  [&](const RuleCall& call) { return !productive.rule(call.rule) || !productive.state(call.after); });
  }
}

// States that a walk from the root's start can come to, through calls too.
std::vector<bool> reached(const Row& row, RuleId root) {
  std::vector<bool> seen(row.states.size(), false);
  std::vector<StateId> todo{row.starts[root]};
  while (!todo.empty()) {
    const StateId state = todo.back();
    todo.pop_back();
    if (seen[state]) continue;
    seen[state] = true;
    for (const ByteEdge& edge : row.states[state].edges) todo.push_back(edge.target);
    for (const RuleCall& call : row.states[state].calls) {
      todo.push_back(call.after);
      todo.push_back(row.starts[call.rule]);
    }
  }
  return seen;
}

// A rule that begins with calls of rules that begin with calls … must come to a byte: else the matcher would not end.
void check_no_left_recursion(const Row& row) {
  enum class Mark : std::uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(row.starts.size(), Mark::kNew);
  for (RuleId first = 0; first < row.starts.size(); ++first) {
    std::vector<std::pair<RuleId, std::size_t>> path;  // rule, and which of its start's calls comes next
    if (marks[first] == Mark::kNew) path.emplace_back(first, 0);
    while (!path.empty()) {
      auto& [rule, at] = path.back();
      marks[rule] = Mark::kOpen;
      const std::vector<RuleCall>& calls = row.states[row.starts[rule]].calls;
      if (at == calls.size()) {
        marks[rule] = Mark::kDone;
        path.pop_back();
        continue;
      }
      const RuleId next = calls[at++].rule;
      CHECK(marks[next] != Mark::kOpen);
      if (marks[next] == Mark::kNew) path.emplace_back(next, 0);
    }
  }
}

}  // namespace

std::optional<Grammar::Parts> assemble(std::vector<RuleAutomaton> automata, RuleId root) {
  Row row = lay_out(std::move(automata));
  const Productive productive(row);
  if (!productive.rule(root)) return std::nullopt;
  cut(row, productive);
  check_no_left_recursion(row);

  const std::vector<bool> kept = reached(row, root);
  std::vector<StateId> new_ids(row.states.size(), kNoState);
  StateId count = 0;
  for (StateId id = 0; id < row.states.size(); ++id) {
    if (kept[id]) new_ids[id] = count++;
  }
  Grammar::Parts parts;
  parts.root = root;
  parts.states.reserve(count + 1);
  for (StateId id = 0; id < row.states.size(); ++id) {
    if (!kept[id]) continue;
    parts.states.push_back({static_cast<std::uint32_t>(parts.edges.size()),
                            static_cast<std::uint32_t>(parts.calls.size()), 0, row.states[id].is_final,
                            row.states[id].role});
    for (const ByteEdge& edge : row.states[id].edges)
      parts.edges.push_back({edge.low, edge.high, new_ids[edge.target]});
    for (const RuleCall& call : row.states[id].calls) parts.calls.push_back({call.rule, new_ids[call.after]});
  }
  parts.states.push_back(
      {static_cast<std::uint32_t>(parts.edges.size()), static_cast<std::uint32_t>(parts.calls.size())});
  for (const StateId start : row.starts) parts.starts.push_back(new_ids[start]);
  find_plain_runs(parts);
  return parts;
}

}  // namespace kvasir::grammar
