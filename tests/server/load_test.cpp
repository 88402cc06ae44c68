// Bit-exact under load: many clients at once, prefixes that some share, clients that leave midway and a cache too
// small for all of them. Each answer that was finished is the one its request gets alone, on a server that reuses
// nothing.
#include <algorithm>
#include <array>
#include <latch>

#include "answers.h"

namespace kvasir::testing {
namespace {

constexpr int kClients = 64;
constexpr std::uint64_t kBlocks = 24;  // of 16 tokens: four or five of the longer requests

// Under a thread sanitizer the last of the queue waits for a while.
constexpr std::chrono::milliseconds kPatience{120'000};

// What one client asks, and when it leaves: after so many events of its stream.
struct Ask {
  std::string path;
  Json body;
  std::optional<int> leaves_after;

  bool streams() const { return body.value("stream", false); }
};

std::string prompt_of(int who) {
  static constexpr std::array<const char*, 3> kBeginnings{
      "Long ago, in a village between two rivers, there lived an old miller who had three daughters and one donkey. "
      "Every morning the donkey carried flour to the market, and every evening it came home and told the miller "
      "about ",
      "Long ago, in a village between two rivers, there lived an old miller who had a cat. The cat was fond of ",
      "Write a story in which nobody is sad. It has to be about "};
  static constexpr std::array<const char*, 7> kEnds{"a fox",  "a crow", "the sea", "snow",
                                                    "an owl", "bread",  "a king"};
  return std::string(kBeginnings[static_cast<size_t>(who) % 3]) + kEnds[static_cast<size_t>(who) % 7] + ".";
}

// Every client asks for something of its own, but for the beginnings that some have in common.
Ask ask_of(int who) {
  static constexpr std::array<double, 4> kTemperatures{0, 0.7, 1, 1.5};
  const bool chat = who % 2 == 0;
  Ask ask;
  ask.path = chat ? "/v1/chat/completions" : "/v1/completions";
  if (chat) {
    ask.body["messages"] = {{{"role", "user"}, {"content", prompt_of(who)}}};
    ask.body["logprobs"] = true;
    ask.body["top_logprobs"] = 3;
  } else {
    ask.body["prompt"] = prompt_of(who);
  }
  ask.body["max_tokens"] = 16 + 7 * (who % 8);
  ask.body["temperature"] = kTemperatures[static_cast<size_t>(who / 2) % 4];
  ask.body["seed"] = 1000 + who;
  ask.body["ignore_eos"] = who % 4 != 3;
  if (who % 4 == 3) ask.body["min_tokens"] = 2;  // a text may be at its end
  if (who % 5 == 0) ask.body["top_p"] = 0.9;
  if (who % 9 == 0) ask.body["repetition_penalty"] = 1.2;
  if (who % 6 == 0) ask.body["stop"] = {"the donkey", "\n"};
  ask.body["stream"] = who % 3 != 0;
  if (ask.streams()) ask.body["stream_options"] = {{"include_usage", true}};
  if (who % 16 == 0) {
    // Six answers that do not fit together, so that some are preempted however the clients happen to arrive.
    ask.body["n"] = 6;
    ask.body["max_tokens"] = 90;
    ask.body.erase("stop");
    ask.body["ignore_eos"] = true;
  } else if (who % 4 == 1) {
    ask.body["stream"] = true;
    ask.body["max_tokens"] = 150;
    ask.leaves_after = who % 7;
  }
  return ask;
}

// nullopt: the client left before the end, as it meant to.
std::optional<Answer> send(std::uint16_t port, const Ask& ask) {
  Client client(port, kPatience);
  EXPECT_TRUE(client.send(request_text("POST", ask.path, ask.body.dump())));
  if (ask.leaves_after) {
    // A slow server puts many tokens into an event: the end may come first.
    for (int seen = 0; seen < *ask.leaves_after && client.receive_until("data: "); ++seen) {
      client.buffer().erase(0, client.buffer().find("data: ") + 6);
    }
    if (*ask.leaves_after % 2 == 0) client.reset();
    return std::nullopt;
  }
  const Reply reply = client.read_reply();
  EXPECT_EQ(reply.status, 200) << reply.body;
  if (reply.status != 200) return Answer{};
  if (ask.streams()) {
    EXPECT_TRUE(reply.body.ends_with("data: [DONE]\n\n"));
  }
  return answer_of(reply);
}

std::vector<std::optional<Answer>> send_all_at_once(std::uint16_t port) {
  std::vector<std::optional<Answer>> answers(kClients);
  std::latch start(kClients);
  std::vector<std::thread> threads;
  for (int who = 0; who < kClients; ++who) {
    threads.emplace_back([&, who] {
      start.arrive_and_wait();
      answers[static_cast<size_t>(who)] = send(port, ask_of(who));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return answers;
}

Answer answer_alone(const Ask& ask) {
  LlmOptions options = draft_options();
  options.reuse = false;
  LoadedModel model(options);
  const TestServer server(model);
  return send(server.port(), ask).value();
}

TEST(LoadTest, EveryAnswerIsTheOneItsRequestGetsAlone) {
  LlmOptions options = draft_options();
  options.threads = 2;
  options.kv_bytes = kBlocks * 16 * 512;  // two layers of one head of 64, K and V in f16
  LoadedModel model(options);
  ASSERT_EQ(model.engine.cache().pool(0).size(), static_cast<std::int64_t>(kBlocks));

  // The second time the cache holds what the first left there.
  std::vector<std::vector<std::optional<Answer>>> rounds;
  {
    TestServer server(model);
    for (int round = 0; round < 2; ++round) {
      rounds.push_back(send_all_at_once(server.port()));
      EXPECT_TRUE(eventually([&] { return at_rest(server); }));
    }
    const EngineNumbers numbers = server.service().engine_numbers();
    EXPECT_GT(numbers.preemptions, 0);
    EXPECT_GT(numbers.hit_tokens, 0);
    EXPECT_GT(numbers.evicted_blocks, 0);
  }
  EXPECT_EQ(model.engine.cache().problem(), std::nullopt);

  int finished = 0;
  for (int who = 0; who < kClients; ++who) {
    const Ask ask = ask_of(who);
    if (ask.leaves_after) continue;
    const Answer alone = answer_alone(ask);
    EXPECT_GT(alone.tokens, 0);
    EXPECT_EQ(alone.probabilities.front().empty(), !ask.body.contains("logprobs"));
    for (const auto& answers : rounds) EXPECT_EQ(answers[static_cast<size_t>(who)], alone) << ask.body;
    ++finished;
  }
  EXPECT_EQ(finished, kClients - 16);
}

}  // namespace
}  // namespace kvasir::testing
