#include "cli/bench/bench_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/hash.h"
#include "cli/bench/bench_runs.h"

namespace kvasir {
namespace {

using LoadClock = std::chrono::steady_clock;

double seconds_since(LoadClock::time_point start) {
  return std::chrono::duration<double>(LoadClock::now() - start).count();
}

Request greedy(std::vector<TokenId> prompt, std::int64_t tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.max_tokens = tokens;
  return request;
}

}  // namespace

void WaitBackend::download(std::span<std::byte> to, const std::byte* from) {
  const LoadClock::time_point start = LoadClock::now();
  ForwardingBackend::download(to, from);
  waited_ += seconds_since(start);
}

void WaitBackend::take_sampled(SampleTicket ticket, std::span<TokenId> tokens) {
  const LoadClock::time_point start = LoadClock::now();
  ForwardingBackend::take_sampled(ticket, tokens);
  waited_ += seconds_since(start);
}

LoadResult median_load(const std::vector<LoadResult>& runs) {
  CHECK(!runs.empty());
  LoadResult out;
  out.test = runs.front().test;
  out.runs = static_cast<int>(runs.size());
  std::vector<double> seconds;
  const auto add = [](std::vector<double>& to, const std::vector<double>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (const LoadResult& run : runs) {
    seconds.push_back(run.seconds);
    add(out.first_tokens, run.first_tokens);
    add(out.steps, run.steps);
    add(out.host, run.host);
    out.ahead += run.ahead;
  }
  out.seconds = spread_of(seconds).median;
  for (std::vector<double>* values : {&out.first_tokens, &out.steps, &out.host}) std::ranges::sort(*values);
  return out;
}

double percentile(const std::vector<double>& ascending, double share) {
  if (ascending.empty()) return 0;
  const auto at = static_cast<size_t>(share * static_cast<double>(ascending.size()));
  return ascending[std::min(at, ascending.size() - 1)];
}

// Room for all sequences at once, and for as many that an earlier repeat left.
EngineConfig LoadBench::config_for(std::int64_t longest, std::int64_t sequences) const {
  EngineConfig config = config_;
  config.context = longest;
  config.scheduler.max_sequences = std::max(config.scheduler.max_sequences, static_cast<int>(sequences));
  if (config.kv_bytes == 0) {
    for (const KvGroup& group : kv_groups(model_.config(), config.kv)) {
      const std::int64_t each = group.keeps_state() ? 1 : blocks_for(longest, config.block_tokens);
      const std::int64_t blocks = each * (2 * sequences + 1);
      config.kv_bytes += static_cast<std::uint64_t>(blocks * block_bytes_of(group, config.block_tokens));
    }
  }
  return config;
}

LoadResult LoadBench::once(Engine& engine, const LoadTest& test, std::uint64_t seed) {
  LoadResult result;
  result.test = test;
  std::int64_t told = 0;
  const std::int64_t ahead = engine.step_counts().ahead;
  const LoadClock::time_point start = LoadClock::now();
  for (int i = 0; i < test.requests; ++i) {
    bool first = true;
    engine.submit(
        greedy(random_tokens(model_, test.prompt, mix(seed, static_cast<std::uint64_t>(i), 17)), test.generate),
        [&result, &told, start, first](const Update& update) mutable {
          if (update.token < 0) return;
          ++told;
          if (std::exchange(first, false)) result.first_tokens.push_back(seconds_since(start));
        });
  }
  while (!engine.idle()) {
    told = 0;
    const double waited = backend_.waited();
    const LoadClock::time_point began = LoadClock::now();
    const std::int64_t running = engine.num_running();
    engine.step();
    const double step = seconds_since(began);
    if (told == 0 || told != running || engine.num_waiting() > 0) continue;
    result.steps.push_back(step);
    result.host.push_back(step - (backend_.waited() - waited));
  }
  result.seconds = seconds_since(start);
  result.ahead = engine.step_counts().ahead - ahead;
  return result;
}

LoadResult LoadBench::run(const LoadTest& test, int repeats) {
  Engine engine(backend_, model_, config_for(test.prompt + test.generate + 1, test.requests));
  once(engine, test, 1);
  std::vector<LoadResult> runs;
  runs.reserve(static_cast<size_t>(repeats));
  for (int i = 0; i < repeats; ++i) runs.push_back(once(engine, test, static_cast<std::uint64_t>(i) + 2));
  return median_load(runs);
}

HitResult LoadBench::hit(std::int64_t tokens, int repeats) {
  constexpr std::int64_t kAnswer = 32;
  Engine engine(backend_, model_, config_for(tokens + kAnswer + 2, 2));
  std::vector<double> firsts;
  std::vector<double> steps;
  for (int i = 0; i <= repeats; ++i) {  // the first is not counted
    std::vector<TokenId> own = random_tokens(model_, tokens + 1, static_cast<std::uint64_t>(i) + 100);
    engine.submit(greedy({own.begin(), own.end() - 1}, 1), {});
    engine.run();
    std::vector<double> at;
    const LoadClock::time_point start = LoadClock::now();
    engine.submit(greedy(std::move(own), kAnswer), [&](const Update& update) {
      if (update.token >= 0) at.push_back(seconds_since(start));
    });
    engine.run();
    if (i == 0) continue;
    firsts.push_back(at.front());
    steps.push_back((at.back() - at.front()) / static_cast<double>(at.size() - 1));
  }
  return {tokens, spread_of(firsts).median, spread_of(steps).median};
}

void print_load(const LoadResult& r) {
  fmt::print("{} requests of {} + {} tokens: {:.0f} output tokens/s ({:.3f} s{})\n", r.test.requests, r.test.prompt,
             r.test.generate, r.tokens_per_second(), r.seconds,
             r.runs > 1 ? fmt::format(", the median of {} runs", r.runs) : "");
  fmt::print("  first token: {:.1f} ms at p50, {:.1f} ms at p99\n", 1e3 * percentile(r.first_tokens, 0.5),
             1e3 * percentile(r.first_tokens, 0.99));
  if (r.steps.empty()) return;
  fmt::print(
      "  {} decode steps: {:.3f} ms at p50, {:.3f} ms at p99; the host's part {:.0f} us at p50, {:.0f} us at p99\n",
      r.steps.size(), 1e3 * percentile(r.steps, 0.5), 1e3 * percentile(r.steps, 0.99), 1e6 * percentile(r.host, 0.5),
      1e6 * percentile(r.host, 0.99));
  if (r.ahead > 0) fmt::print("  {} steps were begun before the tokens of the one before were known\n", r.ahead);
}

void print_hit(const HitResult& r) {
  fmt::print("behind {} cached tokens: first token {:.3f} ms, a decode step {:.3f} ms: {:.2f} steps\n", r.tokens,
             1e3 * r.first_token, 1e3 * r.step, r.first_token / r.step);
}

nlohmann::ordered_json load_json(const LoadResult& r) {
  const auto of = [](const std::vector<double>& values) {
    return nlohmann::ordered_json{{"p50", percentile(values, 0.5)}, {"p99", percentile(values, 0.99)}};
  };
  return {{"requests", r.test.requests},
          {"prompt", r.test.prompt},
          {"generate", r.test.generate},
          {"runs", r.runs},
          {"seconds", r.seconds},
          {"output_tokens_per_second", r.tokens_per_second()},
          {"first_token_seconds", of(r.first_tokens)},
          {"decode_steps", r.steps.size()},
          {"step_seconds", of(r.steps)},
          {"host_seconds", of(r.host)},
          {"steps_ahead", r.ahead}};
}

nlohmann::ordered_json hit_json(const HitResult& r) {
  return {{"tokens", r.tokens},
          {"first_token_seconds", r.first_token},
          {"step_seconds", r.step},
          {"steps", r.first_token / r.step}};
}

}  // namespace kvasir
