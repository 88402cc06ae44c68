#include "eval/stream.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/make_backend.h"
#include "base/error.h"
#include "eval/divergence.h"
#include "eval/policy_engine.h"
#include "eval/reader.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

class StreamTest : public ::testing::Test {
 protected:
  StreamTest() {
    for (int i = 0; i < 512; ++i) text_.push_back((i * 37 + i / 7) % 1000);
    plan_.opening = {0};
  }

  StreamReading reading(const std::string& policy, int chunk = 512) {
    EngineConfig config = with_policy({}, policy);
    config.scheduler.max_batch_tokens = chunk;
    return read_stream(*backend_, *model_, config, stream_tokens(text_, plan_), plan_, {});
  }
  std::vector<StreamSegment> read(const std::string& policy, int chunk = 512) {
    return reading(policy, chunk).segments;
  }
  double reread(const std::string& policy) {
    return reread_last(*backend_, *model_, with_policy({}, policy), stream_tokens(text_, plan_), plan_, {});
  }

  std::unique_ptr<Backend> backend_ = make_backend({"cpu", 1, "auto"});
  std::unique_ptr<Model> model_ = load_model(source_dir() / "models/tales-draft", *backend_, {512, {}});
  std::vector<TokenId> text_;
  StreamPlan plan_;
};

TEST_F(StreamTest, InsideTheContextItIsAnyReading) {
  plan_.tokens = 450;
  std::vector<TokenId> tokens{0};
  tokens.insert(tokens.end(), text_.begin(), text_.begin() + 449);
  Reader reader(*backend_, *model_, with_policy({}, "f16, window=100, sinks=4"), 450);
  QualitySums sums;
  reader.open(tokens, 1);
  while (reader.step([&](Position at, std::span<const float> row) {
    sums.add({surprise(row, tokens[static_cast<size_t>(at)]), 0, true});
  })) {
  }
  const auto segments = read("f16, window=100, sinks=4");
  ASSERT_EQ(segments.size(), 1U);
  EXPECT_EQ(segments[0].end, 450);
  EXPECT_EQ(segments[0].perplexity, sums.perplexity());
}

TEST_F(StreamTest, BeyondItMemoryStaysAsItIs) {
  plan_.tokens = 6000;
  plan_.segment = 1024;
  const auto segments = read("f16, window=100, sinks=4");
  ASSERT_EQ(segments.size(), 6U);
  for (const StreamSegment& segment : segments) {
    EXPECT_TRUE(std::isfinite(segment.perplexity));
    EXPECT_LE(segment.cache_bytes, (100 / 16 + 3) * 16 * 512);  // the window's blocks and the sinks'
    EXPECT_GE(segment.cache_bytes, 100 / 16 * 16 * 512);
    EXPECT_GT(segment.process_bytes, 0);
  }
  // The text begins again every 512 tokens, and the window knows nothing of that.
  for (size_t i = 2; i < 5; ++i) EXPECT_NEAR(segments[i].perplexity / segments[1].perplexity, 1, 0.01) << i;
  EXPECT_EQ(segments.back().end, 6000);
  const auto cut = read("f16, window=100, sinks=4", 64);
  EXPECT_EQ(cut.front().perplexity, segments.front().perplexity);
}

// A stream whose window has everything is read as if from scratch; one that lost its beginning is nearly so, and the
// further back a token looks the nearer.
TEST_F(StreamTest, TheLastTokensCanBeReadFromScratch) {
  plan_.tokens = 200;
  plan_.last = kRereadTokens;
  EXPECT_NEAR(reading("f16, window=250").last_perplexity, reread("f16, window=250"), 1e-3);
  plan_.tokens = 3000;
  plan_.last = 640;
  const double streamed = reading("f16, window=400, sinks=4").last_perplexity;
  const double scratch = reread("f16, window=400, sinks=4");
  EXPECT_NEAR(streamed / scratch, 1, 0.05);
  EXPECT_GT(std::abs(reread("f16, window=80, sinks=4") / scratch - 1), 0.001);  // it is the window that is read
  plan_.last = 3000;
  EXPECT_THROW(stream_tokens(text_, plan_), Error);
}

TEST_F(StreamTest, WhatMustKeepEverythingCannotStream) {
  plan_.tokens = 6000;
  EXPECT_THROW(read("f16"), Error);
  EXPECT_THROW(read("f16, window=2048, sinks=1"), Error);
  plan_.tokens = 1;
  EXPECT_THROW(read("f16, window=100"), Error);
}

}  // namespace
}  // namespace kvasir::testing
