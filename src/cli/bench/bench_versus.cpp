#include "cli/bench/bench_versus.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "cli/bench/bench_runs.h"

namespace kvasir {
namespace {

// An engine of its own, with one request that never ends by itself.
struct Player {
  std::unique_ptr<Engine> engine;
  std::int64_t told = 0;  // tokens

  double answer(std::int64_t tokens) {
    const auto start = std::chrono::steady_clock::now();
    for (const std::int64_t goal = told + tokens; told < goal; engine->step()) CHECK(!engine->idle());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
};

}  // namespace

EngineConfig VersusBench::config_for(const KvPolicy& policy, const VersusTest& test) const {
  EngineConfig config = config_;
  config.kv = policy;
  config.context = test.depth + 1 + test.tokens * (test.turns + 2);
  if (config.kv_bytes == 0) {
    for (const KvGroup& group : kv_groups(model_.config(), policy)) {
      const std::int64_t blocks = group.keeps_state() ? 4 : blocks_for(config.context, config.block_tokens) + 2;
      config.kv_bytes += static_cast<std::uint64_t>(blocks * block_bytes_of(group, config.block_tokens));
    }
  }
  return config;
}

std::vector<VersusResult> VersusBench::run(std::span<const KvPolicy> policies, const VersusTest& test,
                                           const std::function<void()>& filled) {
  std::vector<Player> players(policies.size());
  for (size_t i = 0; i < policies.size(); ++i) {
    Player& player = players[i];
    player.engine = std::make_unique<Engine>(backend_, model_, config_for(policies[i], test));
    Request request;
    request.prompt = random_tokens(model_, test.depth + 1, 1);
    request.sampling.temperature = 0;
    request.max_tokens = test.tokens * (test.turns + 2);
    player.engine->submit(std::move(request), [&player](const Update&) { ++player.told; });
    player.answer(1);
    filled();
  }
  std::vector<VersusResult> results;
  for (const KvPolicy& policy : policies) results.push_back({policy, test, {}, 0, 0});
  for (Player& player : players) player.answer(test.tokens);
  for (int turn = 0; turn < test.turns; ++turn) {
    for (size_t i = 0; i < players.size(); ++i) results[i].seconds.push_back(players[i].answer(test.tokens));
  }
  for (VersusResult& result : results) {
    std::vector<double> ratios;
    for (size_t turn = 0; turn < result.seconds.size(); ++turn) {
      ratios.push_back(results.front().seconds[turn] / result.seconds[turn]);
    }
    result.tokens_per_second = static_cast<double>(test.tokens) / spread_of(result.seconds).median;
    result.against_first = spread_of(std::move(ratios)).median;
  }
  return results;
}

void print_versus(std::span<const VersusResult> results) {
  size_t widest = 6;
  for (const VersusResult& r : results) widest = std::max(widest, to_text(r.policy).size());
  fmt::print("\n{:<{}} {:>8} {:>10} {:>10} {:>12}\n", "policy", widest, "depth", "tokens/s", "ms/token",
             "times first");
  for (const VersusResult& r : results) {
    fmt::print("{:<{}} {:>8} {:>10.1f} {:>10.3f} {:>12.2f}\n", to_text(r.policy), widest, r.test.depth,
               r.tokens_per_second, 1e3 / r.tokens_per_second, r.against_first);
  }
  fmt::print("\nPolicies take turns; \"times first\" is the median of the turns' ratios.\n");
}

nlohmann::ordered_json versus_json(std::span<const VersusResult> results) {
  auto out = nlohmann::ordered_json::array();
  for (const VersusResult& r : results) {
    out.push_back({{"policy", to_text(r.policy)},
                   {"depth", r.test.depth},
                   {"tokens", r.test.tokens},
                   {"seconds", r.seconds},
                   {"tokens_per_second", r.tokens_per_second},
                   {"times_first", r.against_first}});
  }
  return out;
}

}  // namespace kvasir
