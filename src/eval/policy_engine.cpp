#include "eval/policy_engine.h"

#include <algorithm>

#include "engine/engine.h"
#include "layout/codec.h"

namespace kvasir {

EngineConfig with_policy(EngineConfig base, std::string_view policy) {
  base.kv = parse_kv_policy(policy, "--kv");
  return base;
}

std::vector<std::string> with_reference(const std::vector<std::string>& policies) {
  std::vector<std::string> out{kReferencePolicy};
  for (const std::string& policy : policies) {
    const std::string name = to_text(parse_kv_policy(policy, "--kv"));
    if (std::ranges::find(out, name) == out.end()) out.push_back(name);
  }
  return out;
}

std::vector<std::string> every_format() {
  std::vector<std::string> names;
  names.reserve(kAllKvFormats.size());
  for (const KvFormat format : kAllKvFormats) names.emplace_back(format_name(format));
  return names;
}

std::int64_t cache_bytes(const Model& model, const EngineConfig& config, std::int64_t tokens) {
  std::int64_t bytes = 0;
  const std::int64_t size = config.block_tokens;
  const Position prompt = std::max<Position>(tokens / 2, 1);
  for (const KvGroup& group : kv_groups(model.config(), config.kv)) {
    const std::int64_t block = block_bytes_of(group, config.block_tokens);
    if (group.keeps_state()) {  // of a place where one is kept
      if (group.state_use != KvGroup::StateUse::kLive) bytes += block;
      continue;
    }
    if (const auto rule = eviction_rule(config.kv, prompt); rule && group.retention.full()) {
      const std::int64_t budget = group_budget(*rule, group, model.config().layer_count());
      bytes += block * blocks_for(std::min(tokens, budget + EvictionRule::kInterval), config.block_tokens);
      continue;
    }
    for (std::int64_t first = 0; first < tokens; first += size) {
      if (group.retention.needed(first, first + size - 1, tokens)) bytes += block;
    }
  }
  return bytes;
}

std::uint64_t roomy_bytes(const Model& model, const EngineConfig& config, std::int64_t tokens) {
  const std::int64_t blocks = blocks_for(tokens, config.block_tokens);
  std::int64_t bytes = 0;
  for (const KvGroup& group : kv_groups(model.config(), config.kv)) {
    bytes += (group.keeps_state() ? 8 : blocks + blocks / 4 + 8) * block_bytes_of(group, config.block_tokens);
  }
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace kvasir
