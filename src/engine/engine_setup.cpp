#include "engine/engine_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "layout/codec.h"

namespace kvasir {
namespace {

constexpr int kDefaultSequences = 4;  // of the longest context, when nobody says how much memory there is

std::vector<BlockId> shuffled(std::vector<BlockId> order, std::uint64_t seed) {
  for (size_t i = order.size(); i > 1 && seed != 0; --i) std::swap(order[i - 1], order[mix(seed, i, 0) % i]);
  return order;
}

}  // namespace

bool streams(std::span<const KvGroup> groups, std::int64_t trained) {
  return std::ranges::all_of(groups, [trained](const KvGroup& group) {
    return !group.retention.full() && group.retention.window + group.retention.sinks <= trained;
  });
}

std::vector<KvGroup> groups_of(const Model& model, const EngineConfig& config) {
  return kv_groups(model.config(), config.kv);
}

EngineConfig completed(EngineConfig config, const Model& model) {
  const std::int64_t trained = model.config().context;
  if (config.block_tokens < 1 || config.block_tokens > 65536) {
    fail_usage(fmt::format("a block of {} tokens makes no sense", config.block_tokens), "--block-size",
               "use 1 to 65536");
  }
  if (config.context <= 0) config.context = trained;
  const std::vector<KvGroup> groups = groups_of(model, config);
  if (config.context > trained && !streams(groups, trained)) {
    fail_usage(fmt::format("{} tokens are more than the {} the model was trained for", config.context, trained),
               "--ctx-size", fmt::format("use {} or less, or a window in --kv", trained));
  }
  if (config.kv_bytes == 0) {
    for (const KvGroup& group : groups) {
      const KvLayout layout = make_layout(group, config.block_tokens);
      config.kv_bytes += static_cast<std::uint64_t>(
          kDefaultSequences * blocks_for(config.context, config.block_tokens) * layout.block_bytes());
    }
    config.kv_bytes = std::min(config.kv_bytes, physical_memory() / 2);
  }
  if (blocks_in(config.kv_bytes, groups, config.block_tokens) < 1) {
    std::int64_t needed = 0;
    for (const KvGroup& group : groups) needed += make_layout(group, config.block_tokens).block_bytes();
    fail_usage(fmt::format("{} do not hold one block of {} tokens, which takes {}", format_bytes(config.kv_bytes),
                           config.block_tokens, format_bytes(static_cast<std::uint64_t>(needed))),
               "--kv-memory", "give more memory, or a smaller --block-size");
  }
  if (!config.swap_bytes) config.swap_bytes = std::min(config.kv_bytes, physical_memory() / 8);
  SchedulerConfig& scheduler = config.scheduler;
  scheduler.max_batch_tokens = std::clamp(scheduler.max_batch_tokens, 1, model.max_rows());
  scheduler.max_sequences = std::max(scheduler.max_sequences, 1);
  return config;
}

std::vector<KvStorage::GroupSpec> storage_groups(const Model& model, const EngineConfig& config) {
  const std::vector<KvGroup> groups = groups_of(model, config);
  const std::int64_t blocks = blocks_in(config.kv_bytes, groups, config.block_tokens);
  std::vector<KvStorage::GroupSpec> out;
  out.reserve(groups.size());
  for (const KvGroup& group : groups) out.push_back({group, blocks});
  return out;
}

CacheConfig cache_config(const Model& model, const Backend& backend, const EngineConfig& config) {
  CacheConfig out;
  out.block_tokens = config.block_tokens;
  out.eviction = config.eviction;
  out.public_texts = config.public_texts;
  out.reuse = config.mode == EngineConfig::Mode::kRecompute ? CacheConfig::Reuse::kOff : config.reuse;
  const std::vector<KvGroup> groups = groups_of(model, config);
  out.policy_key = policy_key(model, backend, groups, config.block_tokens);
  const std::int64_t blocks = blocks_in(config.kv_bytes, groups, config.block_tokens);
  for (const KvGroup& group : groups) {
    out.groups.push_back({group.retention, shuffled(blocks_in_order(blocks), config.shuffle_blocks),
                          make_layout(group, config.block_tokens).block_bytes()});
  }
  // A token multiplies with every weight once, and its queries with every cached token.
  const ModelConfig& shape = model.config();
  out.recompute.constant = parameter_count(shape) / 1024 + 1;
  out.recompute.per_position = 2 * static_cast<std::uint64_t>(shape.layers) *
                                   static_cast<std::uint64_t>(shape.heads) *
                                   static_cast<std::uint64_t>(shape.head_dim) / 1024 +
                               1;
  return out;
}

std::int64_t blocks_in(std::uint64_t bytes, std::span<const KvGroup> groups, int block_tokens) {
  std::int64_t all = 0;
  for (const KvGroup& group : groups) all += make_layout(group, block_tokens).block_bytes();
  const std::uint64_t blocks = bytes / static_cast<std::uint64_t>(all);
  return static_cast<std::int64_t>(std::min<std::uint64_t>(blocks, std::uint64_t{1} << 30));
}

Key256 policy_key(const Model& model, const Backend& backend, std::span<const KvGroup> groups, int block_tokens) {
  std::string policy = fmt::format("{} {}", backend.kernel_version(), block_tokens);
  for (const KvGroup& group : groups) {
    policy += fmt::format(" [{}] {} {} {} {}", fmt::join(group.layers, ","), format_name(group.k_format),
                          format_name(group.v_format), group.retention.window, group.retention.sinks);
  }
  const std::array<std::string_view, 1> parts{policy};
  return keyed_hash(model.fingerprint(), parts);
}

}  // namespace kvasir
