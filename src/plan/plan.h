// The memory planner: what a model's cache takes, whether it fits, and what to do if it does not. Pure
// arithmetic, and the allocator's own: bytes come from make_layout, freeing from Retention. No device and no
// model file is needed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "layout/kv_layout.h"

namespace kvasir {

// Sizes that a plan accepts. A context of kLongestContext in an answer means that nothing bounds it.
inline constexpr std::int64_t kLongestContext = std::int64_t{1} << 40;
inline constexpr std::int64_t kMostUsers = 1'000'000'000;
inline constexpr int kLargestBlockTokens = 4096;

struct PlanInput {
  std::uint64_t weights_bytes = 0;
  std::vector<KvGroup> groups;             // none: nothing is cached
  size_t source_groups = 0;                // the last so many keep rows of a source, of as many tokens as the text
  std::vector<KvGroup> draft_groups = {};  // of a draft model or head, which follows every sequence
  std::int64_t context = 0;                // tokens of one sequence, 1 … kLongestContext
  std::int64_t users = 1;                  // sequences at a time, 1 … kMostUsers, sharing nothing
  int block_tokens = kDefaultBlockTokens;
  std::optional<std::uint64_t> memory_bytes;  // none: sizes only, no verdict
  std::uint64_t runtime_bytes = 0;            // what serving takes beside weights and cache: see runtime.h
  struct SmallerSteps {
    int tokens = 0;
    std::uint64_t runtime_bytes = 0;
  };
  std::optional<SmallerSteps> smaller_steps = std::nullopt;  // what may be suggested instead; none: nothing smaller
  // Kept free for whatever else runs there. Zero unless given: a plan adds no margin that it does not show.
  std::uint64_t reserve_bytes = 0;

  std::uint64_t taken_bytes() const;  // before a token is cached
};

// One group of layers. A request is one sequence of `context` tokens, at the moment it holds most blocks.
struct GroupPlan {
  KvLayout layout;   // of rows
  StateShape state;  // of recurrent layers, in place of rows: one block a sequence, whatever its length
  StateFormat state_format = StateFormat::kF32;
  KvGroup::StateUse state_use = KvGroup::StateUse::kBoth;
  int layers = 0;
  std::uint64_t bytes_per_block = 0;
  Retention retention;
  bool of_source = false;
  bool of_draft = false;
  std::uint64_t bytes_per_token = 0;
  std::int64_t blocks_per_request = 0;
  std::uint64_t bytes_per_request = 0;
  std::optional<std::int64_t> pool_blocks;  // what the memory left by all else is cut into
};

// One change, and what the plan is after it. Others are as they were.
struct Suggestion {
  std::string what;
  std::uint64_t saves_bytes = 0;
  std::uint64_t then_total_bytes = 0;
  bool fits = false;
  // What it costs: how far the shipped model's answers were measured to be from those of a cache in f32, in nats
  // (docs/kv-prices.md). None: answers stay as they are, or nobody measured it.
  std::optional<double> divergence = std::nullopt;
};

// Sums saturate at 2^64-1 rather than wrap.
struct MemoryPlan {
  std::vector<GroupPlan> groups;
  std::uint64_t bytes_per_token = 0;    // of all groups
  std::uint64_t bytes_per_block = 0;    // one block of each group of rows
  std::uint64_t state_bytes = 0;        // of a sequence that runs
  std::uint64_t kept_state_bytes = 0;   // of each place where its states are kept
  std::uint64_t bytes_per_request = 0;  // whole blocks, less what the retention drops
  std::uint64_t kv_bytes = 0;           // of all users
  std::uint64_t total_bytes = 0;        // weights, runtime, reserve and cache

  // With a memory size only.
  std::optional<bool> fits;
  std::optional<std::int64_t> max_context;  // for that many users; 0: not one token fits
  std::optional<std::int64_t> max_users;    // at that context
  std::vector<Suggestion> suggestions;      // when it does not fit: see find_suggestions()
};

MemoryPlan plan_memory(const PlanInput& input);

// How many blocks of so many bytes fit into `bytes`; no more than a BlockId can name.
std::int64_t pool_blocks(std::uint64_t bytes, std::uint64_t block_bytes);

// The most blocks that a sequence of one group holds at once on its way to `tokens` tokens, one token at a
// time: those that its retention needs, the open one included.
std::int64_t blocks_held(const Retention& retention, std::int64_t tokens, int block_tokens);

}  // namespace kvasir
