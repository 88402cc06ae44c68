// Several answers to one prompt, prefixes that are kept, and blocks that wait in host memory.
#include <gtest/gtest.h>

#include <map>

#include "backend/make_backend.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/heard.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

class BranchesTest : public ::testing::Test {
 protected:
  OnUpdate listener() {
    return [this](const Update& update) { heard_[update.id].add(update); };
  }

  static Request request(std::int64_t prompt, std::int64_t answer) {
    Request out;
    for (std::int64_t i = 0; i < prompt; ++i) out.prompt.push_back(static_cast<TokenId>(1 + i * 7 % 90));
    out.max_tokens = answer;
    out.sampling.temperature = 1;
    return out;
  }

  std::uint64_t block_bytes(const EngineConfig& config) const {
    const KvGroup group = kv_groups(model_->config(), config.kv).front();
    return static_cast<std::uint64_t>(make_layout(group, config.block_tokens).block_bytes());
  }

  std::vector<RequestId> submit_three(Engine& engine) {
    return engine.submit(request(40, 8), listener(), {{1, listener()}, {2, listener()}});
  }

  std::unique_ptr<Backend> backend_ = make_backend({"cpu", 1, "auto"});
  std::unique_ptr<Model> model_ = load_golden("gqa", *backend_, 64);
  std::map<RequestId, Heard> heard_;
};

TEST_F(BranchesTest, CancellingTheFirstBeforeItsPromptIsComputedLeavesTheOthers) {
  Engine engine(*backend_, *model_, {});
  submit_three(engine);
  engine.run();
  const auto undisturbed = heard_;
  heard_.clear();
  const std::vector<RequestId> ids = submit_three(engine);
  engine.cancel(ids[0]);
  engine.run();
  EXPECT_EQ(heard_[ids[0]].finish, FinishReason::kCancelled);
  EXPECT_TRUE(heard_[ids[0]].tokens.empty());
  EXPECT_EQ(heard_[ids[1]].tokens, undisturbed.at(2).tokens);
  EXPECT_EQ(heard_[ids[2]].tokens, undisturbed.at(3).tokens);
  EXPECT_EQ(engine.cache().pool(0).held(), 0);
}

TEST_F(BranchesTest, AnyBranchMayBeCancelledAtAnyTimeAndHearsItOnce) {
  for (int steps = 0; steps < 6; ++steps) {
    for (size_t who = 0; who < 3; ++who) {
      Engine engine(*backend_, *model_, {});
      heard_.clear();
      const std::vector<RequestId> ids = submit_three(engine);
      for (int i = 0; i < steps; ++i) engine.step();
      engine.cancel(ids[who]);
      engine.cancel(ids[who]);
      engine.run();
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(heard_[ids[i]].finish, i == who ? FinishReason::kCancelled : FinishReason::kLength);
        EXPECT_EQ(heard_[ids[i]].ends, 1);
      }
      EXPECT_EQ(engine.cache().pool(0).held(), 0);
      EXPECT_EQ(engine.cache().problem(), std::nullopt);
    }
  }
}

TEST_F(BranchesTest, ABranchMayCancelItselfWhenItHearsItsFirstToken) {
  Engine engine(*backend_, *model_, {});
  std::vector<RequestId> ids;
  const OnUpdate fickle = [&](const Update& update) {
    heard_[update.id].finish = update.finish;
    if (update.finish == FinishReason::kNone) engine.cancel(update.id);
  };
  ids = engine.submit(request(20, 8), listener(), {{1, fickle}});
  engine.run();
  EXPECT_EQ(heard_[ids[0]].tokens.size(), 8U);
  EXPECT_EQ(heard_[ids[1]].finish, FinishReason::kCancelled);
}

TEST_F(BranchesTest, CancellingAllCancelsBranchesThatHaveNotBegun) {
  Engine engine(*backend_, *model_, {});
  const std::vector<RequestId> ids = submit_three(engine);
  engine.cancel_all();
  engine.run();
  for (const RequestId id : ids) {
    EXPECT_EQ(heard_[id].finish, FinishReason::kCancelled);
    EXPECT_TRUE(heard_[id].tokens.empty());
  }
}

TEST_F(BranchesTest, ATenantsOwnPinsDoNotShutItOutWhileOthersRun) {
  EngineConfig config;
  config.kv_bytes = 12 * block_bytes(config);
  Engine engine(*backend_, *model_, config);
  engine.set_share(1, {0, 0.4, 1});  // four blocks
  Request marked = request(60, 4);
  marked.tenant.id = 1;
  marked.tenant.secret.bytes.fill(1);
  marked.breakpoints = {{30, std::chrono::seconds(3600)}};
  engine.submit(marked, listener());
  engine.run();
  ASSERT_EQ(engine.pins().blocks(1), 2);
  Request other = request(20, 60);
  engine.submit(other, listener());
  engine.step();
  Request mine = marked;
  mine.breakpoints.clear();
  mine.prompt.assign(50, 5);
  const RequestId id = engine.submit(mine, listener());
  for (int i = 0; i < 10; ++i) engine.step();
  EXPECT_EQ(heard_[id].finish, FinishReason::kLength);  // while the other still runs
  EXPECT_FALSE(engine.idle());
  engine.run();
}

TEST_F(BranchesTest, WhatJustFitsItsQuotaNeedNotWaitForOthersToEnd) {
  EngineConfig config;
  config.kv_bytes = 12 * block_bytes(config);
  Engine engine(*backend_, *model_, config);
  engine.set_share(1, {0, 0.4, 1});  // four blocks
  engine.submit(request(20, 60), listener());
  engine.step();
  Request mine = request(64, 1);
  mine.tenant.id = 1;
  mine.tenant.secret.bytes.fill(1);
  const RequestId id = engine.submit(mine, listener());
  for (int i = 0; i < 10; ++i) engine.step();
  EXPECT_EQ(heard_[id].finish, FinishReason::kLength);
  EXPECT_FALSE(engine.idle());
  engine.run();
}

// What was saved is kept until its owner really runs again, and it runs again only when there is room.
TEST_F(BranchesTest, WhatWasSwappedOutIsComputedOnce) {
  EngineConfig config;
  config.kv_bytes = 12 * block_bytes(config);
  config.costs = CostModel{1e3, 1e3, 1e12};
  Engine engine(*backend_, *model_, config);
  const RequestId large = engine.submit(request(36, 140), listener());
  Request other = request(40, 100);
  other.prompt.front() = 99;
  const RequestId swapped = engine.submit(other, listener());
  engine.run();
  EXPECT_EQ(engine.scheduler().counts().swaps, 1);
  EXPECT_EQ(heard_[large].record.computed_tokens, 36 + 139);
  EXPECT_EQ(heard_[swapped].record.computed_tokens, 40 + 99);
  EXPECT_EQ(engine.cache().stats().queried_tokens, 36 + 40);  // each request once, however often it is opened
  EXPECT_EQ(engine.cache().stats().hit_tokens, 0);
}

TEST_F(BranchesTest, WhoSharesWhatRunsNeedsRoomForTheRestOnly) {
  EngineConfig config;
  config.kv_bytes = 12 * block_bytes(config);
  Engine engine(*backend_, *model_, config);
  engine.submit(request(110, 12), listener());  // seven or eight of the blocks
  for (int i = 0; i < 3; ++i) engine.step();
  engine.submit(request(110, 3), listener());
  engine.step();
  EXPECT_EQ(engine.scheduler().running(), 2);
  Request other = request(110, 3);
  other.prompt.front() = 99;
  engine.submit(other, listener());
  engine.step();
  EXPECT_EQ(engine.scheduler().waiting(), 1);
  engine.run();
}

TEST_F(BranchesTest, MoreBranchesThanMayRunAtOnceAllEnd) {
  EngineConfig config;
  config.scheduler.max_sequences = 2;
  Engine engine(*backend_, *model_, config);
  std::vector<Branch> branches;
  for (std::uint64_t i = 1; i < 7; ++i) branches.push_back({i, listener()});
  for (const RequestId id : engine.submit(request(20, 5), listener(), std::move(branches))) heard_[id];
  engine.run();
  ASSERT_EQ(heard_.size(), 7U);
  for (const auto& [id, heard] : heard_) EXPECT_EQ(heard.tokens.size(), 5U) << id;
}

TEST_F(BranchesTest, OnesOwnPinYieldsFirstAndOfTheseTheOneThatEndsSoonest) {
  EngineConfig config;
  config.kv_bytes = 16 * block_bytes(config);
  Engine engine(*backend_, *model_, config);
  const auto asked = [&](std::uint32_t tenant, TokenId first, std::int64_t prompt) {
    Request out = request(prompt, 2);
    out.prompt.front() = first;
    out.tenant.id = tenant;
    out.tenant.secret.bytes.fill(static_cast<std::uint8_t>(tenant));
    return out;
  };
  const auto pin = [&](Request marked, int seconds) {
    marked.breakpoints = {{32, std::chrono::seconds(seconds)}};
    engine.submit(marked, listener());
    engine.run();
  };
  pin(asked(2, 1, 40), 600);  // another's, that would end first of all
  pin(asked(1, 2, 40), 3600);
  pin(asked(1, 3, 40), 1800);
  ASSERT_EQ(engine.pins().blocks(), 6);
  engine.submit(asked(1, 4, 175), listener());  // eleven or twelve of the ten that are left
  engine.run();
  EXPECT_EQ(engine.pins().blocks(2), 2);
  EXPECT_EQ(engine.pins().blocks(1), 2);
  const RequestId again = engine.submit(asked(1, 2, 40), listener());
  engine.run();
  EXPECT_GE(heard_[again].record.reuse.reused_tokens, 32);
}

TEST_F(BranchesTest, APinThatIsRenewedLastsUntilTheLaterEnd) {
  Engine engine(*backend_, *model_, {});
  Request marked = request(40, 2);
  for (const int seconds : {0, 3600, 0}) {
    marked.breakpoints = {{40, std::chrono::seconds(seconds)}};
    if (seconds == 3600) marked.breakpoints.insert(marked.breakpoints.begin(), {40, std::chrono::seconds(0)});
    engine.submit(marked, listener());
    engine.run();
  }
  engine.step();
  EXPECT_EQ(engine.pins().size(), 1);
}

TEST_F(BranchesTest, APinExpires) {
  Engine engine(*backend_, *model_, {});
  Request marked = request(40, 2);
  marked.breakpoints.push_back({40, std::chrono::seconds(0)});
  engine.submit(marked, listener());
  engine.run();
  EXPECT_EQ(engine.pins().size(), 1);
  engine.step();
  EXPECT_EQ(engine.pins().size(), 0);
  EXPECT_EQ(engine.cache().pool(0).held(), 0);
}

TEST_F(BranchesTest, PinsAreBoundedAndTheRecordTellsWhatTheyKept) {
  EngineConfig config;
  config.kv_bytes = 12 * block_bytes(config);
  config.pinned_share = 0.25;  // three blocks
  Engine engine(*backend_, *model_, config);
  Request marked = request(60, 6);
  marked.breakpoints = {{30, std::chrono::seconds(60)}, {60, std::chrono::seconds(60)}};
  const RequestId id = engine.submit(marked, listener());
  engine.run();
  EXPECT_EQ(engine.pins().blocks(), 2);  // the first mark's; the second would make it four
  EXPECT_EQ(heard_[id].record.pinned_tokens, 30);
}

TEST_F(BranchesTest, ATenantPinsNoMoreThanHalfOfWhatItMayHave) {
  EngineConfig config;
  config.kv_bytes = 16 * block_bytes(config);
  Engine engine(*backend_, *model_, config);
  engine.set_share(1, {0, 0.4, 1});  // six blocks, three of them for pins; all together have eight
  const auto pinned = [&](std::uint32_t tenant, TokenId first) {
    Request marked = request(40, 2);
    marked.prompt.front() = first;
    marked.tenant.id = tenant;
    marked.tenant.secret.bytes.fill(static_cast<std::uint8_t>(tenant));
    marked.breakpoints = {{32, std::chrono::seconds(3600)}};
    const RequestId id = engine.submit(marked, listener());
    engine.run();
    return heard_[id].record.pinned_tokens;
  };
  EXPECT_EQ(pinned(1, 1), 32);
  EXPECT_EQ(pinned(1, 2), 0);   // it would be four
  EXPECT_EQ(pinned(1, 1), 32);  // the same again costs nothing
  EXPECT_EQ(engine.pins().blocks(1), 2);
  for (const TokenId first : {1, 2, 3}) EXPECT_EQ(pinned(2, first), 32) << first;  // another's limit is not its own
  EXPECT_EQ(pinned(2, 4), 0);                                                      // but that of all together is
  EXPECT_EQ(engine.pins().blocks(2), 6);
  EXPECT_EQ(engine.pins().blocks(), 8);
}

TEST_F(BranchesTest, TheRecordTellsOfQueueAndChunks) {
  EngineConfig config;
  config.scheduler.max_batch_tokens = 32;
  Engine engine(*backend_, *model_, config);
  const RequestId id = engine.submit(request(75, 3), listener());
  engine.run();
  const RequestRecord& record = heard_[id].record;
  ASSERT_EQ(record.chunks.size(), 3U);
  EXPECT_EQ(record.chunks[1].position, 32);
  EXPECT_EQ(record.chunks[2].tokens, 11);
  EXPECT_GT(record.chunks[0].seconds, 0);
  EXPECT_GE(record.queue_seconds, 0);
}

TEST_F(BranchesTest, AQuotaIsPartOfWhatCanNeverFit) {
  Engine engine(*backend_, *model_, {});
  engine.set_share(4, {0, 0.0001, 1});
  Request asked = request(100, 100);
  asked.tenant.id = 4;
  try {
    engine.submit(asked, {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("your quota"), std::string::npos) << error.what();
  }
  asked.tenant.id = 5;
  EXPECT_NO_THROW(engine.submit(asked, {}));
  engine.run();
}

}  // namespace
}  // namespace kvasir::testing
