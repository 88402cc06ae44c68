#include "cli/bench_runs.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/hash.h"

namespace kvasir {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {values.front(), median, values.back()};
}

std::vector<TokenId> Bench::tokens(std::int64_t count, std::uint64_t seed) const {
  std::vector<TokenId> out;
  const auto vocab = static_cast<std::uint64_t>(model_.config().vocab);
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<TokenId>(mix(seed, static_cast<std::uint64_t>(i), 7) % vocab));
  return out;
}

// Prefill: `depth` tokens are cached by a first request, then timed is a second that has `tokens` more, up to its
// first answer. Decode: timed are the steps from the first answered token to the last.
double Bench::once(Engine& engine, const BenchTest& test, std::uint64_t seed) const {
  Request request;
  request.sampling.temperature = 0;
  request.max_tokens = 1;
  const bool prefill = test.kind == BenchTest::Kind::kPrefill;
  const std::int64_t before = std::max<std::int64_t>(test.depth, prefill ? 0 : 1);
  if (prefill && before > 0) {
    request.prompt = tokens(before, seed);
    engine.submit(request, {});
    engine.run();
  }
  request.prompt = tokens(before + (prefill ? test.tokens : 0), seed);
  request.max_tokens = prefill ? 1 : test.tokens + 1;
  Clock::time_point first{};
  Clock::time_point last{};
  const Clock::time_point start = Clock::now();
  engine.submit(std::move(request), [&](const Update&) {
    last = Clock::now();
    if (first == Clock::time_point{}) first = last;
  });
  engine.run();
  return prefill ? seconds_between(start, first) : seconds_between(first, last);
}

BenchResult Bench::run(const BenchTest& test, int repeats, const std::function<void()>& after_each) {
  EngineConfig config = config_;
  config.context = test.depth + test.tokens + 2;
  Engine engine(backend_, model_, config);
  BenchResult result;
  result.test = test;
  BenchTest warm_up = test;
  warm_up.tokens = std::min<std::int64_t>(test.tokens, test.kind == BenchTest::Kind::kPrefill ? 64 : 4);
  warm_up.depth = 0;
  once(engine, warm_up, 1);
  count_work(result);
  const bool prefill = test.kind == BenchTest::Kind::kPrefill;
  const double work = static_cast<double>(test.tokens) * (prefill ? result.flops_per_token : result.bytes_per_token);
  result.limits.push_back(limit_of(test.kind));
  for (int i = 0; i < repeats; ++i) {
    result.seconds.push_back(once(engine, test, static_cast<std::uint64_t>(i) + 2));
    const double before = result.limits.back();
    result.limits.push_back(limit_of(test.kind));
    const double limit = (before + result.limits.back()) / 2;
    result.shares.push_back(limit > 0 ? work / result.seconds.back() / limit : 0);
    if (after_each) after_each();
  }
  result.median_seconds = spread_of(result.seconds).median;
  result.tokens_per_second = static_cast<double>(test.tokens) / result.median_seconds;
  return result;
}

// Decode is a race against memory, prefill one against arithmetic.
double Bench::limit_of(BenchTest::Kind kind) {
  return kind == BenchTest::Kind::kPrefill ? limits_.flops_per_second(model_.config().dtype)
                                           : limits_.read_bytes_per_second();
}

void Bench::count_work(BenchResult& result) const {
  const ModelConfig& c = model_.config();
  // An embedding is a row, not a product; a head is a product, though only of rows whose logits are wanted.
  const double table = static_cast<double>(c.vocab) * c.hidden;
  const double layers = static_cast<double>(parameter_count(c)) - (c.tied_embeddings ? 1 : 2) * table;
  const bool prefill = result.test.kind == BenchTest::Kind::kPrefill;
  const double context = static_cast<double>(result.test.depth) + static_cast<double>(result.test.tokens) / 2;
  const double head = prefill ? table / static_cast<double>(result.test.tokens) : table;
  const double attention = 2.0 * context * c.layers * c.heads * c.head_dim;
  result.flops_per_token = 2 * (layers + head + attention);
  double kv = 0;
  for (const KvGroup& group : kv_groups(c, config_.k_format, config_.v_format))
    kv += static_cast<double>(bytes_per_token(group));
  double weights = 0;  // as they lie in memory: a file may mix types
  for (const auto memory : model_.weight_memory()) weights += static_cast<double>(memory.size());
  result.bytes_per_token = weights + kv * context;
}

}  // namespace kvasir
