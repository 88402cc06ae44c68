// The bookkeeping of the cache, without any model: what a prompt, a token and an eviction cost in time.
#include <benchmark/benchmark.h>

#include <optional>
#include <span>
#include <vector>

#include "kv/cache.h"
#include "trace.h"

namespace kvasir {
namespace {

constexpr int kBlock = 16;

CacheConfig config_of(std::int64_t blocks, const char* eviction = "lru") {
  CacheConfig config;
  config.block_tokens = kBlock;
  config.eviction = eviction;
  config.recompute = {1, 1};
  config.policy.groups.push_back({{}, 131072});
  config.pages = {in_order(blocks), 131072};
  return config;
}

void write(KvCache& cache, KvLease& lease, std::span<const TokenId> text) {
  const std::span<const TokenId> rest = text.subspan(static_cast<size_t>(lease.length()));
  CHECK(cache.reserve(lease, std::ssize(rest)));
  cache.commit(lease, rest);
}

void cache_text(KvCache& cache, std::span<const TokenId> text) {
  KvLease lease = cache.open(text, {}).lease;
  write(cache, lease, text);
}

// open() and release of a prompt that is cached whole.
void open_hit(benchmark::State& state) {
  const std::int64_t tokens = state.range(0);
  KvCache cache(config_of(tokens / kBlock + 2));
  const std::vector<TokenId> text = unique_text(tokens + kBlock, 1);  // a little more: the last block is cached too
  cache_text(cache, text);
  const auto prompt = std::span(text).first(static_cast<size_t>(tokens));
  for (auto _ : state) {
    const KvCache::Opened opened = cache.open(prompt, {});
    CHECK(opened.report.reused_tokens == tokens - 1);
    benchmark::DoNotOptimize(opened.lease.length());
  }
  state.counters["tokens"] = static_cast<double>(tokens);
  state.counters["per_block"] = benchmark::Counter(static_cast<double>(state.iterations() * tokens / kBlock),
                                                   benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(open_hit)->Arg(1000)->Arg(100'000)->Unit(benchmark::kMicrosecond);

// open() of a prompt of which nothing is cached, in a cache full of others.
void open_miss(benchmark::State& state) {
  KvCache cache(config_of(1024));
  for (int i = 0; i < 16; ++i) cache_text(cache, unique_text(1000, i));
  const std::vector<TokenId> text = unique_text(100'000, 1000);
  for (auto _ : state) {
    const KvCache::Opened opened = cache.open(text, {});
    CHECK(opened.report.reused_tokens == 0);
  }
}
BENCHMARK(open_miss)->Unit(benchmark::kMicrosecond);

// One decode step of the bookkeeping: reserve and commit one token, publishing a block every 16th.
void write_token(benchmark::State& state) {
  constexpr std::int64_t kLongest = 32'768;
  KvCache cache(config_of(kLongest / kBlock + 1));
  std::optional<KvLease> lease;
  TokenId token = 0;
  const auto restart = [&] {
    lease.reset();
    const TokenId first[] = {++token};
    lease = cache.open(first, {}).lease;
  };
  restart();
  for (auto _ : state) {
    if (lease->length() == kLongest) {
      state.PauseTiming();
      restart();
      state.ResumeTiming();
    }
    const TokenId next[] = {++token & 0xffffff};
    CHECK(cache.reserve(*lease, 1));
    cache.commit(*lease, next);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(write_token);

// A fork, one token written behind it, and its release: one copy each time.
void fork_and_write(benchmark::State& state) {
  KvCache cache(config_of(256));
  const std::vector<TokenId> text = unique_text(1000, 1);
  KvLease lease = cache.open(text, {}).lease;
  write(cache, lease, text);
  const TokenId token[] = {7};
  for (auto _ : state) {
    KvLease twin = cache.fork(lease);
    CHECK(cache.reserve(twin, 1));
    benchmark::DoNotOptimize(cache.take_copies());
    cache.commit(twin, token);
  }
  state.counters["copies"] =
      static_cast<double>(cache.stats().copied_blocks) / static_cast<double>(state.iterations());
}
BENCHMARK(fork_and_write);

// A pool that is full of old texts: every new block evicts one.
void evict(benchmark::State& state, const char* policy) {
  KvCache cache(config_of(4096, policy));
  int id = 0;
  while (cache.pool(0).free_blocks() >= 32) cache_text(cache, unique_text(32L * kBlock, id++));
  const std::int64_t before = cache.stats().evicted_blocks;
  for (auto _ : state) cache_text(cache, unique_text(32L * kBlock, id++ & 0x3ffff));
  const auto evicted = static_cast<double>(cache.stats().evicted_blocks - before);
  state.counters["evicted"] = benchmark::Counter(evicted, benchmark::Counter::kAvgIterations);
  state.counters["per_eviction"] =
      benchmark::Counter(evicted, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK_CAPTURE(evict, lru, "lru")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(evict, fifo, "fifo")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(evict, cost, "cost")->Unit(benchmark::kMicrosecond);

// Not a speed but a share: rows of held blocks that hold no token, over the chat trace.
void waste(benchmark::State& state) {
  const std::vector<Chat> trace = chat_trace(2000, 1);
  Waste measured;
  for (auto _ : state) measured = measure_waste(trace, 64, static_cast<int>(state.range(0)));
  state.counters["waste_percent"] = measured.percent();
}
BENCHMARK(waste)->Arg(8)->Arg(16)->Arg(32)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvasir

BENCHMARK_MAIN();
