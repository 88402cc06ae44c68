#include "engine/engine_watch.h"

#include <algorithm>
#include <map>
#include <utility>

namespace kvasir {
namespace {

using PlaceOfBlock = std::pair<size_t, BlockId>;

template <class Visit>
void each_block(const KvCache& cache, const KvLease& lease, Visit visit) {
  const std::span<const size_t> groups = cache.groups_of(lease.policy());
  for (size_t i = 0; i < groups.size(); ++i) {
    for (const BlockId block : lease.table(i)) {
      if (block != kNoBlock) visit(groups[i], block);
    }
  }
}

// How many pins hold each block.
std::map<PlaceOfBlock, int> pinned_blocks(const Engine& engine, const KvCache& cache) {
  std::map<PlaceOfBlock, int> out;
  engine.pins().each_lease([&](const KvLease& lease) {
    each_block(cache, lease, [&](size_t group, BlockId block) { ++out[{group, block}]; });
  });
  return out;
}

BlockSight sight_of(const BlockInfo& info, const std::map<PlaceOfBlock, int>& pinned) {
  switch (info.state) {
    case BlockPool::State::kAbsent:
      return BlockSight::kAbsent;
    case BlockPool::State::kFree:
      return BlockSight::kFree;
    case BlockPool::State::kInterior:
    case BlockPool::State::kEvictable:
      return BlockSight::kCached;
    case BlockPool::State::kHeld:
      break;
  }
  const auto pins = pinned.find({info.group, info.block});
  if (pins != pinned.end() && pins->second == info.refs) return BlockSight::kPinned;
  return info.refs > 1 ? BlockSight::kShared : BlockSight::kInUse;
}

WatchedRequest::Phase phase_of(const Sequence& sequence) {
  using enum WatchedRequest::Phase;
  if (!sequence.lease.valid()) {
    if (sequence.record.steps == 0) return kQueued;
    return sequence.saved != nullptr ? kSwapped : kPreempted;
  }
  if (sequence.stalled) return kStalled;
  return sequence.num_output_tokens() > 0 && sequence.num_uncomputed_tokens() <= 1 ? kDecode : kPrefill;
}

WatchedRequest watched(const Sequence& sequence, const KvCache& cache) {
  WatchedRequest out;
  out.id = sequence.id;
  out.label = sequence.request.label;
  out.tenant = sequence.request.tenant.id;
  out.phase = phase_of(sequence);
  out.prompt_tokens = std::ssize(sequence.request.prompt);
  out.reused_tokens = sequence.record.reuse.reused_tokens;
  out.answer_tokens = sequence.num_output_tokens();
  out.preemptions = sequence.record.preemptions;
  out.kv = sequence.record.kv;
  if (!sequence.lease.valid()) {
    if (sequence.saved == nullptr) return out;
    for (const auto& group : sequence.saved->blocks) out.blocks += std::ssize(group);
    return out;
  }
  out.cached_tokens = sequence.lease.length();
  each_block(cache, sequence.lease, [&](size_t, BlockId) { ++out.blocks; });
  return out;
}

std::vector<WatchedGroup> watched_groups(const Engine& engine, const KvCache& cache) {
  std::vector<WatchedGroup> out;
  for (size_t group = 0; group < cache.groups(); ++group) {
    const CacheGroupConfig& config = cache.group_config(group);
    const std::int64_t window = config.retention.full() ? 0 : config.retention.span();
    out.push_back({{}, config.state(), window, config.block_bytes});
    const std::optional<PolicyId> policy = cache.policy_of(group);
    for (const auto& active : engine.policies().all()) {
      if (policy && active->id == *policy) out.back().policy = active->text;
    }
  }
  return out;
}

}  // namespace

std::string_view name_of(BlockSight sight) {
  switch (sight) {
    case BlockSight::kAbsent:
      return "absent";
    case BlockSight::kFree:
      return "free";
    case BlockSight::kInUse:
      return "in_use";
    case BlockSight::kShared:
      return "shared";
    case BlockSight::kCached:
      return "cached";
    case BlockSight::kPinned:
      break;
  }
  return "pinned";
}

std::string_view name_of(WatchedRequest::Phase phase) {
  using enum WatchedRequest::Phase;
  switch (phase) {
    case kQueued:
      return "queued";
    case kPrefill:
      return "prefill";
    case kDecode:
      return "decode";
    case kStalled:
      return "stalled";
    case kPreempted:
      return "preempted";
    case kSwapped:
      break;
  }
  return "swapped";
}

EngineLook look_at(Engine& engine) {
  EngineLook out;
  CacheChanges changes = engine.take_cache_changes();
  const KvCache& cache = engine.cache();
  out.now = engine.now();
  out.groups = watched_groups(engine, cache);
  out.events = std::move(changes.events);
  out.lost_events = changes.lost_events;
  if (!changes.blocks.empty()) {
    const std::map<PlaceOfBlock, int> pinned = pinned_blocks(engine, cache);
    out.blocks.reserve(changes.blocks.size());
    for (const BlockInfo& info : changes.blocks) out.blocks.push_back({info, sight_of(info, pinned)});
  }
  engine.scheduler().each([&](const Sequence& sequence) {
    const bool client = sequence.request.origin == Request::Origin::kClient;
    if (client && out.requests.size() < EngineLook::kMostRequests) out.requests.push_back(watched(sequence, cache));
  });
  return out;
}

std::vector<RequestId> holders_of(Engine& engine, const BlockInfo& block) {
  std::vector<RequestId> out;
  const KvCache& cache = engine.cache();
  engine.scheduler().each([&](const Sequence& sequence) {
    if (!sequence.lease.valid() || sequence.request.origin != Request::Origin::kClient) return;
    bool holds = false;
    each_block(cache, sequence.lease,
               [&](size_t group, BlockId id) { holds |= group == block.group && id == block.block; });
    if (holds) out.push_back(sequence.id);
  });
  return out;
}

std::vector<BlockPlace> blocks_of(Engine& engine, RequestId id) {
  std::vector<BlockPlace> out;
  const KvCache& cache = engine.cache();
  engine.scheduler().each([&](const Sequence& sequence) {
    if (sequence.id != id || !sequence.lease.valid()) return;
    each_block(cache, sequence.lease, [&](size_t group, BlockId block) { out.push_back({group, block}); });
  });
  return out;
}

}  // namespace kvasir
