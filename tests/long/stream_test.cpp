// 100,000 tokens as one sequence, fifty times what the shipped model was trained for.
#include "eval/stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "api/gguf_tokenizer.h"
#include "backend/make_backend.h"
#include "eval/policy_engine.h"
#include "support/fixtures.h"
#include "text/tokenizer.h"

namespace kvasir::testing {
namespace {

TEST(LongStream, MemoryStaysAndTheLastTokensAreAsGoodAsFromScratch) {
  const auto backend = make_backend({"cpu", 2, "auto"});
  const auto model = load_model(source_dir() / "models/tales", *backend, {512, {}});
  const Tokenizer tokenizer = load_tokenizer(source_dir() / "models/tales");
  std::ifstream file(source_dir() / "models/held-out.txt");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  StreamPlan plan;
  plan.tokens = 100'000;
  plan.last = 10'000;
  plan.opening = {0};
  const std::vector<TokenId> tokens = stream_tokens(tokenizer.encode(text, Tokenizer::Specials::kParse), plan);
  const EngineConfig config = with_policy({}, "f16, window=1020, sinks=4");
  const StreamReading reading = read_stream(*backend, *model, config, tokens, plan, {});
  ASSERT_GE(reading.segments.size(), 9U);
  const StreamSegment& first = reading.segments.front();
  for (const StreamSegment& segment : reading.segments) {
    EXPECT_EQ(segment.cache_bytes, first.cache_bytes) << segment.end;
    EXPECT_LT(segment.process_bytes, first.process_bytes + (4 << 20)) << segment.end;
  }
  const double scratch = reread_last(*backend, *model, config, tokens, plan, {});
  EXPECT_NEAR(reading.last_perplexity / scratch, 1, 0.02);
}

}  // namespace
}  // namespace kvasir::testing
