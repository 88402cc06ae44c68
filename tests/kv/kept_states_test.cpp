// States that are kept in a format of their own, in a group beside the one that is written.
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "base/hash.h"
#include "kv/cache.h"

namespace kvasir {
namespace {

using Text = std::vector<TokenId>;
using Keeps = CacheGroupConfig::Keeps;
using Stay = KvCache::Stay;

constexpr int kSize = 4;
constexpr int kStep = 8;
constexpr size_t kRowsOf = 0;
constexpr size_t kLive = 1;
constexpr size_t kKept = 2;

CacheConfig config_of(std::int64_t pages) {
  CacheConfig config;
  config.block_tokens = kSize;
  config.policy.groups = {{{}, 64}, {{}, 256, Keeps::kLiveState}, {{}, 128, Keeps::kKeptState, kStep}};
  config.pages = {in_order(pages), 256};
  return config;
}

Text ascending(std::int64_t length, TokenId first = 0) {
  Text text(static_cast<size_t>(length));
  std::iota(text.begin(), text.end(), first);
  return text;
}

// A state is a number made of the text's tokens, whose low bits are lost at each step: what is kept has no room for
// them.
constexpr std::uint64_t kLow = 0xff;

std::uint64_t next_state(std::uint64_t state, TokenId token, Position length) {
  const std::uint64_t next = mix(state, static_cast<std::uint64_t>(token) + 1, 7);
  return length % kStep == 0 ? next & ~kLow : next;
}

std::uint64_t state_of(std::span<const TokenId> text) {
  std::uint64_t state = 0;
  for (size_t i = 0; i < text.size(); ++i) state = next_state(state, text[i], static_cast<Position>(i + 1));
  return state;
}

// A cache and its states' bytes.
class Cached {
 public:
  explicit Cached(std::int64_t pages) : cache(config_of(pages)) {}

  struct Held {
    KvLease lease;
    Text text;  // what it is to become
  };

  Held open(const Text& text, ReuseReport* report = nullptr) {
    KvCache::Opened opened = cache.open(text, {});
    if (report != nullptr) *report = opened.report;
    return {std::move(opened.lease), text};
  }

  // As an engine's step does it. False: no room.
  bool write(KvLease& lease, std::span<const TokenId> tokens) {
    if (!cache.reserve(lease, std::ssize(tokens))) return false;
    copy();
    std::uint64_t& state = bytes[{kLive, lease.table(kLive).at(0)}];
    if (lease.length() == 0) state = 0;
    EXPECT_EQ(state, state_of(lease.tokens()));
    for (const TokenId token : tokens) {
      state = next_state(state, token, lease.length() + 1);
      cache.commit(lease, {&token, 1});
    }
    EXPECT_EQ(cache.problem(), std::nullopt);
    return true;
  }

  void copy() {
    for (const BlockCopy& one : cache.take_copies()) {
      const std::uint64_t from = bytes[{one.group, one.from}];
      std::uint64_t& to = bytes[{one.to_group, one.to}];
      to = one.group == one.to_group ? from : one.to_group == kKept ? from / (kLow + 1) : from * (kLow + 1);
      const bool kept = one.to_group == kKept && one.group == kLive;
      EXPECT_EQ(kept ? from & kLow : 0U, 0U);
    }
  }

  KvCache cache;
  std::map<std::pair<size_t, BlockId>, std::uint64_t> bytes;
};

TEST(KeptStates, AreFoundAndGoneOnFrom) {
  Cached cached(32);
  {
    Cached::Held first = cached.open(ascending(20));
    ASSERT_TRUE(cached.write(first.lease, ascending(4)));
    cached.cache.keep_state(first.lease, Stay::kUntilEvicted);  // between two steps: nothing is kept
    ASSERT_TRUE(cached.write(first.lease, ascending(12, 4)));
    cached.cache.keep_state(first.lease, Stay::kUntilEvicted);
    ASSERT_TRUE(cached.write(first.lease, ascending(4, 16)));
  }
  ReuseReport report;
  Cached::Held second = cached.open(ascending(20), &report);
  EXPECT_EQ(report.reused_tokens, 16);
  EXPECT_EQ(second.lease.table(kLive).size(), 0);
  EXPECT_EQ(second.lease.table(kKept).size(), 1);
  Cached::Held twin{cached.cache.fork(second.lease), {}};  // before either has room to write
  ASSERT_TRUE(cached.write(second.lease, ascending(3, 50)));
  EXPECT_EQ(second.lease.table(kKept).size(), 0);
  ASSERT_TRUE(cached.write(twin.lease, ascending(5, 60)));
  EXPECT_EQ(cached.open(ascending(7), &report).lease.length(), 0);
  EXPECT_EQ(cached.open(ascending(20), &report).lease.length(), 16);  // it was not written
}

TEST(KeptStates, WhereThereIsNoRoomNothingIsKept) {
  Cached cached(6);  // four pages of rows, one of a state that is written, and one for what is kept
  Cached::Held one = cached.open(ascending(48));
  ASSERT_TRUE(cached.write(one.lease, ascending(8)));
  cached.cache.keep_state(one.lease, Stay::kUntilEvicted);
  EXPECT_EQ(cached.cache.found_again(one.lease), 8);
  ASSERT_TRUE(cached.write(one.lease, ascending(40, 8)));
  ASSERT_TRUE(cached.write(one.lease, ascending(32, 48)));  // all that is left: what was kept goes
  cached.cache.keep_state(one.lease, Stay::kUntilEvicted);
  EXPECT_EQ(cached.cache.found_again(one.lease), 8);  // as far as it knows
  cached.copy();
  EXPECT_EQ(cached.cache.problem(), std::nullopt);
  EXPECT_EQ(cached.cache.reusable(ascending(80), {}), 0);
}

TEST(KeptStates, WhoKeepsThemForOthersHoldsNothingThatIsWritten) {
  Cached cached(32);
  Cached::Held one = cached.open(ascending(20));
  ASSERT_TRUE(cached.write(one.lease, ascending(8)));
  KvLease early = cached.cache.fork(one.lease);
  EXPECT_FALSE(cached.cache.hold_kept_states(early));
  cached.cache.keep_state(one.lease, Stay::kUntilEvicted);
  KvLease pin = cached.cache.fork(one.lease);
  EXPECT_TRUE(cached.cache.hold_kept_states(pin));
  EXPECT_EQ(pin.table(kLive).size(), 0);
  EXPECT_EQ(pin.table(kKept).size(), 1);
  EXPECT_EQ(cached.cache.problem(), std::nullopt);
  ASSERT_TRUE(cached.write(one.lease, ascending(8, 8)));
  ASSERT_TRUE(cached.write(pin, ascending(4, 70)));
}

// Texts that begin alike in too little room: who goes on from what was found has the state of its own text.
TEST(KeptStates, OfManyTextsInLittleRoom) {
  Cached cached(24);
  std::vector<Cached::Held> held;
  std::int64_t hits = 0;
  for (std::uint64_t i = 0; i < 6000; ++i) {
    const auto pick = [&](std::uint64_t of, std::uint64_t most) { return mix(of, i, 11) % most; };
    if (held.size() < 2 || (pick(1, 4) == 0 && held.size() < 5)) {
      Text text = ascending(9 + static_cast<std::int64_t>(pick(2, 40)));
      for (std::int64_t at = 4 + 8 * static_cast<std::int64_t>(pick(3, 5)); at < std::ssize(text); ++at) {
        text[static_cast<size_t>(at)] += static_cast<TokenId>(100 * pick(4, 3));
      }
      held.push_back(cached.open(text));
      hits += held.back().lease.length() > 0;
    } else if (pick(5, 6) == 0) {
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(pick(6, held.size())));
    } else if (pick(5, 6) == 1) {
      const Cached::Held& from = held[pick(7, held.size())];
      held.push_back({cached.cache.fork(from.lease), from.text});
      if (pick(8, 3) == 0) (void)cached.cache.hold_kept_states(held.back().lease);
    } else {
      Cached::Held& one = held[pick(9, held.size())];
      const auto done = static_cast<size_t>(one.lease.length());
      const size_t step = kStep - done % kStep;  // a step ends where a state is kept
      const size_t rows = std::min({one.text.size() - done, 1 + pick(10, 8), step});
      if (rows == 0 || !cached.write(one.lease, std::span(one.text).subspan(done, rows))) {
        held.erase(held.begin() + (&one - held.data()));
      } else if (one.lease.length() % kStep == 0) {
        cached.cache.keep_state(one.lease, pick(12, 3) == 0 ? Stay::kUntilNext : Stay::kUntilEvicted);
      }
    }
    ASSERT_EQ(cached.cache.problem(), std::nullopt) << i;
    if (HasFailure()) FAIL() << "at " << i;
  }
  EXPECT_GT(hits, 300);
  EXPECT_GT(cached.cache.stats().evicted_blocks, 300);
}

}  // namespace
}  // namespace kvasir
