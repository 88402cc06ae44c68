// What a KV policy makes of a model's layers: kv_groups() of spec.h.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "model/spec.h"

namespace kvasir {
namespace {

// The layer joins the group that is like this one, or founds it.
void join(std::vector<KvGroup>& groups, const KvGroup& like, int layer) {
  const auto same = [&](const KvGroup& group) {
    return group.shape == like.shape && group.k_format == like.k_format && group.v_format == like.v_format &&
           group.retention == like.retention && group.recent_override == like.recent_override &&
           group.sink_query_position == like.sink_query_position;
  };
  auto group = std::ranges::find_if(groups, same);
  if (group == groups.end()) group = groups.insert(groups.end(), like);
  group->layers.push_back(layer);
}

// Rows can only be given back where all layers and heads of a group keep as many. So layers with budgets of their own
// are groups of their own, and so are heads. Each group costs the cache some bookkeeping: with very many layers some
// have to share one.
void split_budgets(std::vector<KvGroup>& groups, const TokenEviction& evict) {
  constexpr size_t kMostGroups = 64;
  const bool by_head = evict.heads == TokenEviction::Heads::kAdaptive;
  if (!by_head && evict.budgets == TokenEviction::Budgets::kUniform) return;
  std::vector<KvGroup> out;
  for (const KvGroup& group : groups) {
    if (!group.retention.full()) {
      out.push_back(group);
      continue;
    }
    const int heads = by_head ? 1 : group.shape.heads;
    const size_t parts = static_cast<size_t>(group.shape.heads / heads);
    const size_t layers = group.layers.size();
    const size_t bands = std::min(layers, std::max<size_t>(kMostGroups / parts, 1));
    for (size_t band = 0; band < bands; ++band) {
      KvGroup part = group;
      part.layers.assign(group.layers.begin() + static_cast<std::ptrdiff_t>(band * layers / bands),
                         group.layers.begin() + static_cast<std::ptrdiff_t>((band + 1) * layers / bands));
      part.shape.heads = heads;
      for (part.first_head = 0; part.first_head < group.shape.heads; part.first_head += heads) out.push_back(part);
    }
  }
  groups = std::move(out);
}

// What a policy makes of whole rows.
KvShape shortened(const KvShape& whole, const KvPolicy& policy) {
  KvShape out = whole;
  const auto cut = [](int& dim, int rank, const char* of) {
    if (rank > dim) {
      fail_usage(fmt::format("rank={}:{} is more than the {} numbers of a head", of, rank, dim), "kv",
                 fmt::format("use at most {}", dim));
    }
    if (rank > 0) dim = rank;
    return rank > 0 ? KvSpace::kRank : KvSpace::kWhole;
  };
  out.k_space = cut(out.k_dim, policy.k_rank, "k");
  out.v_space = cut(out.v_dim, policy.v_rank, "v");
  if (policy.channels > 0) {
    out.k_space = KvSpace::kChannels;
    out.k_dim = std::max(1, (whole.k_dim * policy.channels + 50) / 100);
  }
  return out;
}

[[noreturn]] void fail_policy(const KvPolicy& policy, const std::string& asks, int layer, const char* why,
                              const char* instead) {
  fail_usage(
      fmt::format("the KV policy \"{}\" {}, and in layer {} of this model {}", to_text(policy), asks, layer, why),
      "kv", instead);
}

// What a layer's attention does not allow.
void check_policy(const KvPolicy& policy, const KvGroup& group, const AttentionSpec& attention, int layer) {
  if (!group.shape.has_v() && (group.k_format != group.v_format || !group.shape.whole())) {
    fail_policy(policy, "treats K and V apart", layer, "V is a part of K", "use one format for both, and whole rows");
  }
  const bool after_rope = attention.qk_norm != AttentionSpec::QkNorm::kNone &&
                          attention.qk_norm_stage == AttentionSpec::NormStage::kAfterRope;
  if (attention.bias.kind == PositionBiasSpec::Kind::kNone && !after_rope) return;
  if (!policy.evict.on() && group.sink_query_position == 0) return;
  fail_policy(policy, "moves tokens closer", layer, "scores depend on distances", "use a window, without sinks");
}

// A source is read whole, and was not written a token at a time: of a policy its formats hold for it, and nothing
// else. Behind all others, since the first group of a policy keeps rows of the text.
void add_source(std::vector<KvGroup>& groups, const ModelSpec& spec, const KvPolicy& policy) {
  std::vector<KvGroup> added;
  for (int layer = 0; layer < spec.layer_count(); ++layer) {
    const AttentionSpec& attention = spec.attention(layer);
    if (!attention.of_source) continue;
    if (policy.evict.on()) {
      fail_policy(policy, "evicts tokens", layer, "K and V are a source's, which is read whole",
                  "use formats, or a window, which is the text's alone");
    }
    if (shortened(attention.kv, policy) != attention.kv) {
      fail_policy(policy, "keeps shorter rows", layer, "K and V are a source's", "use formats of whole rows");
    }
    const auto [k_format, v_format] = formats_of_layer(policy, layer);
    join(added, {{}, attention.kv, k_format, v_format, {}}, layer);
  }
  groups.insert(groups.end(), added.begin(), added.end());
}

// Layers that keep states of one shape. Whatever tokens a policy lets go of, a state has seen them. In a format of
// their own those that are kept have a group beside the one that is written.
void add_states(std::vector<KvGroup>& groups, const ModelSpec& spec, const KvPolicy& policy) {
  const size_t rows = groups.size();
  for (int layer = 0; layer < spec.layer_count(); ++layer) {
    const StateShape state = spec.layers[static_cast<size_t>(layer)].recurrent.state();
    if (state.none()) continue;
    if (policy.evict.on()) {
      fail_policy(policy, "evicts tokens", layer, "a state has seen them",
                  "use a policy that keeps tokens, or windows");
    }
    const auto first = groups.begin() + static_cast<std::ptrdiff_t>(rows);
    auto group = std::find_if(first, groups.end(), [&](const KvGroup& one) { return one.state == state; });
    if (group == groups.end()) {
      group = groups.insert(groups.end(), KvGroup{});
      group->state = state;
      group->state_format = policy.states;
    }
    group->layers.push_back(layer);
  }
  if (policy.states == StateFormat::kF32) return;
  if (groups.size() == rows) {
    fail_usage(fmt::format("the KV policy \"{}\" says how states are kept, and the model has none", to_text(policy)),
               "kv", "leave states= out");
  }
  std::vector<KvGroup> pairs;
  for (auto group = groups.begin() + static_cast<std::ptrdiff_t>(rows); group != groups.end(); ++group) {
    for (const auto use : {KvGroup::StateUse::kLive, KvGroup::StateUse::kKept}) {
      pairs.push_back(*group);
      pairs.back().state_use = use;
    }
  }
  groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(rows), groups.end());
  groups.insert(groups.end(), pairs.begin(), pairs.end());
}

}  // namespace

// With recent tokens in a format of their own a layer is in two groups: what the one answers for, the other does not.
// But not where all its tokens are in that format.
std::vector<KvGroup> kv_groups(const ModelSpec& spec, const KvPolicy& policy) {
  if (!policy.layers.empty() && policy.layers.back().last >= spec.layer_count()) {
    fail_usage(fmt::format("the KV policy \"{}\" names layer {}, and the model has {}", to_text(policy),
                           policy.layers.back().last, spec.layer_count()),
               "kv", fmt::format("layers count from 0: use 0 to {}", spec.layer_count() - 1));
  }
  const KvFormat fine = policy.recent_format;
  std::vector<KvGroup> groups;
  if (!spec.generates()) return groups;
  for (int layer = 0; layer < spec.layer_count(); ++layer) {
    if (spec.attention(layer).none() || !spec.attention(layer).makes_kv()) continue;
    const auto [k_format, v_format] = formats_of_layer(policy, layer);
    const KvShape& whole = spec.attention(layer).kv;
    const KvShape shape = shortened(whole, policy);
    const Retention own{spec.attention(layer).window, 0, spec.attention(layer).chunk};
    const Retention kept = narrowed(own, policy.retention);
    const std::int64_t place = kept.full() || kept.sinks == 0 ? 0 : kept.sinks + kept.window - 1;  // beside the sinks
    const auto add = [&](const KvGroup& group) {
      check_policy(policy, group, spec.attention(layer), layer);
      join(groups, group, layer);
    };
    if (policy.recent == 0 || (k_format == fine && v_format == fine && shape == whole)) {
      add({{}, shape, k_format, v_format, kept, {}, place});
    } else if (!kept.full() && kept.span() <= policy.recent) {
      add({{}, whole, fine, fine, kept, {}, place});
    } else {
      const Retention recent{policy.recent, own.full() ? policy.retention.sinks : 0, own.chunk};
      add({{}, shape, k_format, v_format, {kept.window, 0, kept.chunk}, recent, 0});
      add({{}, whole, fine, fine, recent, {}, place});
    }
  }
  if (policy.evict.on()) split_budgets(groups, policy.evict);
  add_states(groups, spec, policy);
  add_source(groups, spec, policy);
  return groups;
}

bool is_of_source(const ModelSpec& spec, const KvGroup& group) {
  return spec.attention(group.layers.front()).of_source;
}

std::vector<KvGroup> scratch_groups(const ModelSpec& spec) {
  std::vector<KvGroup> groups;
  for (int layer = 0; layer < spec.layer_count(); ++layer) {
    const AttentionSpec& attention = spec.attention(layer);
    if (attention.none() || !attention.owns_kv()) continue;
    const Retention kept{attention.window, 0, attention.chunk};
    join(groups, {{}, attention.kv, KvFormat::kF32, KvFormat::kF32, kept}, layer);
  }
  return groups;
}

}  // namespace kvasir
