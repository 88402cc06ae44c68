#include "plan/plan.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "base/ids.h"
#include "plan/arithmetic.h"
#include "plan/suggestions.h"

namespace kvasir {
namespace {

__extension__ using Wide = unsigned __int128;

// Blocks held while the token at `next` is computed: those for which Retention::needed holds, the open one
// included.
std::int64_t held_at(const Retention& retention, std::int64_t next, int block_tokens) {
  const std::int64_t open = next / block_tokens;
  const std::int64_t first_of_window = retention.window_begin(next) / block_tokens;
  const std::int64_t sinks = std::min(blocks_for(retention.sinks, block_tokens), first_of_window);
  return open - first_of_window + 1 + sinks;
}

GroupPlan plan_group(const KvGroup& group, const PlanInput& input) {
  GroupPlan plan;
  if (!group.keeps_state()) plan.layout = make_layout(group, input.block_tokens);
  plan.state = group.state;
  plan.state_format = group.state_format;
  plan.state_use = group.state_use;
  plan.layers = static_cast<int>(group.layers.size());
  plan.bytes_per_block = static_cast<std::uint64_t>(block_bytes_of(group, input.block_tokens));
  plan.retention = group.retention;
  plan.bytes_per_token = static_cast<std::uint64_t>(bytes_per_token(group));
  plan.blocks_per_request = group.keeps_state() ? 1 : blocks_held(group.retention, input.context, input.block_tokens);
  plan.bytes_per_request =
      saturating_product(static_cast<std::uint64_t>(plan.blocks_per_request), plan.bytes_per_block);
  return plan;
}

// Everything but the verdict.
MemoryPlan plan_sizes(const PlanInput& input) {
  MemoryPlan plan;
  std::vector<KvGroup> groups = input.groups;
  groups.insert(groups.end(), input.draft_groups.begin(), input.draft_groups.end());
  for (const KvGroup& group : groups) {
    GroupPlan part = plan_group(group, input);
    part.of_draft = plan.groups.size() >= input.groups.size();
    part.of_source = !part.of_draft && plan.groups.size() + input.source_groups >= input.groups.size();
    plan.bytes_per_token += part.bytes_per_token;
    if (!group.keeps_state()) plan.bytes_per_block += part.bytes_per_block;
    if (group.keeps_state() && !group.only_kept()) plan.state_bytes += part.bytes_per_block;
    if (group.keeps_state() && group.state_use != KvGroup::StateUse::kLive) {
      plan.kept_state_bytes += part.bytes_per_block;
    }
    plan.bytes_per_request = saturating_sum(plan.bytes_per_request, part.bytes_per_request);
    plan.groups.push_back(part);
  }
  plan.kv_bytes = saturating_product(plan.bytes_per_request, static_cast<std::uint64_t>(input.users));
  plan.total_bytes = saturating_sum(input.taken_bytes(), plan.kv_bytes);
  return plan;
}

std::int64_t longest_context(const PlanInput& input) {
  PlanInput trial = input;
  return largest(1, kLongestContext, [&](std::int64_t context) {
    trial.context = context;
    return plan_sizes(trial).total_bytes <= *input.memory_bytes;
  });
}

// Each group gets the share of the pool that it has of a request, so that all run out together.
void share_pool(std::uint64_t bytes, MemoryPlan& plan) {
  for (GroupPlan& group : plan.groups) {
    const Wide share = Wide{bytes} * group.bytes_per_request / plan.bytes_per_request;
    group.pool_blocks = pool_blocks(static_cast<std::uint64_t>(share), group.bytes_per_block);
  }
}

}  // namespace

std::uint64_t PlanInput::taken_bytes() const {
  return saturating_sum(saturating_sum(weights_bytes, runtime_bytes), reserve_bytes);
}

std::int64_t pool_blocks(std::uint64_t bytes, std::uint64_t block_bytes) {
  const std::uint64_t blocks = bytes / block_bytes;
  constexpr std::uint64_t kMost = std::numeric_limits<BlockId>::max();
  return static_cast<std::int64_t>(std::min(blocks, kMost));
}

std::int64_t blocks_held(const Retention& retention, std::int64_t tokens, int block_tokens) {
  if (retention.full()) return blocks_for(tokens, block_tokens);
  // As a sequence grows the number first grows with it and then repeats with each block: the last block's
  // worth of positions has seen the maximum. Of chunks, each begins anew, and they repeat with where blocks begin.
  std::int64_t most = 0;
  const auto look_before = [&](std::int64_t end) {
    for (std::int64_t next = std::max<std::int64_t>(0, end - block_tokens); next < end; ++next) {
      most = std::max(most, held_at(retention, next, block_tokens));
    }
  };
  look_before(tokens);
  if (retention.chunk == 0) return most;
  const std::int64_t different = block_tokens / std::gcd(retention.chunk, std::int64_t{block_tokens});
  const std::int64_t last = tokens / retention.chunk;
  for (std::int64_t i = std::max<std::int64_t>(1, last - different + 1); i <= last; ++i)
    look_before(i * retention.chunk);
  return most;
}

MemoryPlan plan_memory(const PlanInput& input) {
  CHECK(input.context >= 1 && input.context <= kLongestContext);
  CHECK(input.users >= 1 && input.users <= kMostUsers);
  CHECK(input.block_tokens >= 1 && input.block_tokens <= kLargestBlockTokens);
  MemoryPlan plan = plan_sizes(input);
  if (!input.memory_bytes) return plan;

  const std::uint64_t left = *input.memory_bytes - std::min(*input.memory_bytes, input.taken_bytes());
  plan.fits = plan.total_bytes <= *input.memory_bytes;
  plan.max_context = input.groups.empty() && *plan.fits ? input.context : longest_context(input);
  plan.max_users = plan.bytes_per_request == 0 ? kMostUsers
                                               : static_cast<std::int64_t>(std::min<std::uint64_t>(
                                                     left / plan.bytes_per_request, std::uint64_t{kMostUsers}));
  share_pool(left, plan);
  if (!*plan.fits) plan.suggestions = find_suggestions(input, plan);
  return plan;
}

}  // namespace kvasir
