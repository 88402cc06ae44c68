// The first promise, over HTTP: the same request has the same answer, to the last digit of its probabilities, cold,
// warm, among others, streamed, as the first of several, after a pause and after a restart.
#include "answers.h"

namespace kvasir::testing {
namespace {

struct HttpCell {
  const char* device;
  const char* format;

  std::string name() const { return std::string(device) + "_" + format; }
};

std::ostream& operator<<(std::ostream& out, const HttpCell& cell) { return out << cell.name(); }

class HttpLaw : public ::testing::TestWithParam<HttpCell> {
 protected:
  static constexpr int kAnswer = 60;

  static LlmOptions options() {
    LlmOptions out = draft_options();
    out.device = GetParam().device;
    out.kv = GetParam().format;
    return out;
  }

  // Bytes of so many blocks: two layers of one head of 64, K and V.
  static std::uint64_t bytes_of(std::uint64_t blocks) {
    return blocks * 16 * 2 * 64 * 2 * (GetParam().format == std::string("f32") ? 4 : 2);
  }

  static Json story_of(const std::string& what, int tokens) {
    return {{"messages", {{{"role", "user"}, {"content", "Tell me a story about " + what + "."}}}},
            {"max_tokens", tokens},
            {"temperature", 1},
            {"seed", 11},
            {"ignore_eos", true}};
  }
  static Json asked() {
    Json body = story_of("a fox, a crow and the old miller's three daughters", kAnswer);
    body["logprobs"] = true;
    body["top_logprobs"] = 5;
    return body;
  }

  static Reply ask(const TestServer& server, const Json& body, const std::string& headers = {}) {
    Reply reply = server.ask("POST", "/v1/chat/completions", body.dump(), headers);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply;
  }

  // A long answer that is being written when this returns.
  static std::unique_ptr<Client> write_along(const TestServer& server, const std::string& what, int tokens) {
    Json body = story_of(what, tokens);
    body["stream"] = true;
    auto client = std::make_unique<Client>(server.port());
    client->send(request_text("POST", "/v1/chat/completions", body.dump()));
    EXPECT_TRUE(client->receive_until("data: "));
    return client;
  }

  static std::int64_t running(const TestServer& server) {
    std::int64_t count = 0;
    for (const Json& slot : server.ask("GET", "/slots").json()) count += slot["state"] == "running" ? 1 : 0;
    return count;
  }

  // Among others in a cache too small for all, until the request had to pause. How, and what it answered.
  struct Paused {
    std::string how;
    Answer answer;
  };
  static Paused ask_under_pressure(const LlmOptions& tight) {
    LoadedModel model(tight);
    const TestServer server(model);
    for (int attempt = 0; attempt < 20; ++attempt) {
      // Longer than the request, so that it is the cheapest to pause; by another token each time, since it takes a
      // block that is not full to be cheapest to compute again.
      std::string longer = "the sea";
      for (int i = 0; i < 14 + attempt; ++i) longer += ", the sea";
      const auto oldest = write_along(server, longer, 150);
      const auto second = write_along(server, "the king of " + longer, 150);
      const Reply reply = ask(server, asked());
      const Json record = server.ask("GET", "/kvasir/requests/" + reply.headers.at("x-request-id")).json();
      const Json& pauses = record["tasks"][0]["pauses"];
      if (!pauses.empty()) return {pauses[0]["how"], answer_of(reply)};
    }
    return {};
  }
};

INSTANTIATE_TEST_SUITE_P(Everywhere, HttpLaw,
                         ::testing::Values(HttpCell{"ref", "f32"}, HttpCell{"ref", "f16"}, HttpCell{"ref", "bf16"},
                                           HttpCell{"cpu", "f32"}, HttpCell{"cpu", "f16"}, HttpCell{"cpu", "bf16"}),
                         [](const auto& cell) { return cell.param.name(); });

TEST_P(HttpLaw, OneRequestOneAnswer) {
  Answer cold;
  {
    LoadedModel model(options());
    const TestServer server(model);
    const Reply first = ask(server, asked());
    EXPECT_EQ(first.json()["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    cold = answer_of(first);
    EXPECT_EQ(cold.tokens, kAnswer);
    EXPECT_FALSE(cold.probabilities.at(0).empty());

    const Reply warm = ask(server, asked());
    EXPECT_GT(warm.json()["usage"]["prompt_tokens_details"]["cached_tokens"], 16);
    EXPECT_EQ(answer_of(warm), cold) << "warm";

    Json streamed = asked();
    streamed["stream"] = true;
    streamed["stream_options"] = {{"include_usage", true}};
    EXPECT_EQ(answer_of(ask(server, streamed)), cold) << "streamed";

    Json several = asked();
    several["n"] = 3;
    const Answer three = answer_of(ask(server, several));
    ASSERT_EQ(three.texts.size(), 3U);
    EXPECT_EQ(three.texts[0], cold.texts[0]) << "the first of several";
    EXPECT_EQ(three.probabilities[0], cold.probabilities[0]);
    EXPECT_NE(three.texts[1], cold.texts[0]);

    std::vector<std::unique_ptr<Client>> others;
    for (const char* what : {"snow", "bread", "an owl"}) others.push_back(write_along(server, what, 1500));
    const Answer among = answer_of(ask(server, asked()));
    EXPECT_EQ(running(server), 3) << "the others ended too soon to be in the same batches";
    EXPECT_EQ(among, cold) << "among others";
  }
  LoadedModel model(options());
  const TestServer server(model);
  EXPECT_EQ(answer_of(ask(server, asked())), cold) << "after a restart";
}

TEST_P(HttpLaw, OneRequestOneAnswerAfterAPause) {
  LoadedModel model(options());
  const Answer cold = answer_of(ask(TestServer(model), asked()));
  LlmOptions tight = options();
  tight.kv_bytes = bytes_of(16);
  const Paused swapped = ask_under_pressure(tight);
  EXPECT_EQ(swapped.how, "swap");
  EXPECT_EQ(swapped.answer, cold);
  tight.swap_bytes = 0;
  const Paused computed_again = ask_under_pressure(tight);
  EXPECT_TRUE(computed_again.how == "recompute" || computed_again.how == "wait") << computed_again.how;
  EXPECT_EQ(computed_again.answer, cold);
}

}  // namespace
}  // namespace kvasir::testing
