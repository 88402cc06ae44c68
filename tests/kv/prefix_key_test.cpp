// A key that stands before a text (OpenContext::after): what is cached behind one is found behind the same alone.
#include <gtest/gtest.h>

#include <map>

#include "base/hash.h"
#include "kv/cache.h"

namespace kvasir {
namespace {

using Text = std::vector<TokenId>;

CacheConfig config_of(std::vector<Text> public_texts = {}) {
  CacheConfig config;
  config.block_tokens = 4;
  config.policy.groups.push_back({{}, 1});
  config.pages = {in_order(100'000), 1};
  config.public_texts = std::move(public_texts);
  return config;
}

std::optional<Key256> key_of(std::uint64_t number) {
  if (number == 0) return std::nullopt;
  Key256 key;
  key.bytes.fill(static_cast<std::uint8_t>(number));
  return key;
}

Position write(KvCache& cache, const Text& text, const OpenContext& context) {
  KvCache::Opened opened = cache.open(text, context);
  const auto rest = std::span(text).subspan(static_cast<size_t>(opened.lease.length()));
  EXPECT_TRUE(cache.reserve(opened.lease, std::ssize(rest)));
  cache.take_copies();
  cache.commit(opened.lease, rest);
  return opened.report.reused_tokens;
}

// Texts that begin alike, of two tenants, behind three keys and behind none: each finds what it would find in a cache
// that has seen its tenant's texts behind its key and no other.
TEST(PrefixKey, IsACacheOfItsOwn) {
  KvCache shared(config_of());
  std::map<std::uint64_t, KvCache> apart;
  std::int64_t found = 0;
  for (std::uint64_t i = 0; i < 800; ++i) {
    const std::uint64_t key = mix(1, i, 0) % 4;
    const std::uint64_t tenant = mix(2, i, 0) % 2;
    Tenant owner;
    owner.secret.bytes.fill(static_cast<std::uint8_t>(tenant));
    Text text;
    for (std::uint64_t t = 0; t < 1 + mix(3, i, 0) % 30; ++t) text.push_back(static_cast<TokenId>(mix(4, i, t) % 2));
    const OpenContext context{owner, i, 0, key_of(key)};
    KvCache& own = apart.try_emplace(10 * tenant + key, config_of()).first->second;
    const Position expected = own.reusable(text, {owner});
    ASSERT_EQ(shared.reusable(text, context), expected);
    ASSERT_EQ(write(own, text, {owner}), expected);
    ASSERT_EQ(write(shared, text, context), expected);
    found += expected;
  }
  EXPECT_GT(found, 1000);
  EXPECT_EQ(apart.size(), 8U);
  EXPECT_EQ(shared.problem(), std::nullopt);
}

TEST(PrefixKey, NamesEveryBlock) {
  const KvCache cache(config_of());
  const Text text(40, 7);
  const std::vector<Key256> none = cache.block_keys(text, {});
  const std::vector<Key256> one = cache.block_keys(text, {{}, 0, 0, key_of(1)});
  const std::vector<Key256> two = cache.block_keys(text, {{}, 0, 0, key_of(2)});
  ASSERT_EQ(none.size(), 9U);
  EXPECT_EQ(one, cache.block_keys(text, {{}, 5, 0, key_of(1)}));
  for (size_t i = 0; i < none.size(); ++i) {
    EXPECT_NE(none[i], one[i]);
    EXPECT_NE(one[i], two[i]);
  }
}

// A public text behind a key is another text: it is nobody's but the tenant's.
TEST(PrefixKey, NoTextBehindAKeyIsPublic) {
  const Text text(20, 3);
  KvCache cache(config_of({text}));
  write(cache, text, {});
  Tenant other;
  other.id = 1;
  other.secret.bytes.fill(9);
  EXPECT_EQ(cache.open(text, {other}).report.public_tokens, 19);
  const KvCache::Opened keyed = cache.open(text, {other, 0, 0, key_of(1)});
  EXPECT_EQ(keyed.report.reused_tokens, 0);
  EXPECT_EQ(keyed.report.public_tokens, 0);
}

TEST(PrefixKey, AForkStandsBehindTheSame) {
  KvCache cache(config_of());
  const Text text(20, 3);
  KvLease lease = cache.open(text, {{}, 0, 0, key_of(1)}).lease;
  ASSERT_TRUE(cache.reserve(lease, 20));
  cache.commit(lease, text);
  KvLease fork = cache.fork(lease);
  const Text more{1, 2, 3, 4};
  ASSERT_TRUE(cache.reserve(fork, 4));
  cache.commit(fork, more);
  Text all = text;
  all.insert(all.end(), more.begin(), more.end());
  all.push_back(1);
  EXPECT_EQ(cache.reusable(all, {{}, 0, 0, key_of(1)}), 24);
  EXPECT_EQ(cache.reusable(all, {}), 0);
}

}  // namespace
}  // namespace kvasir
