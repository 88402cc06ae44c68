#include "cli/bench/bench_runs.h"

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

std::vector<TokenId> random_tokens(const Model& model, std::int64_t count, std::uint64_t seed) {
  std::vector<TokenId> out;
  const auto vocab = static_cast<std::uint64_t>(model.config().vocab);
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<TokenId>(mix(seed, static_cast<std::uint64_t>(i), 7) % vocab));
  return out;
}

// `depth` tokens are cached by a first request; timed is a second that has `tokens` more, up to its first answer.
double Bench::once(Engine& engine, const BenchTest& test, std::uint64_t seed) const {
  if (test.kind == BenchTest::Kind::kDecode) return decode(engine, test, seed);
  Request request;
  request.sampling.temperature = 0;
  request.max_tokens = 1;
  if (test.depth > 0) {
    request.prompt = random_tokens(model_, test.depth, seed);
    engine.submit(request, {});
    engine.run();
  }
  request.prompt = random_tokens(model_, test.depth + test.tokens, seed);
  Clock::time_point first{};
  const Clock::time_point start = Clock::now();
  engine.submit(std::move(request), [&](const Update&) {
    if (first == Clock::time_point{}) first = Clock::now();
  });
  engine.run();
  return seconds_between(start, first);
}

// The prompts are cached first, so that all sequences answer from the first step on; timed are the steps from the
// first answered token to the last.
double Bench::decode(Engine& engine, const BenchTest& test, std::uint64_t seed) const {
  std::vector<Request> requests(static_cast<size_t>(test.batch));
  for (size_t i = 0; i < requests.size(); ++i) {
    const bool shared = test.of == BenchTest::Depth::kShared;
    requests[i].prompt = random_tokens(model_, test.depth, shared ? seed : mix(seed, i, 9));
    requests[i].prompt.push_back(random_tokens(model_, 1, mix(seed, i, 10)).front());
    requests[i].sampling.temperature = 0;
    requests[i].max_tokens = 1;
    if (test.depth > 0) engine.submit(requests[i], {});
  }
  engine.run();
  Clock::time_point first{};
  Clock::time_point last{};
  for (Request& request : requests) {
    request.max_tokens = test.tokens + 1;
    engine.submit(std::move(request), [&](const Update&) {
      last = Clock::now();
      if (first == Clock::time_point{}) first = last;
    });
  }
  engine.run();
  return seconds_between(first, last);
}

// Room for all sequences of the test at once, and for what an earlier repeat left.
EngineConfig Bench::config_for(const BenchTest& test) const {
  EngineConfig config = config_;
  config.context = test.depth + test.tokens + 3;
  if (test.batch > 1 && config.kv_bytes == 0) {
    for (const KvGroup& group : kv_groups(model_.config(), config.kv)) {
      const std::int64_t each = group.keeps_state() ? 2 : blocks_for(config.context, config.block_tokens);
      const std::int64_t blocks = each * (test.batch + 1);
      config.kv_bytes += static_cast<std::uint64_t>(blocks * block_bytes_of(group, config.block_tokens));
    }
  }
  return config;
}

BenchResult Bench::run(const BenchTest& test, int repeats, const std::function<void()>& after_each) {
  Engine engine(backend_, model_, config_for(test));
  BenchResult result;
  result.test = test;
  BenchTest warm_up = test;
  warm_up.tokens = std::min<std::int64_t>(test.tokens, test.kind == BenchTest::Kind::kPrefill ? 64 : 4);
  warm_up.depth = 0;
  once(engine, warm_up, 1);
  // Where that is fast, all of it as well: a GPU looks for its fastest kernels when a number of rows first comes.
  constexpr double kFast = 0.5;
  if (test.kind == BenchTest::Kind::kPrefill && once(engine, warm_up, 1001) < kFast) {
    warm_up.tokens = test.tokens;
    once(engine, warm_up, 1002);
  }
  count_work(result);
  const bool prefill = test.kind == BenchTest::Kind::kPrefill;
  const double work =
      static_cast<double>(test.tokens * test.batch) * (prefill ? result.flops_per_token : result.bytes_per_token);
  if (const double limit = limit_of(test.kind); limit > 0) result.limits.push_back(limit);
  for (int i = 0; i < repeats; ++i) {
    result.seconds.push_back(once(engine, test, static_cast<std::uint64_t>(i) + 2));
    if (!result.limits.empty()) {
      const double before = result.limits.back();
      result.limits.push_back(limit_of(test.kind));
      const double limit = (before + result.limits.back()) / 2;
      result.shares.push_back(limit > 0 ? work / result.seconds.back() / limit : 0);
    }
    if (after_each) after_each();
  }
  result.median_seconds = spread_of(result.seconds).median;
  result.tokens_per_second = static_cast<double>(test.tokens * test.batch) / result.median_seconds;
  return result;
}

// Decode is a race against memory, prefill one against arithmetic.
double Bench::limit_of(BenchTest::Kind kind) {
  if (limits_ == nullptr) return 0;
  return kind == BenchTest::Kind::kPrefill ? limits_->flops_per_second(model_.config().dtype)
                                           : limits_->read_bytes_per_second();
}

void Bench::count_work(BenchResult& result) const {
  const ModelSpec& c = model_.config();
  // An embedding is a row, not a product; a head is a product, though only of rows whose logits are wanted.
  const double table = static_cast<double>(c.vocab) * c.hidden;
  const double layers = static_cast<double>(parameter_count(c)) - (c.tied_embeddings ? 1 : 2) * table;
  const bool prefill = result.test.kind == BenchTest::Kind::kPrefill;
  const double context = static_cast<double>(result.test.depth) + static_cast<double>(result.test.tokens) / 2;
  const double head = prefill ? table / static_cast<double>(result.test.tokens) : table;
  const double attention = 2.0 * context * static_cast<double>(c.query_width());
  result.flops_per_token = 2 * (layers + head + attention);
  double kv = 0;
  for (const KvGroup& group : kv_groups(c, config_.kv)) kv += static_cast<double>(bytes_per_token(group));
  double weights = 0;  // as they lie in memory: a file may mix types
  for (const auto memory : model_.weight_memory()) weights += static_cast<double>(memory.size());
  // A step reads the weights once for all its sequences, and a depth they share as well.
  const double batch = result.test.batch;
  const bool shared = result.test.of == BenchTest::Depth::kShared;
  const double depth = static_cast<double>(result.test.depth);
  result.bytes_per_token = (weights + kv * (batch * context - (shared ? batch - 1 : 0) * depth)) / batch;
}

}  // namespace kvasir
