// Many threads, one engine: every answer is the one the request gets alone, and nobody is forgotten.
#include "engine/engine_thread.h"

#include <gtest/gtest.h>

#include <atomic>

#include "backend/make_backend.h"
#include "base/error.h"
#include "engine/sampling_backend.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

class EngineThreadTest : public ::testing::Test {
 protected:
  static Request request(int who, std::int64_t tokens) {
    Request out;
    for (int i = 0; i <= who % 20; ++i) out.prompt.push_back((who * 7 + i) % 101);
    out.max_tokens = tokens;
    out.sampling.seed = static_cast<std::uint64_t>(who);
    return out;
  }

  // Blocks until the request has ended.
  static std::vector<TokenId> answer(EngineThread& thread, const Request& asked) {
    auto tokens = std::make_shared<std::vector<TokenId>>();
    auto done = std::make_shared<std::promise<void>>();
    thread.submit(asked, [tokens, done](const Update& update) {
      if (update.token >= 0) tokens->push_back(update.token);
      if (update.finish != FinishReason::kNone) done->set_value();
    });
    done->get_future().wait();
    return *tokens;
  }

  std::unique_ptr<Backend> backend_ = make_backend({"cpu", 2, "auto"});
  std::unique_ptr<Model> model_ = load_golden("gqa", *backend_, 64);
  Engine engine_{*backend_, *model_, {}};
};

// Sequences of a steady batch are behind what their listeners know, but for who asks.
TEST_F(EngineThreadTest, WhoeverAsksFindsSequencesAsTheyWereTold) {
  SamplingBackend backend(make_backend({"cpu", 1, "auto"}));
  const auto model = load_golden("gqa", backend, 64);
  Engine engine(backend, *model, {});
  std::atomic<std::int64_t> told{0};
  EngineThread thread(engine);
  thread.submit(request(3, 200), [&told](const Update& update) { told += update.token >= 0; });
  while (told == 0) std::this_thread::yield();
  for (int i = 0; i < 30; ++i) {
    const std::int64_t behind = thread.ask([&told](Engine& asked) {
      std::int64_t out = 0;
      asked.scheduler().each([&](const Sequence& sequence) { out = told - sequence.num_output_tokens(); });
      return out;
    });
    EXPECT_EQ(behind, 0);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

TEST_F(EngineThreadTest, ManyClientsEachGetTheirOwnAnswer) {
  constexpr int kClients = 12;
  std::vector<std::vector<TokenId>> answers(kClients);
  {
    EngineThread thread(engine_);
    std::vector<std::thread> clients;
    for (int who = 0; who < kClients; ++who) {
      clients.emplace_back([&, who] { answers[static_cast<size_t>(who)] = answer(thread, request(who, 20)); });
    }
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(thread.ask([](Engine& engine) { return engine.cache().pool(0).held(); }), 0);
    EXPECT_EQ(thread.ask([](Engine& engine) { return engine.cache().problem(); }), std::nullopt);
  }
  for (int who = 0; who < kClients; ++who) {
    Engine alone(*backend_, *model_, {});
    std::vector<TokenId> expected;
    alone.submit(request(who, 20), [&expected](const Update& update) { expected.push_back(update.token); });
    alone.run();
    EXPECT_EQ(answers[static_cast<size_t>(who)], expected) << who;
  }
}

TEST_F(EngineThreadTest, EveryListenerHearsItsEndWhenTheThreadGoes) {
  std::atomic<int> ended = 0;
  {
    EngineThread thread(engine_);
    for (int who = 0; who < 8; ++who) {
      thread.submit(request(who, 400),
                    [&ended](const Update& update) { ended += update.finish != FinishReason::kNone; });
    }
  }
  EXPECT_EQ(ended, 8);
  EXPECT_TRUE(engine_.idle());
}

TEST_F(EngineThreadTest, ACancelledRequestEndsSoonAndABadOneIsRefusedAtOnce) {
  EngineThread thread(engine_);
  std::promise<FinishReason> ended;
  const RequestId id = thread.submit(request(1, 400), [&ended](const Update& update) {
    if (update.finish != FinishReason::kNone) ended.set_value(update.finish);
  });
  thread.cancel(id);
  EXPECT_EQ(ended.get_future().get(), FinishReason::kCancelled);
  EXPECT_THROW(thread.submit(Request{}, {}), Error);
}

using EngineThreadDeathTest = EngineThreadTest;

TEST_F(EngineThreadDeathTest, AnEngineIsOneThreadsAtATime) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  { const EngineThread first(engine_); }
  const EngineThread second(engine_);  // after the first: no harm
  EXPECT_DEATH(EngineThread{engine_}, "two EngineThreads were given one engine");
}

}  // namespace
}  // namespace kvasir::testing
