#include "kv/eviction.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "kv/cache.h"

namespace kvasir {
namespace {

using Text = std::vector<TokenId>;

constexpr int kBlockOfTwo = 2;

class Shelf {
 public:
  Shelf(const std::string& policy, std::int64_t blocks, RecomputeCost cost = {1, 0})
      : cache(config(policy, blocks, cost)) {}

  // Opens a text and writes what is missing; its blocks stay when it goes.
  void use(const Text& text) { hold(text); }

  KvLease hold(const Text& text) {
    KvLease lease = cache.open(text, {}).lease;
    const auto rest = std::span(text).subspan(static_cast<size_t>(lease.length()));
    EXPECT_TRUE(cache.reserve(lease, std::ssize(rest)));
    cache.take_copies();
    cache.commit(lease, rest);
    EXPECT_EQ(cache.problem(), std::nullopt);
    return lease;
  }

  // Whole blocks of the text that are cached, found without touching them: a copy of the index's answer.
  std::int64_t cached(Text text) {
    text.push_back(0);
    return cache.open(text, {}).report.reused_tokens / kBlockOfTwo;
  }

  static CacheConfig config(const std::string& policy, std::int64_t blocks, RecomputeCost cost) {
    CacheConfig out;
    out.block_tokens = kBlockOfTwo;
    out.policy.groups.push_back({{}, 64});
    out.pages = {in_order(blocks), 64};
    out.eviction = policy;
    out.recompute = cost;
    return out;
  }

  KvCache cache;
};

Text block(TokenId name) { return {name, name}; }

Text chain(TokenId name, int blocks) {
  Text text;
  for (int i = 0; i < blocks; ++i) text.insert(text.end(), {name, i});
  return text;
}

TEST(Eviction, LruLetsTheLeastRecentlyUsedGo) {
  Shelf shelf("lru", 3);
  for (const TokenId name : {1, 2, 3}) shelf.use(block(name));
  EXPECT_EQ(shelf.cached(block(1)), 1);  // a look is a use
  shelf.use(block(4));
  EXPECT_EQ(shelf.cached(block(2)), 0);
  EXPECT_EQ(shelf.cached(block(1)), 1);
  EXPECT_EQ(shelf.cached(block(3)), 1);
}

TEST(Eviction, FifoLetsTheFirstPublishedGoHoweverOftenItIsUsed) {
  Shelf shelf("fifo", 3);
  for (const TokenId name : {1, 2, 3}) shelf.use(block(name));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(shelf.cached(block(1)), 1);
  shelf.use(block(4));
  EXPECT_EQ(shelf.cached(block(1)), 0);
  EXPECT_EQ(shelf.cached(block(2)), 1);
  shelf.use(block(5));
  EXPECT_EQ(shelf.cached(block(2)), 0);
  EXPECT_EQ(shelf.cached(block(3)), 1);
}

TEST(Eviction, WhatIsHeldStaysUnderEveryPolicy) {
  for (const char* policy : {"lru", "fifo", "cost"}) {
    Shelf shelf(policy, 3);
    const KvLease held = shelf.hold(block(1));
    for (TokenId name = 2; name < 20; ++name) shelf.use(block(name));
    EXPECT_EQ(shelf.cached(block(1)), 1) << policy;
  }
}

TEST(Eviction, AChainGoesFromItsEndUnderEveryPolicy) {
  for (const char* policy : {"lru", "fifo", "cost"}) {
    Shelf shelf(policy, 5, {1, 1});
    shelf.use(chain(1, 5));
    std::vector<KvLease> held;
    for (TokenId name = 2; name < 7; ++name) {
      held.push_back(shelf.hold(block(name)));
      EXPECT_EQ(shelf.cached(chain(1, 5)), 6 - name) << policy;
    }
  }
}

TEST(Eviction, AStartIsKeptForTheBranchThatIsLeft) {
  Shelf shelf("lru", 4);
  shelf.use({0, 0, 1, 1});
  shelf.use({0, 0, 2, 2});
  const KvLease one = shelf.hold(block(7));  // the last free block
  const KvLease two = shelf.hold(block(8));
  EXPECT_EQ(shelf.cached({0, 0, 1, 1}), 1);
  EXPECT_EQ(shelf.cached({0, 0, 2, 2}), 2);
}

// The same age, and the deeper one is dearer to compute again.
TEST(Eviction, CostKeepsADeepTextLongerThanAShallowOneOfTheSameAge) {
  Shelf shelf("cost", 10, {1, 1});
  shelf.use(chain(1, 8));
  for (const TokenId name : {2, 3}) shelf.use(block(name));
  shelf.use(block(4));
  EXPECT_EQ(shelf.cached(chain(1, 8)), 8);
  EXPECT_EQ(shelf.cached(block(2)), 0);  // younger than the chain, and gone before it
  Shelf lru("lru", 10, {1, 1});
  lru.use(chain(1, 8));
  for (const TokenId name : {2, 3, 4}) lru.use(block(name));
  EXPECT_EQ(lru.cached(chain(1, 8)), 7);  // where lru takes the chain's end
}

TEST(Eviction, CostLetsEvenTheDearestGoInTheEnd) {
  Shelf shelf("cost", 10, {1, 1});
  shelf.use(chain(1, 8));
  int texts = 0;
  for (TokenId name = 100; shelf.cache.stats().evicted_blocks < 500; ++name, ++texts) shelf.use(block(name));
  const CacheStats before = shelf.cache.stats();
  EXPECT_EQ(shelf.cached(chain(1, 8)), 0);
  EXPECT_EQ(shelf.cache.stats().hit_tokens, before.hit_tokens);
}

TEST(Eviction, PrioritiesOfThePolicies) {
  constexpr std::uint64_t kInUse = std::uint64_t{1} << 63;
  const BlockUse use{3, 9, 640, 64};
  EXPECT_EQ(make_eviction_policy("lru")->priority(use), kInUse + 9);
  EXPECT_EQ(make_eviction_policy("fifo")->priority(use), kInUse + 3);
  const auto cost = make_eviction_policy("cost");
  EXPECT_EQ(cost->priority(use), kInUse + (10U << 16));
  cost->evicted(kInUse + 1000);
  EXPECT_EQ(cost->priority(use), kInUse + 1000 + (10U << 16));
  cost->evicted(kInUse + 5);  // the floor never sinks
  EXPECT_EQ(cost->priority(use), kInUse + 1000 + (10U << 16));
  EXPECT_EQ(cost->priority({0, 0, 1, 0}), kInUse + 1000 + (1U << 16));  // no bytes divide nothing by zero
}

TEST(Eviction, WhatIsSupersededGoesBeforeAllElseUnderEveryPolicy) {
  for (const char* name : {"lru", "fifo", "cost"}) {
    const auto policy = make_eviction_policy(name);
    const std::uint64_t least = policy->priority({0, 0, 0, 1});
    const std::uint64_t dear = policy->priority({1 << 20, 1 << 20, std::uint64_t{1} << 62, 1, true});
    EXPECT_LT(dear, least) << name;
    policy->evicted(dear);  // which raises no floor
    EXPECT_EQ(policy->priority({0, 0, 0, 1}), least) << name;
  }
}

TEST(Eviction, EveryPolicyKnowsItsName) {
  for (const char* name : {"lru", "fifo", "cost"}) EXPECT_EQ(make_eviction_policy(name)->name(), name);
}

TEST(Eviction, AnUnknownPolicyIsAnErrorThatListsTheKnown) {
  try {
    make_eviction_policy("random");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kUsage);
    EXPECT_STREQ(error.what(), "--eviction: 'random' is not an eviction policy; use lru, fifo or cost");
  }
  EXPECT_THROW(Shelf("", 1), Error);
}

}  // namespace
}  // namespace kvasir
