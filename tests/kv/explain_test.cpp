// Each reason why a prompt was not reused further, and the exact token where that was.
#include "kv/explain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "kv/world.h"

namespace kvasir {
namespace {

using Text = World::Text;

constexpr int kBlockOfFour = 4;

// first, first + 1, …: `count` tokens.
Text run(TokenId first, int count) {
  Text out(static_cast<size_t>(count));
  std::iota(out.begin(), out.end(), first);
  return out;
}

Text operator+(Text a, const Text& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

World world_of(std::vector<WorldConfig::Group> groups) {
  WorldConfig config;
  config.block_tokens = kBlockOfFour;
  config.groups = std::move(groups);
  return World(config);
}

void cache_text(World& world, const Text& text) {
  world.open(text, 0);
  const size_t last = world.leases() - 1;
  for (size_t i = world.text(last).size(); i < text.size(); ++i) ASSERT_TRUE(world.write(last, {text[i]}));
  world.release(last);
}

void expect_stop(World& world, const Text& prompt, ReuseStop stop, std::int64_t at) {
  const ReuseReport report = world.open(prompt, 0);
  EXPECT_EQ(name_of(report.stop), name_of(stop));
  EXPECT_EQ(report.reused_tokens, at);
  EXPECT_EQ(report.stopped_at, at);
  EXPECT_EQ(report.prompt_tokens, std::ssize(prompt));
  EXPECT_EQ(report.evicted_tick > 0, stop == ReuseStop::kEvicted);
  world.release(world.leases() - 1);
  EXPECT_EQ(world.wrong(), "");
}

TEST(Explain, AnEmptyCacheHasNeverSeenThePrompt) {
  World world = world_of({{{}, 8}});
  expect_stop(world, run(0, 9), ReuseStop::kNeverSeen, 0);
}

TEST(Explain, WhatFollowsACachedTextWasNeverSeen) {
  World world = world_of({{{}, 8}});
  cache_text(world, run(0, 8));
  expect_stop(world, run(0, 8) + run(100, 5), ReuseStop::kNeverSeen, 8);
}

TEST(Explain, ARestThatFillsNoBlockIsAShortTail) {
  World world = world_of({{{}, 8}});
  cache_text(world, run(0, 8));
  expect_stop(world, run(0, 8) + run(100, 3), ReuseStop::kShortTail, 8);
  expect_stop(world, run(0, 8) + run(100, 2), ReuseStop::kShortTail, 8);
}

TEST(Explain, TheWholePromptIsAllButItsLastToken) {
  World world = world_of({{{}, 8}});
  cache_text(world, run(0, 12));
  for (int tokens = 1; tokens <= 12; ++tokens) {
    expect_stop(world, run(0, tokens), ReuseStop::kWholePrompt, tokens - 1);
  }
  expect_stop(world, run(0, 12) + run(100, 1), ReuseStop::kWholePrompt, 12);
}

TEST(Explain, DivergenceIsFoundToTheToken) {
  for (int same = 0; same < 12; ++same) {
    World world = world_of({{{}, 8}});
    cache_text(world, run(0, 12));
    expect_stop(world, run(0, same) + run(100, 8), ReuseStop::kDiverged, same);
  }
}

TEST(Explain, DivergenceIsFromTheNearestOfManyTexts) {
  World world = world_of({{{}, 8}});
  cache_text(world, run(0, 4) + run(100, 4));
  cache_text(world, run(0, 6) + run(200, 2));
  cache_text(world, run(0, 5) + run(300, 3));
  expect_stop(world, run(0, 12), ReuseStop::kDiverged, 6);
}

TEST(Explain, AnEvictedBlockIsNamedWithItsTime) {
  World world = world_of({{{}, 3}});
  cache_text(world, run(0, 12));
  cache_text(world, run(100, 4));  // takes the end of the first
  expect_stop(world, run(0, 13), ReuseStop::kEvicted, 8);
  cache_text(world, run(200, 8));  // and then its middle
  expect_stop(world, run(0, 13), ReuseStop::kEvicted, 4);
}

TEST(Explain, ABlockThatOneGroupEvictedIsEvicted) {
  World world = world_of({{{}, 5}, {{}, 6}});
  cache_text(world, run(0, 16));
  cache_text(world, run(100, 8));  // the first group gives up the end of the first text, the second group nothing
  expect_stop(world, run(0, 17), ReuseStop::kEvicted, 12);
  expect_stop(world, run(0, 13) + run(200, 4), ReuseStop::kEvicted, 12);  // as far as they agree
}

TEST(Explain, AWindowThatLostItsBlocksDroppedTheHit) {
  World world = world_of({{{}, 5}, {{kBlockOfFour, 0}, 6}});
  world.open(run(0, 33), 0);
  for (TokenId i = 0; i < 8; ++i) ASSERT_TRUE(world.write(0, run(kBlockOfFour * i, kBlockOfFour)));
  world.release(0);  // the first group needed eight of the eleven blocks: it got what the window had let go
  expect_stop(world, run(0, 33), ReuseStop::kWholePrompt, 32);
  expect_stop(world, run(0, 9) + run(200, 4), ReuseStop::kWindowDropped, 0);
}

TEST(Explain, WhatIsCachedUnderAnotherPolicyIsSaidToBe) {
  WorldConfig config{kBlockOfFour, {{{}, 16}}, "lru", WorldConfig::Copies::kEager, 0};
  config.more_policies = {{{{}, 0, 512}}, {{{8, 0}, 0, 256}}};
  World world(config);
  cache_text(world, run(0, 12));
  const ReuseReport other = world.open(run(0, 12), 0, 1);
  EXPECT_EQ(other.stop, ReuseStop::kOtherPolicy);
  EXPECT_EQ(other.reused_tokens, 0);
  EXPECT_NE(describe(other).find("under another KV policy"), std::string::npos) << describe(other);
  EXPECT_EQ(world.open(run(50, 12), 0, 2).stop, ReuseStop::kNeverSeen);
  EXPECT_EQ(world.open(run(0, 12), 1, 1).stop, ReuseStop::kNeverSeen);  // another tenant's is not told
  EXPECT_EQ(world.open(run(0, 13), 0).stop, ReuseStop::kWholePrompt);
  EXPECT_EQ(world.wrong(), "");
}

TEST(Explain, AWindowAloneDoesNotBlameItselfForWhatWasNeverSeen) {
  World world = world_of({{{kBlockOfFour, 0}, 8}});
  expect_stop(world, run(0, 17), ReuseStop::kNeverSeen, 0);
  cache_text(world, run(0, 8));
  expect_stop(world, run(0, 8) + run(100, 9), ReuseStop::kNeverSeen, 8);
  expect_stop(world, run(0, 6) + run(100, 9), ReuseStop::kDiverged, 6);
}

TEST(Explain, AWindowNeedsOnlyItsLastBlocksToHit) {
  World world = world_of({{{kBlockOfFour, 0}, 3}});
  cache_text(world, run(0, 24));
  expect_stop(world, run(0, 25), ReuseStop::kWholePrompt,
              24);  // the start is long gone, and nobody misses it
}

TEST(Explain, ACacheSwitchedOffSaysSo) {
  CacheConfig config;
  config.block_tokens = kBlockOfFour;
  config.policy.groups.push_back({{}, 1});
  config.pages = {in_order(8), 1};
  config.reuse = CacheConfig::Reuse::kOff;
  KvCache cache(config);
  for (int i = 0; i < 2; ++i) {
    KvCache::Opened opened = cache.open(run(0, 9), {});
    EXPECT_EQ(opened.report.stop, ReuseStop::kOff);
    EXPECT_EQ(opened.report.stopped_at, 0);
    EXPECT_EQ(opened.report.reused_tokens, 0);
    ASSERT_TRUE(cache.reserve(opened.lease, 9));
    cache.commit(opened.lease, run(0, 9));
  }
  EXPECT_EQ(cache.stats().published_blocks, 0);
  EXPECT_EQ(cache.pool(0).free_blocks(), 8);
}

TEST(Explain, DescribeIsOneSentence) {
  EXPECT_EQ(describe({61, 48, ReuseStop::kDiverged, 48, 0}),
            "48 of 61 prompt tokens reused; stopped at token 48: the nearest cached text differs there");
  EXPECT_EQ(describe({9, 0, ReuseStop::kNeverSeen, 0, 0}),
            "0 of 9 prompt tokens reused; stopped at token 0: what follows was never cached");
  ReuseReport state{100, 32, ReuseStop::kStateBefore, 32};
  state.rows_upto = 96;
  EXPECT_EQ(
      describe(state),
      "32 of 100 prompt tokens reused; stopped at token 32: the nearest state of recurrent layers that was kept "
      "lies there, and the 64 tokens behind it are computed again, though their rows are cached: a breakpoint at "
      "token 96, or a larger --state-budget, would have kept one");
  state.evicted_seconds_ago = 2;
  state.state_loss = StateLoss::kEvicted;
  EXPECT_TRUE(describe(state).ends_with(
      "though their rows are cached: the state at token 96 was evicted because the shared pool was full, 2.0 s ago; "
      "more --kv-memory would have kept it"));
  state.state_loss = StateLoss::kSuperseded;
  EXPECT_TRUE(
      describe(state).ends_with("though their rows are cached: the state at token 96 made way 2.0 s ago, since a "
                                "later one of the same text had "
                                "been kept; a breakpoint there would have kept it"));
  EXPECT_EQ(name_of(StateLoss::kNeverKept), "never_kept");
  EXPECT_EQ(name_of(StateLoss::kEvicted), "evicted");
  EXPECT_EQ(name_of(StateLoss::kSuperseded), "superseded");
}

TEST(Explain, EveryReasonHasANameAndASentenceOfItsOwn) {
  const std::vector<std::string> names{"whole_prompt", "short_tail", "diverged",     "evicted", "window_dropped",
                                       "state_before", "never_seen", "other_policy", "private", "off"};
  std::vector<std::string> sentences;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto stop = static_cast<ReuseStop>(i);
    EXPECT_EQ(name_of(stop), names[i]);
    sentences.push_back(describe({1, 0, stop, 0, 0}));
  }
  std::ranges::sort(sentences);
  EXPECT_EQ(std::ranges::adjacent_find(sentences), sentences.end());
}

}  // namespace
}  // namespace kvasir
