// A source beside a text: its blocks are written once, found together or not at all, shared, evicted and written
// again.
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "base/hash.h"
#include "kv/cache.h"

namespace kvasir {
namespace {

using Text = std::vector<TokenId>;
using Keeps = CacheGroupConfig::Keeps;

constexpr int kSize = 4;

// Rows of the text, and of the source in blocks twice as large.
CacheConfig config_with_source(std::int64_t pages) {
  CacheConfig config;
  config.block_tokens = kSize;
  config.policy.groups = {{{}, 64}, {{}, 128, Keeps::kSource}};
  config.pages = {in_order(pages), 128};
  return config;
}

Text source_of(std::int64_t length, TokenId first = 100) {
  Text text(static_cast<size_t>(length));
  std::iota(text.begin(), text.end(), first);
  return text;
}

OpenContext asking_of(const Text& source, std::uint32_t tenant = 0) {
  Tenant owner{tenant, {}};
  owner.secret.bytes.fill(static_cast<std::uint8_t>(tenant));
  return {owner, 1, 0, std::nullopt, source};
}

// What a model does: rows of the text, and of the source if the cache lacks them.
void answer(KvCache& cache, KvLease& lease, const Text& tokens) {
  ASSERT_TRUE(cache.reserve(lease, std::ssize(tokens)));
  cache.take_copies();
  cache.commit_source(lease);
  cache.commit(lease, tokens);
  ASSERT_EQ(cache.problem(), std::nullopt);
}

ReuseReport ask(KvCache& cache, const Text& source, std::uint32_t tenant = 0) {
  KvCache::Opened opened = cache.open(Text{0}, asking_of(source, tenant));
  answer(cache, opened.lease, {0});
  return opened.report;
}

TEST(Source, IsFoundWholeOrNotAtAll) {
  KvCache cache(config_with_source(64));
  for (const std::int64_t length : {1, 4, 5, 11}) {
    const Text source = source_of(length, static_cast<TokenId>(100 * length));
    EXPECT_EQ(ask(cache, source).source_reused, 0);
    const ReuseReport again = ask(cache, source);
    EXPECT_EQ(again.source_reused, length);
    EXPECT_EQ(again.source_tokens, length);
    EXPECT_EQ(again.source_stop, ReuseStop::kWholePrompt);
    EXPECT_EQ(ask(cache, source, 1).source_reused, 0) << "another tenant's";
    Text longer = source;
    longer.push_back(7);
    EXPECT_EQ(ask(cache, longer).source_reused, 0);
    longer.back() = 8;
    EXPECT_EQ(ask(cache, longer).source_reused, 0);
  }
}

// All of its blocks are held at once, by all who have it, and the text's are behind it alone.
TEST(Source, IsSharedAndTheTextStandsBehindIt) {
  KvCache cache(config_with_source(64));
  const Text source = source_of(11);
  const Text text = source_of(9, 0);
  KvCache::Opened first = cache.open(text, asking_of(source));
  answer(cache, first.lease, text);
  EXPECT_EQ(cache.pool(1).held(), 3);
  KvCache::Opened second = cache.open(text, asking_of(source));
  EXPECT_EQ(second.report.source_reused, 11);
  EXPECT_EQ(second.report.reused_tokens, 8);
  EXPECT_FALSE(second.lease.lacks_source());
  EXPECT_EQ(cache.pool(1).held(), 3);
  EXPECT_TRUE(cache.holds_source(asking_of(source)));
  EXPECT_FALSE(cache.holds_source(asking_of(source_of(12))));
  EXPECT_EQ(cache.open(text, asking_of(source_of(12))).report.reused_tokens, 0);
  EXPECT_EQ(cache.open(text, {}).report.reused_tokens, 0);
}

// Two computed it at the same time: one copy stays, whoever is told first.
TEST(Source, WrittenTwiceIsKeptOnce) {
  KvCache cache(config_with_source(64));
  const Text source = source_of(6);
  KvCache::Opened one = cache.open(Text{0}, asking_of(source));
  KvCache::Opened two = cache.open(Text{0}, asking_of(source));
  answer(cache, one.lease, {0});
  answer(cache, two.lease, {0});
  EXPECT_EQ(cache.pool(1).held(), 2);
  EXPECT_EQ(cache.stats().deduplicated_blocks, 2);
}

TEST(Source, GoneAtOnceWhenPartOfItIsEvicted) {
  KvCache cache(config_with_source(6));
  const Text source = source_of(11);
  ask(cache, source);
  EXPECT_EQ(cache.pool(1).held(), 0);
  EXPECT_EQ(cache.open(Text{0}, asking_of(source)).lease.table(1).size(), 3);
  const std::int64_t before = cache.stats().evicted_blocks;
  for (TokenId other = 200; cache.stats().evicted_blocks == before; other += 100) ask(cache, source_of(4, other));
  EXPECT_EQ(cache.stats().evicted_blocks, before + 1);
  {
    const KvCache::Opened opened = cache.open(Text{0}, asking_of(source));
    EXPECT_EQ(opened.report.source_stop, ReuseStop::kEvicted);
    EXPECT_EQ(opened.report.source_reused, 0);
    EXPECT_EQ(opened.lease.table(1).size(), 0);
  }
  EXPECT_EQ(ask(cache, source).source_reused, 0);
  EXPECT_EQ(ask(cache, source).source_reused, 11);
}

TEST(Source, NeedsRoomForAllOfItAndItsTenantPays) {
  KvCache cache(config_with_source(4));
  EXPECT_TRUE(cache.fits_alone({kSize, 3 * kSize}));
  EXPECT_FALSE(cache.fits_alone({kSize, 3 * kSize + 1}));
  EXPECT_FALSE(cache.fits_alone({3 * kSize, 3 * kSize}));
  KvCache::Opened opened = cache.open(Text{0}, asking_of(source_of(13), 1));
  EXPECT_FALSE(cache.reserve(opened.lease, 1));
  opened = cache.open(Text{0}, asking_of(source_of(12), 1));
  EXPECT_TRUE(cache.reserve(opened.lease, 1));
  EXPECT_EQ(cache.tenant_stats(1).bytes, 3 * 128 + 64);
  cache.commit_source(opened.lease);
  cache.commit(opened.lease, Text{0});
  EXPECT_EQ(cache.shortage(0, 1, {1, 0, 0, kSize}), KvCache::Shortage::kPool);
  EXPECT_EQ(cache.shortage(0, 1, {1, 0, 0, 0}), KvCache::Shortage::kNone);
  cache.set_share(1, {0, 0.5, 1});
  opened.lease = KvLease();
  EXPECT_EQ(cache.shortage(0, 1, {1, 0, 0, 3 * kSize}), KvCache::Shortage::kQuota);
  EXPECT_TRUE(cache.fits_alone({kSize, kSize}, {0, 0.5, 1}));
  EXPECT_FALSE(cache.fits_alone({kSize, 2 * kSize}, {0, 0.5, 1}));
}

// At its beginning a text has no rows, and nothing of its source either.
TEST(Source, IsGivenBackWithAllOfTheText) {
  KvCache cache(config_with_source(64));
  KvCache::Opened opened = cache.open(Text{0}, asking_of(source_of(6)));
  answer(cache, opened.lease, {0, 1, 2, 3, 4, 5});
  cache.truncate(opened.lease, 3);
  EXPECT_FALSE(opened.lease.lacks_source());
  EXPECT_EQ(opened.lease.table(1).size(), 2);
  cache.truncate(opened.lease, 0);
  EXPECT_TRUE(opened.lease.lacks_source());
  EXPECT_EQ(opened.lease.table(1).size(), 0);
  EXPECT_EQ(cache.problem(), std::nullopt);
}

// Whatever happens to leases in a pool that is too small, a source that is told to be written holds what was written.
TEST(Source, WhatIsHeldIsWhatWasWritten) {
  KvCache cache(config_with_source(14));
  struct Held {
    KvLease lease;
    Text text;
    TokenId source = 0;
  };
  std::vector<Held> held;
  std::map<std::pair<size_t, BlockId>, Text> bytes;  // by group and block
  const auto bytes_of = [](const Text& text, std::int64_t block) {
    const auto begin = text.begin() + block * kSize;
    return Text(begin, begin + std::min<std::int64_t>(kSize, text.end() - begin));
  };
  const auto check = [&] {
    ASSERT_EQ(cache.problem(), std::nullopt);
    for (const Held& one : held) {
      const Text source = source_of(3 + one.source % 11, 100 * one.source);
      for (std::int64_t b = 0; !one.lease.lacks_source() && b < one.lease.table(1).size(); ++b) {
        ASSERT_EQ(bytes[std::pair(size_t{1}, one.lease.table(1).at(b))], bytes_of(source, b));
      }
      for (std::int64_t b = 0; b * kSize < one.lease.length(); ++b) {
        const Text now(one.lease.tokens().begin(), one.lease.tokens().end());
        Text there = bytes[std::pair(size_t{0}, one.lease.table(0).at(b))];
        there.resize(bytes_of(now, b).size());
        ASSERT_EQ(there, bytes_of(now, b));
      }
    }
  };
  std::int64_t hits = 0;
  std::int64_t misses = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const auto pick = [&](std::uint64_t of, std::uint64_t most) { return mix(of, i, 5) % most; };
    if (held.size() < 3 || (pick(1, 4) == 0 && held.size() < 6)) {
      const auto source = static_cast<TokenId>(1 + pick(2, 5));
      const Text tokens = source_of(3 + source % 11, 100 * source);
      const Text text = source_of(1 + static_cast<std::int64_t>(pick(3, 9)), 0);
      KvCache::Opened opened = cache.open(text, asking_of(tokens));
      (opened.report.source_reused > 0 ? hits : misses) += 1;
      held.push_back({std::move(opened.lease), text, source});
    } else if (pick(4, 5) == 0) {
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(pick(5, held.size())));
    } else if (pick(4, 5) == 1) {
      const Held& from = held[pick(6, held.size())];
      held.push_back({cache.fork(from.lease), from.text, from.source});
    } else {
      Held& one = held[pick(7, held.size())];
      const Text more = source_of(1 + static_cast<std::int64_t>(pick(8, 6)), static_cast<TokenId>(50 + pick(9, 2)));
      if (cache.reserve(one.lease, std::ssize(more))) {
        for (const BlockCopy& copy : cache.take_copies())
          bytes[std::pair(copy.group, copy.to)] = bytes[std::pair(copy.group, copy.from)];
        const Text source = source_of(3 + one.source % 11, 100 * one.source);
        for (std::int64_t b = 0; one.lease.lacks_source() && b < one.lease.table(1).size(); ++b)
          bytes[std::pair(size_t{1}, one.lease.table(1).at(b))] = bytes_of(source, b);
        for (std::int64_t t = 0; t < std::ssize(more); ++t) {
          const std::int64_t at = one.lease.length() + t;
          Text& block = bytes[std::pair(size_t{0}, one.lease.table(0).at(at / kSize))];
          block.resize(static_cast<size_t>(at % kSize));
          block.push_back(more[static_cast<size_t>(t)]);
        }
        if (pick(10, 8) > 0) cache.commit_source(one.lease);  // else the step failed
        cache.commit(one.lease, more);
      } else {
        held.erase(held.begin());
      }
    }
    check();
    if (HasFatalFailure()) FAIL() << "after " << i;
  }
  EXPECT_GT(hits, 100);
  EXPECT_GT(misses, 100);
  EXPECT_GT(cache.stats().evicted_blocks, 100);
}

}  // namespace
}  // namespace kvasir
