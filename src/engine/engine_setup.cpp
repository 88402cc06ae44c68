#include "engine/engine_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "layout/codec.h"

namespace kvasir {
namespace {

constexpr int kDefaultSequences = 4;  // of the longest context, when nobody says how much memory there is

std::vector<PageId> shuffled(std::vector<PageId> order, std::uint64_t seed) {
  for (size_t i = order.size(); i > 1 && seed != 0; --i) std::swap(order[i - 1], order[mix(seed, i, 0) % i]);
  return order;
}

}  // namespace

bool streams(std::span<const KvGroup> groups, std::int64_t trained) {
  return std::ranges::all_of(groups, [trained](const KvGroup& group) {
    return !group.retention.full() && group.retention.window + group.retention.sinks <= trained;
  });
}

void check_basis(const Model& model, const KvPolicy& policy) {
  if (policy.k_rank == 0 && policy.v_rank == 0 && policy.channels == 0) return;
  if (model.basis_name()) return;
  fail_usage(fmt::format("the KV policy \"{}\" needs a basis, and the model has none", to_text(policy)), "kv",
             fmt::format("make {} with kvasir tune --rank, and leave it in the model's folder or give it with "
                         "--kv-basis",
                         kKvBasisFile));
}

EngineConfig completed(EngineConfig config, const Model& model, const Backend& backend) {
  const std::int64_t trained = model.config().context;
  if (config.block_tokens < 1 || config.block_tokens > 65536) {
    fail_usage(fmt::format("a block of {} tokens makes no sense", config.block_tokens), "--block-size",
               "use 1 to 65536");
  }
  check_basis(model, config.kv);
  for (const KvPolicy& also : config.kv_also) check_basis(model, also);
  if (config.context <= 0) config.context = trained;
  const std::vector<KvGroup> groups = kv_groups(model.config(), config.kv);
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
    config.kv_bytes = std::min(config.kv_bytes, backend.room_for_cache());
  }
  if (pages_of(model, config).count < std::ssize(groups)) {
    const std::int64_t needed = pages_of(model, config).bytes * std::ssize(groups);
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

// A page holds a block of any policy that may come. With blocks of one size it is one block; where sizes differ it is
// many of them, so that little is left over at its end, as long as there are many pages.
KvStorage::Pages pages_of(const Model& model, const EngineConfig& config) {
  constexpr std::int64_t kMostBlocks = 16;
  constexpr std::int64_t kManyPages = 128;
  constexpr std::int64_t kLine = 64;
  constexpr std::int64_t kMostIds = std::int64_t{1} << 30;  // of blocks: a BlockId must name them
  std::int64_t own = 0;
  std::int64_t largest = 0;
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  const auto see = [&](const KvPolicy& policy) {
    for (const KvGroup& group : kv_groups(model.config(), policy)) {
      const std::int64_t bytes = make_layout(group, config.block_tokens).block_bytes();
      largest = std::max(largest, bytes);
      smallest = std::min(smallest, bytes);
    }
    if (own == 0) own = largest;
  };
  see(config.kv);
  for (const KvPolicy& also : config.kv_also) see(also);
  for (const KvPolicy& house : config.kv_of_house) see(house);
  if (config.others == EngineConfig::OtherPolicies::kAny) {
    for (const KvFormat format : kAllKvFormats) see(uniform_policy(format));
    KvPolicy least = uniform_policy(KvFormat::kInt2);
    least.k_rank = least.v_rank = 1;
    see(least);
  }
  if (smallest == largest) {
    return {std::min(static_cast<std::int64_t>(config.kv_bytes) / largest, kMostIds), largest};
  }
  const std::int64_t blocks = static_cast<std::int64_t>(config.kv_bytes) / own;
  const std::int64_t bytes = std::max(own * std::clamp<std::int64_t>(blocks / kManyPages, 1, kMostBlocks), largest);
  const std::int64_t page = (bytes + kLine - 1) / kLine * kLine;
  return {std::min(static_cast<std::int64_t>(config.kv_bytes) / page, kMostIds / (page / smallest)), page};
}

CacheConfig cache_config(const Model& model, const Backend& backend, const EngineConfig& config) {
  CacheConfig out;
  out.block_tokens = config.block_tokens;
  out.eviction = config.eviction;
  out.public_texts = config.public_texts;
  out.reuse = config.mode == EngineConfig::Mode::kRecompute ? CacheConfig::Reuse::kOff : config.reuse;
  const std::vector<KvGroup> groups = kv_groups(model.config(), config.kv);
  out.policy = {policy_key(model, backend, groups, config.block_tokens), cache_groups(groups, config.block_tokens),
                sharing_of(config.kv)};
  const KvStorage::Pages pages = pages_of(model, config);
  out.pages = {shuffled(in_order(pages.count), config.shuffle_blocks), pages.bytes};
  // A token multiplies with every weight once, and its queries with every cached token.
  const ModelConfig& shape = model.config();
  out.recompute.constant = parameter_count(shape) / 1024 + 1;
  out.recompute.per_position = 2 * static_cast<std::uint64_t>(shape.layers) *
                                   static_cast<std::uint64_t>(shape.heads) *
                                   static_cast<std::uint64_t>(shape.head_dim) / 1024 +
                               1;
  return out;
}

Key256 policy_key(const Model& model, const Backend& backend, std::span<const KvGroup> groups, int block_tokens) {
  std::string policy = fmt::format("{} {}", backend.kernel_version(), block_tokens);
  for (const KvGroup& group : groups) {
    policy += fmt::format(" [{}] {} {} {} {} {} {} {}", fmt::join(group.layers, ","), format_name(group.k_format),
                          format_name(group.v_format), group.retention.window, group.retention.sinks,
                          group.finer.window, group.finer.sinks, group.sink_position);
    if (group.first_head > 0) policy += fmt::format(" {}", group.first_head);
    if (group.shape.whole()) continue;
    policy += fmt::format(" {}:{} {}:{} of {}", static_cast<int>(group.shape.k_space), group.shape.k_dim,
                          static_cast<int>(group.shape.v_space), group.shape.v_dim, model.basis_name()->hex());
  }
  const std::array<std::string_view, 1> parts{policy};
  return keyed_hash(model.fingerprint(), parts);
}

}  // namespace kvasir
