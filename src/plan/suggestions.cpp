#include "plan/suggestions.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "layout/codec.h"
#include "plan/arithmetic.h"
#include "plan/gpus.h"

namespace kvasir {
namespace {

// The first tokens that a window cut into a model must keep: without them its attention has nowhere to rest.
constexpr std::int64_t kSinks = 4;

// Collects suggestions for one plan; each is a changed input, or the same input with fewer bytes.
class SuggestionList {
 public:
  SuggestionList(const PlanInput& input, const MemoryPlan& plan) : input_(input), plan_(plan) {}

  void add_formats();
  void add_shorter_context();
  void add_fewer_users();
  void add_shared_prefix();
  void add_window();
  void add_memory();
  std::vector<Suggestion> in_order();

 private:
  std::uint64_t memory() const { return *input_.memory_bytes; }
  std::uint64_t missing() const { return plan_.total_bytes - memory(); }

  static std::uint64_t total_of(PlanInput changed) {
    changed.memory_bytes.reset();  // sizes only
    return plan_memory(changed).total_bytes;
  }

  void add(std::string what, std::uint64_t total) {
    suggestions_.push_back({std::move(what), plan_.total_bytes - total, total, total <= memory()});
  }

  const PlanInput& input_;
  const MemoryPlan& plan_;
  std::vector<Suggestion> suggestions_;
};

std::string names_of(const std::vector<KvFormat>& formats) {
  std::string names;
  for (const KvFormat format : formats) {
    names += fmt::format("{}{}", names.empty() ? "" : " or ", format_name(format));
  }
  return names;
}

// Every format the project has that makes the cache smaller, those of one size in one line; but none that leaves
// numbers out, which costs more quality than fewer bits for each.
void SuggestionList::add_formats() {
  std::vector<std::pair<std::uint64_t, std::vector<KvFormat>>> by_total;
  for (const KvFormat format : kAllKvFormats) {
    if (is_pruned(format)) continue;
    PlanInput changed = input_;
    for (KvGroup& group : changed.groups) group.k_format = group.v_format = format;
    const std::uint64_t total = total_of(changed);
    if (total >= plan_.total_bytes) continue;
    const auto same = std::ranges::find(by_total, total, &decltype(by_total)::value_type::first);
    if (same == by_total.end()) {
      by_total.push_back({total, {format}});
    } else {
      same->second.push_back(format);
    }
  }
  for (const auto& [total, formats] : by_total) add("keep K and V in " + names_of(formats), total);
}

void SuggestionList::add_shorter_context() {
  PlanInput changed = input_;
  changed.context = *plan_.max_context;
  if (changed.context < 1) return;
  add(fmt::format("a context of {} tokens", format_count(static_cast<std::uint64_t>(changed.context))),
      total_of(changed));
}

void SuggestionList::add_fewer_users() {
  PlanInput changed = input_;
  changed.users = *plan_.max_users;
  if (changed.users < 1) return;
  add(fmt::format("{} at a time", changed.users == 1 ? "1 user" : fmt::format("{} users", changed.users)),
      total_of(changed));
}

// The shortest prefix that, common to all users and so stored once, makes the rest fit. Blocks of windows are
// not counted: they are dropped as the sequences grow.
void SuggestionList::add_shared_prefix() {
  std::uint64_t block_bytes = 0;
  for (const GroupPlan& group : plan_.groups) {
    if (group.retention.full() && group.state.none()) block_bytes += group.bytes_per_block;
  }
  const std::uint64_t saved_by_block = saturating_product(block_bytes, static_cast<std::uint64_t>(input_.users - 1));
  if (saved_by_block == 0 || plan_.total_bytes == std::numeric_limits<std::uint64_t>::max()) return;
  const std::uint64_t blocks = missing() / saved_by_block + (missing() % saved_by_block != 0 ? 1 : 0);
  // At most n-1 tokens are ever reused: the last one's logits are wanted.
  const auto most = static_cast<std::uint64_t>((input_.context - 1) / input_.block_tokens);
  if (blocks > most) return;
  add(fmt::format("a prefix of {} tokens that all users share",
                  format_count(blocks * static_cast<std::uint64_t>(input_.block_tokens))),
      plan_.total_bytes - blocks * saved_by_block);
}

// The widest window over the layers that now keep everything.
void SuggestionList::add_window() {
  if (input_.source_groups > 0) return;  // a source is read whole, and an answer to it is short
  const auto with_window = [&](std::int64_t window) {
    PlanInput changed = input_;
    for (KvGroup& group : changed.groups) {
      if (group.retention.full() && !group.keeps_state()) group.retention = {window, kSinks};
    }
    return total_of(changed);
  };
  const std::int64_t window = largest(input_.block_tokens, input_.context - 1,
                                      [&](std::int64_t trial) { return with_window(trial) <= memory(); });
  if (window < input_.block_tokens || window >= input_.context) return;
  add(fmt::format("keep only the last {} tokens and the first {} (changes answers)",
                  format_count(static_cast<std::uint64_t>(window)), kSinks),
      with_window(window));
}

void SuggestionList::add_memory() {
  std::string card = "more than any one known GPU has";
  for (const GpuSpec& gpu : known_gpus()) {
    if (gpu.memory_bytes < plan_.total_bytes) continue;
    card = fmt::format("the smallest known GPU that fits: {}, {}", gpu.name, format_bytes(gpu.memory_bytes));
    break;
  }
  suggestions_.push_back(
      {fmt::format("{} bytes more memory ({})", format_count(missing()), card), 0, plan_.total_bytes, true});
}

std::vector<Suggestion> SuggestionList::in_order() {
  std::ranges::stable_sort(suggestions_, [](const Suggestion& a, const Suggestion& b) {
    return std::tuple(a.fits, a.saves_bytes) > std::tuple(b.fits, b.saves_bytes);
  });
  return std::move(suggestions_);
}

}  // namespace

std::vector<Suggestion> find_suggestions(const PlanInput& input, const MemoryPlan& plan) {
  CHECK(input.memory_bytes && plan.total_bytes > *input.memory_bytes);
  SuggestionList ways(input, plan);
  if (input.groups.empty()) {  // of a cache that is not there nothing can be saved
    ways.add_memory();
    return ways.in_order();
  }
  ways.add_formats();
  ways.add_shared_prefix();
  ways.add_shorter_context();
  ways.add_fewer_users();
  ways.add_window();
  ways.add_memory();
  return ways.in_order();
}

}  // namespace kvasir
