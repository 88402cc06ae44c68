#include "serve/experiments.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "serve/server_process.h"
#include "serve/synthetic_model.h"

namespace kvasir::bench {
namespace {

// Prompts of tokens drawn from the vocabulary: no two begin alike by chance, and no tokenizer has a say.
class Prompts {
 public:
  explicit Prompts(const std::filesystem::path& model) : token_(4, vocabulary_of(model) - 1) {}

  std::vector<std::int64_t> draw(int count) {
    std::vector<std::int64_t> out;
    for (int i = 0; i < count; ++i) out.push_back(token_(random_));
    return out;
  }

  std::vector<std::int64_t> after(std::vector<std::int64_t> prefix, int count) {
    const std::vector<std::int64_t> own = draw(count);
    prefix.insert(prefix.end(), own.begin(), own.end());
    return prefix;
  }

 private:
  std::mt19937_64 random_{1};
  std::uniform_int_distribution<std::int64_t> token_;
};

Json request(const std::vector<std::int64_t>& prompt, int answer_tokens) {
  return {{"prompt", prompt}, {"max_tokens", answer_tokens}, {"temperature", 0}, {"ignore_eos", true}};
}

ServerProcess serve(const ServerSetup& setup) {
  ServerProcess::Launch launch;
  if (setup.peer.empty()) {
    launch = {kvasir_program(), {"serve", "--port", "0", "--quiet"}};
  } else {
    launch = {setup.peer, {}, free_port()};
    launch.arguments = {"--host", "127.0.0.1", "--port", std::to_string(launch.port)};
  }
  launch.arguments.insert(launch.arguments.end(), {"--model", setup.model.string()});
  launch.arguments.insert(launch.arguments.end(), setup.arguments.begin(), setup.arguments.end());
  return ServerProcess(launch);
}

std::string title_of(const ServerSetup& setup, const std::string& what) {
  const std::string server = setup.peer.empty() ? "" : std::filesystem::path(setup.peer).filename().string() + ", ";
  return fmt::format("{} ({}{})", what, server, setup.model.filename().string());
}

void note_errors(const LoadResult& result, std::vector<std::string>& errors) {
  for (const Outcome& outcome : result.outcomes) {
    if (!outcome.error.empty()) errors.push_back(outcome.error);
  }
}

std::vector<double> first_tokens(const LoadResult& result) {
  std::vector<double> out;
  for (const Outcome& outcome : result.outcomes) out.push_back(outcome.first_token);
  return out;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(std::max<size_t>(values.size(), 1));
}

double answer_tokens(const LoadResult& result) {
  double out = 0;
  for (const Outcome& outcome : result.outcomes) out += static_cast<double>(outcome.answer_tokens);
  return out;
}

// Of several rounds of streams.
struct StreamTally {
  std::vector<double> firsts;
  std::vector<double> gaps;
  double tokens = 0;
  double seconds = 0;
  int complete = 0;
  int most_open = 0;

  void add(const LoadResult& result, const StreamsPlan& plan) {
    for (const Outcome& outcome : result.outcomes) {
      complete += outcome.error.empty() && outcome.answer_tokens == plan.answer_tokens ? 1 : 0;
      firsts.push_back(outcome.first_token);
      gaps.insert(gaps.end(), outcome.gaps.begin(), outcome.gaps.end());
    }
    tokens += answer_tokens(result);
    seconds += result.seconds;
    most_open = std::max(most_open, result.most_open);
  }
};

double mebibytes(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

Measured measure_streams(const ServerSetup& setup, const StreamsPlan& plan) {
  const ServerProcess server = serve(setup);
  const StreamClient client(server.port());
  Prompts prompts(setup.model);
  Measured out{Report(title_of(setup, fmt::format("{} streams at once", plan.streams))), {}};
  Report& report = out.report;
  client.ask(request(prompts.draw(plan.prompt_tokens), plan.answer_tokens));
  report.add("memory_start_mib", "server memory, start", mebibytes(server.resident_bytes()), "MiB");
  StreamTally tally;
  std::vector<double> after;
  for (int round = 1; round <= plan.rounds; ++round) {
    std::vector<Json> bodies;
    for (int i = 0; i < plan.streams; ++i)
      bodies.push_back(request(prompts.draw(plan.prompt_tokens), plan.answer_tokens));
    std::uint64_t peak = 0;
    const LoadResult result =
        client.run(bodies, Order::kAtOnce, [&] { peak = std::max(peak, server.resident_bytes()); });
    note_errors(result, out.errors);
    tally.add(result, plan);
    after.push_back(mebibytes(server.resident_bytes()));
    report.add(fmt::format("memory_peak_{}_mib", round).c_str(),
               fmt::format("server memory, peak of round {}", round), mebibytes(peak), "MiB");
    report.add(fmt::format("memory_after_{}_mib", round).c_str(), fmt::format("server memory, after round {}", round),
               after.back(), "MiB");
  }
  // The first round touches the whole cache; what is left to grow would be a leak.
  report.add("memory_growth_mib", "server memory, growth since round 1", after.back() - after.front(), "MiB");
  report.add("asked", "streams asked for", plan.streams * plan.rounds, "");
  report.add("complete", "streams complete", tally.complete, "");
  report.add("lost", "streams lost", static_cast<double>(out.errors.size()), "");
  report.add("most_open", "open at one time", tally.most_open, "");
  report.add("tokens_per_second", "tokens a second", tally.tokens / tally.seconds, "");
  report.add_times("first_token", "first token", tally.firsts);
  report.add_times("gap", "between tokens", tally.gaps);
  return out;
}

Measured measure_prefix(const ServerSetup& setup, const PrefixPlan& plan) {
  const ServerProcess server = serve(setup);
  const StreamClient client(server.port());
  Prompts prompts(setup.model);
  Measured out{Report(title_of(setup, fmt::format("first token after a prefix of {}", plan.prefix_tokens))), {}};
  client.ask(request(prompts.draw(plan.own_tokens), 1));
  std::vector<double> cold;
  std::vector<double> warm;
  std::vector<double> ratios;
  std::int64_t cached = 0;
  for (int i = 0; i < plan.repeats; ++i) {
    const std::vector<std::int64_t> prefix = prompts.draw(plan.prefix_tokens);
    const Outcome first = client.ask(request(prompts.after(prefix, plan.own_tokens), 1));
    const Outcome second = client.ask(request(prompts.after(prefix, plan.own_tokens), 1));
    for (const Outcome* outcome : {&first, &second}) {
      if (!outcome->error.empty()) out.errors.push_back(outcome->error);
    }
    cold.push_back(first.first_token);
    warm.push_back(second.first_token);
    ratios.push_back(first.first_token / second.first_token);
    cached = second.cached_tokens;
  }
  Report& report = out.report;
  report.add("repeats", "repeats", plan.repeats, "");
  report.add("cached_tokens", "tokens found in the cache", static_cast<double>(cached), "");
  report.add_times("cold", "cold", cold);
  report.add_times("warm", "warm", warm);
  report.add("times_faster", "times faster, median", percentile(ratios, 0.5), "");
  report.add("times_faster_least", "times faster, least", percentile(ratios, 0), "");
  report.add("times_faster_most", "times faster, most", percentile(ratios, 1), "");
  return out;
}

Measured measure_concurrency(const ServerSetup& setup, const ConcurrencyPlan& plan) {
  const ServerProcess server = serve(setup);
  const StreamClient client(server.port());
  Prompts prompts(setup.model);
  Measured out{Report(title_of(setup, fmt::format("{} requests, one by one and at once", plan.requests))), {}};
  client.ask(request(prompts.draw(plan.prompt_tokens), 2));
  std::vector<double> alone;
  std::vector<double> together;
  std::vector<double> ratios;
  std::vector<double> gaps;
  for (int i = 0; i < plan.repeats; ++i) {
    // Other prompts each time: nothing is to be found in the cache.
    for (const Order order : {Order::kOneByOne, Order::kAtOnce}) {
      std::vector<Json> bodies;
      for (int r = 0; r < plan.requests; ++r)
        bodies.push_back(request(prompts.draw(plan.prompt_tokens), plan.answer_tokens));
      const LoadResult result = client.run(bodies, order);
      note_errors(result, out.errors);
      (order == Order::kOneByOne ? alone : together).push_back(answer_tokens(result) / result.seconds);
      if (order == Order::kOneByOne) continue;
      for (const Outcome& outcome : result.outcomes)
        gaps.insert(gaps.end(), outcome.gaps.begin(), outcome.gaps.end());
    }
    ratios.push_back(together.back() / alone.back());
  }
  Report& report = out.report;
  report.add("repeats", "repeats", plan.repeats, "");
  report.add("one_by_one", "one by one, median", percentile(alone, 0.5), "tokens/s");
  report.add("at_once", "at once, median", percentile(together, 0.5), "tokens/s");
  report.add_times("gap", "between tokens, at once", gaps);
  report.add("times_faster", "times faster, median", percentile(ratios, 0.5), "");
  report.add("times_faster_least", "times faster, least", percentile(ratios, 0), "");
  report.add("times_faster_most", "times faster, most", percentile(ratios, 1), "");
  return out;
}

Measured measure_burst(const ServerSetup& setup, const BurstPlan& plan) {
  const ServerProcess server = serve(setup);
  const StreamClient client(server.port());
  Prompts prompts(setup.model);
  Measured out{Report(title_of(setup, fmt::format("{} requests at once after a primed prefix of {}", plan.requests,
                                                  plan.prefix_tokens))),
               {}};
  std::vector<double> totals;
  std::vector<double> means;
  std::vector<double> firsts;
  std::vector<double> speeds;
  double prompt = 0;
  double computed = 0;
  for (int i = 0; i < plan.repeats; ++i) {
    const std::vector<std::int64_t> prefix = prompts.draw(plan.prefix_tokens);
    client.ask(request(prefix, 1));
    std::vector<Json> bodies;
    for (int r = 0; r < plan.requests; ++r)
      bodies.push_back(request(prompts.after(prefix, plan.own_tokens), plan.answer_tokens));
    const LoadResult result = client.run(bodies, Order::kAtOnce);
    note_errors(result, out.errors);
    const std::vector<double> first = first_tokens(result);
    totals.push_back(result.seconds);
    means.push_back(mean(first));
    firsts.insert(firsts.end(), first.begin(), first.end());
    speeds.push_back(answer_tokens(result) / result.seconds);
    for (const Outcome& outcome : result.outcomes) {
      prompt += static_cast<double>(outcome.prompt_tokens);
      computed += static_cast<double>(outcome.prompt_tokens - outcome.cached_tokens);
    }
  }
  Report& report = out.report;
  report.add("repeats", "repeats", plan.repeats, "");
  report.add("seconds", "total, median", percentile(totals, 0.5), "s");
  report.add("seconds_least", "total, least", percentile(totals, 0), "s");
  report.add("seconds_most", "total, most", percentile(totals, 1), "s");
  report.add("mean_first_token_seconds", "mean time to first token, median", percentile(means, 0.5), "s");
  report.add_times("first_token", "first token", firsts);
  report.add("tokens_per_second", "tokens a second, median", percentile(speeds, 0.5), "");
  report.add_share("recomputed", "prompt tokens computed again", prompt == 0 ? 0 : computed / prompt);
  return out;
}

}  // namespace kvasir::bench
