#include "plan/suggestions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

// Of K and V in these formats, in nats, on the shipped model: docs/kv-prices.md says how it was measured, and a test
// compares.
struct MeasuredFormats {
  KvFormat k;
  KvFormat v;
  double divergence;
};
constexpr auto kMeasured = std::to_array<MeasuredFormats>({
    {KvFormat::kF16, KvFormat::kF16, 3.4e-5},
    {KvFormat::kBF16, KvFormat::kBF16, 5.9e-5},
    {KvFormat::kInt8, KvFormat::kInt8, 1.7e-4},
    {KvFormat::kE4M3, KvFormat::kE4M3, 3.2e-3},
    {KvFormat::kInt8, KvFormat::kInt4, 6.5e-3},
    {KvFormat::kE5M2, KvFormat::kE5M2, 1.3e-2},
    {KvFormat::kInt4, KvFormat::kInt4, 2.6e-2},
    {KvFormat::kInt2, KvFormat::kInt2, 4.2e-1},
});

// Of what nobody can measure beforehand, on the same scale: where it stands among formats.
constexpr double kSameAnswers = 0;
constexpr double kLessService = 1e-3;      // answers stay, but there are fewer or shorter ones
constexpr double kForgetsTheMiddle = 0.1;  // as a window does: a needle there is lost
constexpr double kCostsMoney = 1e9;

// Collects suggestions for one plan; each is a changed input, or the same input with fewer bytes.
class SuggestionList {
 public:
  SuggestionList(const PlanInput& input, const MemoryPlan& plan) : input_(input), plan_(plan) {}

  void add_formats();
  void add_shorter_context();
  void add_fewer_users();
  void add_smaller_steps();
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

  void add(std::string what, std::uint64_t total, double harm) {
    suggestions_.push_back({{std::move(what), plan_.total_bytes - total, total, total <= memory()}, harm});
  }
  void add_format(KvFormat k, KvFormat v);

  struct Ranked : Suggestion {
    double harm = 0;
  };

  const PlanInput& input_;
  const MemoryPlan& plan_;
  std::vector<Ranked> suggestions_;
};

// Nothing where the cache would not be smaller.
void SuggestionList::add_format(KvFormat k, KvFormat v) {
  PlanInput changed = input_;
  for (KvGroup& group : changed.groups) {
    group.k_format = k;
    group.v_format = v;
  }
  const std::uint64_t total = total_of(changed);
  if (total >= plan_.total_bytes) return;
  const auto measured = std::ranges::find_if(
      kMeasured, [&](const MeasuredFormats& formats) { return formats.k == k && formats.v == v; });
  const bool known = measured != kMeasured.end();
  const std::string what = k == v ? fmt::format("keep K and V in {}", format_name(k))
                                  : fmt::format("keep K in {} and V in {}", format_name(k), format_name(v));
  add(known
          ? fmt::format("{} (a divergence of {:.1e} nats, measured on the shipped model)", what, measured->divergence)
          : what,
      total, known ? measured->divergence : kForgetsTheMiddle);
  if (known) suggestions_.back().divergence = measured->divergence;
}

// Every format the project has that makes the cache smaller, and the best pair of two; but none that leaves numbers
// out, which costs more quality than fewer bits for each.
void SuggestionList::add_formats() {
  for (const KvFormat format : kAllKvFormats) {
    if (!is_pruned(format)) add_format(format, format);
  }
  const auto has_v = [](const KvGroup& group) { return group.keeps_state() || group.shape.v_dim > 0; };
  if (std::ranges::all_of(input_.groups, has_v)) add_format(KvFormat::kInt8, KvFormat::kInt4);
}

void SuggestionList::add_shorter_context() {
  PlanInput changed = input_;
  changed.context = *plan_.max_context;
  if (changed.context < 1) return;
  add(fmt::format("a context of {} tokens", format_count(static_cast<std::uint64_t>(changed.context))),
      total_of(changed), kLessService);
}

void SuggestionList::add_fewer_users() {
  PlanInput changed = input_;
  changed.users = *plan_.max_users;
  if (changed.users < 1) return;
  add(fmt::format("{} at a time", changed.users == 1 ? "1 user" : fmt::format("{} users", changed.users)),
      total_of(changed), kLessService);
}

// No answer changes; prompts are read in more steps.
void SuggestionList::add_smaller_steps() {
  if (!input_.smaller_steps) return;
  PlanInput changed = input_;
  changed.runtime_bytes = input_.smaller_steps->runtime_bytes;
  add(fmt::format("steps of {} tokens (--max-batch-tokens {}; prompts are read slower)", input_.smaller_steps->tokens,
                  input_.smaller_steps->tokens),
      total_of(changed), kLessService);
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
      plan_.total_bytes - blocks * saved_by_block, kSameAnswers);
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
      with_window(window), kForgetsTheMiddle);
}

void SuggestionList::add_memory() {
  std::string card = "more than any one known GPU has";
  for (const GpuSpec& gpu : known_gpus()) {
    if (gpu.memory_bytes < plan_.total_bytes) continue;
    card = fmt::format("the smallest known GPU that fits: {}, {}", gpu.name, format_bytes(gpu.memory_bytes));
    break;
  }
  suggestions_.push_back(
      {{fmt::format("{} bytes more memory ({})", format_count(missing()), card), 0, plan_.total_bytes, true},
       kCostsMoney});
}

// What is not enough by itself is the better the more it saves: something else must come with it.
std::vector<Suggestion> SuggestionList::in_order() {
  const auto rank = [](const Ranked& one) {
    const bool last = one.harm == kCostsMoney;
    const double saves = static_cast<double>(one.saves_bytes);
    return std::tuple(last, !one.fits, one.fits ? one.harm : 0, -saves, one.harm);
  };
  std::ranges::stable_sort(suggestions_, {}, rank);
  return {suggestions_.begin(), suggestions_.end()};
}

}  // namespace

std::vector<Suggestion> find_suggestions(const PlanInput& input, const MemoryPlan& plan) {
  CHECK(input.memory_bytes && plan.total_bytes > *input.memory_bytes);
  SuggestionList ways(input, plan);
  ways.add_smaller_steps();
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
