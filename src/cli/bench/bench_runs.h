// The measurements behind kvasir bench: prefill and decode at a depth, median of repeats, each repeat against what
// the machine could do just before and just after it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "backend/backend.h"
#include "backend/limits.h"
#include "engine/engine.h"
#include "model/model.h"

namespace kvasir {

struct BenchTest {
  enum class Kind : std::uint8_t { kPrefill, kDecode };
  Kind kind = Kind::kPrefill;
  std::int64_t tokens = 0;  // of each sequence
  std::int64_t depth = 0;   // tokens already in the cache
  int batch = 1;            // of decode: sequences at once
  enum class Depth : std::uint8_t { kOwn, kShared };
  Depth of = Depth::kOwn;  // whether all sequences stand behind the same `depth` tokens
};

// Of the repeats' values.
struct Spread {
  double least = 0;
  double median = 0;
  double most = 0;
};
Spread spread_of(std::vector<double> values);  // REQUIRES: not empty

// A prompt that has nothing in common with that of another seed.
std::vector<TokenId> random_tokens(const Model& model, std::int64_t count, std::uint64_t seed);

struct BenchResult {
  BenchTest test;
  std::vector<double> seconds;   // one a repeat
  double median_seconds = 0;     // for all of the test's tokens
  double tokens_per_second = 0;  // from the median, of all sequences
  double bytes_per_token = 0;    // weights and cached rows that a step reads, over its tokens
  double flops_per_token = 0;    // of the matrix products and of attention
  // What bounds the test, a second: bytes read for decode, multiply-adds for prefill. One reading before the first
  // repeat, and one after each; none where the limit is not known.
  std::vector<double> limits;
  std::vector<double> shares;  // one a repeat: of the mean of the readings before and after it; none without limits
};

class Bench {
 public:
  // Without `limits` (of a machine that is not measured) there are no shares.
  Bench(Backend& backend, Model& model, EngineConfig config, Limits* limits)
      : backend_(backend), model_(model), config_(std::move(config)), limits_(limits) {}

  // Every repeat uses other tokens, so that none finds its predecessor's in the cache; a first, unmeasured repeat
  // warms up. `after_each` is told of every repeat.
  BenchResult run(const BenchTest& test, int repeats, const std::function<void()>& after_each);

 private:
  double once(Engine& engine, const BenchTest& test, std::uint64_t seed) const;
  double decode(Engine& engine, const BenchTest& test, std::uint64_t seed) const;
  EngineConfig config_for(const BenchTest& test) const;
  double limit_of(BenchTest::Kind kind);  // 0: not known
  void count_work(BenchResult& result) const;

  Backend& backend_;
  Model& model_;
  EngineConfig config_;
  Limits* limits_;
};

}  // namespace kvasir
