// One request's trouble is no other's: slow forms, failing devices, refused memory.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <stdexcept>
#include <thread>

#include "backend/forwarding_backend.h"
#include "backend/make_backend.h"
#include "base/error.h"
#include "engine/engine_thread.h"
#include "engine/heard.h"
#include "engine/schedule/host_pool.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

using namespace std::chrono_literals;

// Allows even tokens only, and takes its time to find out.
class SlowForm : public TokenConstraint {
 public:
  explicit SlowForm(std::chrono::milliseconds takes, bool fails = false) : takes_(takes), fails_(fails) {}

  bool prepare(std::size_t& work) override {
    constexpr std::size_t kWork = 1 << 20;
    if (known_) return true;
    if (work < kWork) {
      work = 0;
      return false;
    }
    work -= kWork;
    std::this_thread::sleep_for(takes_);
    if (fails_) throw Error(Error::Kind::kCapacity, {"finding out takes too long", "schema", "use another"});
    return known_ = true;
  }
  void mask(std::span<float> logits) override {
    EXPECT_TRUE(known_);
    for (size_t i = 1; i < logits.size(); i += 2) logits[i] = -1e30F;
  }
  void accept(TokenId) override { known_ = false; }
  bool ended() const override { return false; }
  std::unique_ptr<TokenConstraint> fork() const override { return std::make_unique<SlowForm>(takes_, fails_); }

 private:
  std::chrono::milliseconds takes_;
  bool fails_;
  bool known_ = false;
};

class HostileEngineTest : public ::testing::Test {
 protected:
  OnUpdate listener() {
    return [this](const Update& update) { heard_[update.id].add(update); };
  }

  static Request request(TokenId first, std::int64_t answer) {
    Request out;
    for (TokenId i = 0; i < 20; ++i) out.prompt.push_back((first + i * 7) % 90 + 1);
    out.max_tokens = answer;
    out.sampling.temperature = 1;
    return out;
  }

  std::unique_ptr<Backend> backend_ = make_backend({"cpu", 1, "auto"});
  std::unique_ptr<Model> model_ = load_golden("gqa", *backend_, 64);
  std::map<RequestId, Heard> heard_;
};

TEST_F(HostileEngineTest, NobodyWaitsForAnothersSlowForm) {
  Engine engine(*backend_, *model_, {});
  const RequestId quick = engine.submit(request(1, 60), listener());
  Request slow = request(2, 4);
  slow.constraint = std::make_shared<SlowForm>(30ms);
  const RequestId held_up = engine.submit(slow, listener());
  while (heard_[quick].finish == FinishReason::kNone) engine.step();
  EXPECT_LT(heard_[held_up].tokens.size(), 4U) << "its masks take 120 ms, and sixty tokens of this model 10";
  engine.run();
  EXPECT_EQ(heard_[held_up].finish, FinishReason::kLength);
  for (const TokenId token : heard_[held_up].tokens) EXPECT_EQ(token % 2, 0);

  slow.constraint = std::make_shared<SlowForm>(0ms);
  Engine alone(*backend_, *model_, {});
  const auto beside = heard_[held_up].tokens;
  heard_.clear();
  const RequestId again = alone.submit(slow, listener());
  alone.run();
  EXPECT_EQ(heard_[again].tokens, beside);
}

TEST_F(HostileEngineTest, AFormThatCannotBeKnownFailsItsOwnRequest) {
  Engine engine(*backend_, *model_, {});
  Request slow = request(2, 4);
  slow.constraint = std::make_shared<SlowForm>(1ms, true);
  const RequestId failed = engine.submit(slow, listener());
  const RequestId other = engine.submit(request(1, 9), listener());
  engine.run();
  EXPECT_EQ(heard_[failed].finish, FinishReason::kFailed);
  EXPECT_NE(heard_[failed].record.failure.find("takes too long"), std::string::npos);
  EXPECT_EQ(heard_[failed].record.fault, RequestRecord::Fault::kRequest);
  EXPECT_EQ(heard_[other].tokens.size(), 9U);
  EXPECT_EQ(engine.cache().pool(0).held(), 0);
}

TEST_F(HostileEngineTest, WhoWaitsForAFormMayLeaveOrPause) {
  EngineConfig config;
  const KvGroup group = kv_groups(model_->config(), config.kv).front();
  config.kv_bytes = static_cast<std::uint64_t>(6 * make_layout(group, 16).block_bytes());
  Engine engine(*backend_, *model_, config);
  std::vector<RequestId> ids;
  for (TokenId i = 0; i < 4; ++i) {
    Request slow = request(i * 20, 30);
    slow.constraint = std::make_shared<SlowForm>(1ms);
    ids.push_back(engine.submit(slow, listener()));
  }
  for (int i = 0; i < 5; ++i) engine.step();
  engine.cancel(ids[0]);
  engine.run();
  EXPECT_EQ(heard_[ids[0]].finish, FinishReason::kCancelled);
  EXPECT_GT(engine.scheduler().preemptions() + engine.scheduler().counts().waits, 0);
  for (size_t i = 1; i < ids.size(); ++i) EXPECT_EQ(heard_[ids[i]].tokens.size(), 30U);
  EXPECT_EQ(engine.cache().pool(0).held(), 0);
  EXPECT_EQ(engine.cache().problem(), std::nullopt);
}

// Fails where it is told to.
class FailingBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  void download(std::span<std::byte> to, const std::byte* from) override {
    if (fails.exchange(false)) throw std::runtime_error("the device is gone");
    ForwardingBackend::download(to, from);
  }
  Buffer allocate_on_host(size_t bytes) override {
    if (refuses) throw Error(Error::Kind::kCapacity, {"no host memory", "test", ""});
    taken += bytes;
    return ForwardingBackend::allocate_on_host(bytes);
  }
  std::atomic<bool> fails = false;
  bool refuses = false;
  size_t taken = 0;
};

TEST_F(HostileEngineTest, AFailedStepFailsWhoRanAndTheThreadGoesOn) {
  FailingBackend backend(make_backend({"cpu", 1, "auto"}));
  const auto model = load_golden("gqa", backend, 64);
  Engine engine(backend, *model, {});
  EngineThread thread(engine);
  std::string told;
  thread.on_failure([&told](const std::string& why) { told = why; });
  const auto answer = [&](std::vector<Branch> branches) {
    struct Ends {
      std::atomic<int> left;
      std::promise<void> all;
      std::vector<Update> seen;
      std::string failure;
      RequestRecord::Fault fault = RequestRecord::Fault::kRequest;
    };
    auto ends = std::make_shared<Ends>();
    ends->left = 1 + static_cast<int>(branches.size());
    const auto listen = [ends](const Update& update) {
      if (update.finish == FinishReason::kNone) return;
      ends->failure = update.record->failure;
      ends->fault = update.record->fault;
      ends->seen.push_back(update);
      if (--ends->left == 0) ends->all.set_value();
    };
    for (Branch& branch : branches) branch.on_update = listen;
    thread.submit(request(1, 5), listen, std::move(branches));
    ends->all.get_future().wait();
    return ends;
  };
  backend.fails = true;
  const auto failed = answer({{1, {}}, {2, {}}});  // all three, before their prompt was computed
  for (const Update& update : failed->seen) EXPECT_EQ(update.finish, FinishReason::kFailed);
  EXPECT_EQ(failed->fault, RequestRecord::Fault::kOurs);
  EXPECT_NE(failed->failure.find("the device is gone"), std::string::npos);
  EXPECT_EQ(thread.ask([&told](Engine&) { return told; }), "the device is gone");
  EXPECT_TRUE(thread.failing());
  const auto after = answer({{1, {}}});
  for (const Update& update : after->seen) EXPECT_EQ(update.finish, FinishReason::kLength);
  EXPECT_FALSE(thread.failing());
  EXPECT_EQ(thread.ask([](Engine& asked) { return asked.cache().problem(); }), std::nullopt);
  EXPECT_EQ(thread.ask([](Engine& asked) { return asked.cache().pool(0).held(); }), 0);
  EXPECT_THROW(thread.ask([](Engine&) -> int { throw std::runtime_error("asked wrongly"); }), std::runtime_error);
}

TEST_F(HostileEngineTest, WhereHostMemoryIsRefusedWhoPausesIsComputedAgain) {
  FailingBackend backend(make_backend({"cpu", 1, "auto"}));
  const auto model = load_golden("gqa", backend, 64);
  EngineConfig config;
  const KvGroup group = kv_groups(model->config(), config.kv).front();
  config.kv_bytes = static_cast<std::uint64_t>(8 * make_layout(group, 16).block_bytes());
  config.costs = CostModel{1e3, 1e3, 1e12};  // swapping is always cheapest
  std::vector<TokenId> alone;
  for (const bool refuses : {false, true}) {
    backend.refuses = refuses;
    Engine engine(backend, *model, config);
    heard_.clear();
    std::vector<RequestId> ids;
    for (TokenId i = 0; i < 3; ++i) ids.push_back(engine.submit(request(i * 20, 60), listener()));
    engine.run();
    EXPECT_EQ(engine.scheduler().counts().swaps > 0, !refuses);
    EXPECT_EQ(engine.scheduler().counts().recomputes > 0, refuses);
    for (const RequestId id : ids) EXPECT_EQ(heard_[id].tokens.size(), 60U);
    if (!refuses) alone = heard_[ids[1]].tokens;
    EXPECT_EQ(heard_[ids[1]].tokens, alone);
  }
}

TEST(HostPoolTest, TakesNoMoreThanItMayHoweverManySave) {
  FailingBackend backend(make_backend({"cpu", 1, "auto"}));
  KvStorage storage(backend, {1, 64}, 16);
  constexpr size_t kMiB = size_t{1} << 20;
  auto room = std::make_shared<HostPool>(storage, 20 * kMiB);
  {
    std::vector<std::unique_ptr<HostSpan>> savers;
    size_t saved = 0;
    while (true) {
      auto saver = std::make_unique<HostSpan>(room);
      if (saver->place(300'000) == nullptr) break;
      saved += 300'000;
      savers.push_back(std::move(saver));
      ASSERT_LE(backend.taken, 20 * kMiB);
    }
    EXPECT_GT(saved, 19 * kMiB);
    EXPECT_EQ(room->used(), saved);
    for (size_t i = 0; i < savers.size(); i += 2) savers[i] = nullptr;  // holes …
    HostSpan more(room);
    for (size_t i = 0; i < savers.size() / 2; ++i) EXPECT_NE(more.place(300'000), nullptr);  // … that are used again
    EXPECT_EQ(more.place(600'001), nullptr);
    EXPECT_LE(backend.taken, 20 * kMiB);
  }
  EXPECT_EQ(room->used(), 0U);
  EXPECT_LE(room->taken(), 16 * kMiB);  // the rest was given back
  HostSpan whole(room);
  EXPECT_NE(whole.place(4 * kMiB), nullptr);
}

}  // namespace
}  // namespace kvasir::testing
