#include "engine/engine_config.h"

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
  return !groups.empty() && std::ranges::all_of(groups, [trained](const KvGroup& group) {
    if (group.keeps_state()) return true;
    return !group.retention.full() && group.retention.span() + group.retention.sinks <= trained;
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

void check_states(const Backend& backend, const KvPolicy& policy) {
  const bool any = backend.limits().states == BackendLimits::States::kAnyFormat;
  if (any || policy.states == StateFormat::kF32) return;
  fail_usage(fmt::format("the KV policy \"{}\" keeps states as {}, and {} keeps them as f32 alone", to_text(policy),
                         state_format_name(policy.states), backend.description()),
             "kv", "leave states= out, or run it with --device cpu");
}

namespace {

void check_context(const EngineConfig& config, const Model& model, std::span<const KvGroup> groups) {
  const std::int64_t trained = model.config().context;
  const bool endless = model.config().positions == 0;  // learned positions end
  if (config.context <= trained || (endless && streams(groups, trained))) return;
  fail_usage(fmt::format("{} tokens are more than the {} the model was trained for", config.context, trained),
             "--ctx-size", fmt::format("use {} or less{}", trained, endless ? ", or a window in --kv" : ""));
}

void check_pages(const EngineConfig& config, KvStorage::Pages pages, std::span<const KvGroup> groups) {
  if (pages.count >= std::ssize(groups)) return;
  const std::int64_t needed = pages.bytes * std::ssize(groups);
  fail_usage(fmt::format("{} do not hold one block of {} tokens, which takes {}", format_bytes(config.kv_bytes),
                         config.block_tokens, format_bytes(static_cast<std::uint64_t>(needed))),
             "--kv-memory", "give more memory, or a smaller --block-size");
}

// Whether blocks of one of these sizes leave more than a sixteenth of a page over.
bool wastes_much(std::int64_t page, std::span<const std::int64_t> blocks) {
  return std::ranges::any_of(blocks, [page](std::int64_t block) { return page % block * 16 > page; });
}

// The first model's is the engine's own; others go no further than they were trained for.
std::int64_t context_of(const EngineConfig& config, std::span<const EngineModel> models, size_t index) {
  return index == 0 ? config.context : std::min(config.context, models[index].model->config().context);
}

}  // namespace

EngineConfig resolve_config(EngineConfig config, std::span<const EngineModel> models, const Backend& backend) {
  if (config.block_tokens < 1 || config.block_tokens > 65536) {
    fail_usage(fmt::format("a block of {} tokens makes no sense", config.block_tokens), "--block-size",
               "use 1 to 65536");
  }
  const Model& first = *models.front().model;
  for (const EngineModel& one : models) {
    check_basis(*one.model, one.kv);
    check_states(backend, one.kv);
  }
  for (const KvPolicy& also : config.kv_also) {
    check_basis(first, also);
    check_states(backend, also);
  }
  if (config.context <= 0) config.context = first.config().context;
  std::vector<std::vector<KvGroup>> groups;
  groups.reserve(models.size());
  for (const EngineModel& one : models) groups.push_back(kv_groups(one.model->config(), one.kv));
  check_context(config, first, groups.front());
  if (config.kv_bytes == 0) {
    for (size_t i = 0; i < models.size(); ++i) {
      const std::int64_t rows = blocks_for(context_of(config, models, i), config.block_tokens);
      const std::int64_t kept = 1 + config.scheduler.state_budget;  // its answer's and those at its marks
      for (const KvGroup& group : groups[i]) {
        const bool written = group.state_use != KvGroup::StateUse::kKept;
        const bool named = group.state_use != KvGroup::StateUse::kLive;
        const std::int64_t states = std::int64_t{written} + (named ? kept : 0);
        const std::int64_t blocks = kDefaultSequences * (group.keeps_state() ? states : rows);
        const std::int64_t bytes = block_bytes_of(group, config.block_tokens);
        config.kv_bytes += static_cast<std::uint64_t>(blocks * bytes);
      }
    }
    config.kv_bytes = std::min(config.kv_bytes, backend.default_cache_bytes());
  }
  if (groups.front().empty()) config.kv_bytes = 0;  // nothing is cached, whatever memory there is for it
  const KvStorage::Pages pages = pages_of(models, config);
  for (const std::vector<KvGroup>& of_model : groups) check_pages(config, pages, of_model);
  if (!config.swap_bytes) config.swap_bytes = std::min(config.kv_bytes, physical_memory() / 8);
  SchedulerConfig& scheduler = config.scheduler;
  for (const EngineModel& one : models) {
    scheduler.max_batch_tokens = std::clamp(scheduler.max_batch_tokens, 1, one.model->max_rows());
  }
  scheduler.max_sequences = std::max(scheduler.max_sequences, 1);
  scheduler.state_budget = std::max(scheduler.state_budget, 0);
  if (config.clock == nullptr) config.clock = std::make_shared<SteadyTime>();
  return config;
}

std::vector<ServedModel> served_models(std::span<const EngineModel> models, const EngineConfig& resolved) {
  std::vector<ServedModel> out;
  for (size_t i = 0; i < models.size(); ++i) {
    const auto id = static_cast<ModelId>(i);
    out.push_back({models[i].model, context_of(resolved, models, i),
                   resolve_policy(id, *models[i].model, models[i].kv, resolved.block_tokens)});
  }
  return out;
}

// A page holds a block of any policy that may come. With blocks of one size it is one block; where sizes differ it is
// many of them, so that little is left over at its end, as long as there are many pages. States are as large as pages
// of rows, and are let go of one by one: where there are some, a page holds no more of them than it must, or rows
// would wait until all that lie in one page are old.
KvStorage::Pages pages_of(std::span<const EngineModel> models, const EngineConfig& config) {
  constexpr std::int64_t kMostBlocks = 16;
  constexpr std::int64_t kManyPages = 128;
  constexpr std::int64_t kLine = 64;
  constexpr std::int64_t kMostIds = std::int64_t{1} << 30;  // of blocks: a BlockId must name them
  std::int64_t own = 0;
  std::int64_t largest = 0;
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> sizes;
  bool states = false;
  const auto see = [&](const Model& model, const KvPolicy& policy) {
    for (const KvGroup& group : kv_groups(model.config(), policy)) {
      const std::int64_t bytes = block_bytes_of(group, config.block_tokens);
      sizes.push_back(bytes);
      states = states || group.keeps_state();
      largest = std::max(largest, bytes);
      smallest = std::min(smallest, bytes);
    }
    if (own == 0) own = largest;
  };
  for (const EngineModel& one : models) see(*one.model, one.kv);
  const Model& first = *models.front().model;
  for (const KvPolicy& also : config.kv_also) see(first, also);
  for (const KvPolicy& internal : config.internal_policies) see(first, internal);
  for (const EngineModel& one : models) {
    if (config.others != EngineConfig::OtherPolicies::kAny) break;
    for (const KvFormat format : kAllKvFormats) see(*one.model, uniform_policy(format));
    KvPolicy least = uniform_policy(KvFormat::kInt2);
    const auto has_v = [](const LayerSpec& layer) { return layer.attention.kv.has_v(); };
    if (std::ranges::all_of(one.model->config().layers, has_v) && !one.model->config().reads_source())
      least.k_rank = least.v_rank = 1;  // else rows are whole
    see(*one.model, least);
  }
  if (largest == 0) return {0, 1};  // a model that caches nothing
  if (smallest == largest) {
    return {std::min(static_cast<std::int64_t>(config.kv_bytes) / largest, kMostIds), largest};
  }
  const std::int64_t blocks = static_cast<std::int64_t>(config.kv_bytes) / own;
  std::int64_t most = std::clamp<std::int64_t>(blocks / kManyPages, 1, kMostBlocks);
  if (states) {
    std::int64_t least = 1;
    while (least < most && wastes_much(own * least, sizes)) ++least;
    most = least;
  }
  const std::int64_t bytes = std::max(own * most, largest);
  const std::int64_t page = (bytes + kLine - 1) / kLine * kLine;
  return {std::min(static_cast<std::int64_t>(config.kv_bytes) / page, kMostIds / (page / smallest)), page};
}

CacheConfig cache_config(const ServedModel& first, const Backend& backend, const EngineConfig& config,
                         KvStorage::Pages pages) {
  CacheConfig out;
  out.block_tokens = config.block_tokens;
  out.eviction = config.eviction;
  out.public_texts = config.public_texts;
  out.reuse = config.mode == EngineConfig::Mode::kRecompute ? CacheConfig::Reuse::kOff : config.reuse;
  out.policy = {policy_key(*first.model, backend, first.kv->groups, config.block_tokens), first.kv->cache_groups,
                sharing_of(first.kv->policy)};
  out.pages = {shuffled(in_order(pages.count), config.shuffle_blocks), pages.bytes};
  // A token multiplies with every weight once, and its queries with every cached token.
  const ModelSpec& shape = first.model->config();
  out.recompute.constant = parameter_count(shape) / 1024 + 1;
  out.recompute.per_position = 2 * static_cast<std::uint64_t>(shape.query_width()) / 1024 + 1;
  return out;
}

Key256 policy_key(const Model& model, const Backend& backend, std::span<const KvGroup> groups, int block_tokens) {
  std::string policy = fmt::format("{} {}", backend.kernel_version(), block_tokens);
  for (const KvGroup& group : groups) {
    if (group.keeps_state()) {
      // Of which the spec's text says all else.
      policy += fmt::format(" [{}] states {}", fmt::join(group.layers, ","), state_format_name(group.state_format));
      continue;
    }
    policy += fmt::format(" [{}] {} {} {} {} {} {} {}", fmt::join(group.layers, ","), format_name(group.k_format),
                          format_name(group.v_format), group.retention.window, group.retention.sinks,
                          group.recent_override.window, group.recent_override.sinks, group.sink_query_position);
    if (group.first_head > 0) policy += fmt::format(" {}", group.first_head);
    if (group.shape.whole()) continue;
    policy += fmt::format(" {}:{} {}:{} of {}", static_cast<int>(group.shape.k_space), group.shape.k_dim,
                          static_cast<int>(group.shape.v_space), group.shape.v_dim, model.basis_name()->hex());
  }
  const std::array<std::string_view, 1> parts{policy};
  return keyed_hash(model.fingerprint(), parts);
}

}  // namespace kvasir
