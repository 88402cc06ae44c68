// What a tenant can measure does not depend on what another has cached. Time is measured by `kvasir doctor
// --isolation`; here it is the work that makes the time: every sample, not only on average.
#include <algorithm>
#include <map>
#include <random>

#include "test_server.h"

namespace kvasir::testing {
namespace {

constexpr int kSamples = 1000;
constexpr int kPromptTokens = 48;  // whole blocks
constexpr std::int64_t kAnswerTokens = 2;

struct Effort {
  std::int64_t cached = 0;
  std::int64_t computed = 0;
  std::int64_t steps = 0;
  friend auto operator<=>(const Effort&, const Effort&) = default;
};

class IsolationTest : public ServedDraft {
 protected:
  // No two begin with the same token: reuse is to the token, and one's own earlier prompts count as well.
  std::vector<TokenId> fresh_prompt() {
    std::vector<TokenId> prompt{next_++};
    for (int i = 1; i < kPromptTokens; ++i)
      prompt.push_back(std::uniform_int_distribution<TokenId>(16, 4000)(random_));
    return prompt;
  }

  static Effort ask(Client& client, const std::string& key, const std::vector<TokenId>& prompt) {
    const Json body{{"prompt", prompt}, {"max_tokens", kAnswerTokens}, {"temperature", 0}, {"ignore_eos", true}};
    const std::string header = "authorization: Bearer " + key + "\r\n";
    const Reply reply = client.ask("POST", "/v1/completions", body.dump(), header);
    EXPECT_EQ(reply.status, 200) << reply.body;
    const Json record = client.ask("GET", "/kvasir/requests/" + reply.headers.at("x-request-id"), "", header).json();
    EXPECT_EQ(reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"], record["reused_tokens"]);
    return {record["reused_tokens"], record["computed_tokens"], record["steps"]};
  }

  TokenId next_ = 16;
  std::mt19937 random_{20260801};
};

TEST_F(IsolationTest, TheWorkForAPromptTellsNothingOfOthers) {
  const std::string victim = random_key();
  const std::string attacker = random_key();
  ServiceOptions options;
  options.keys = KeysFile{random_secret(),
                          {{.name = "victim", .hash = hash_of_key(victim), .created = "", .share = {}},
                           {.name = "attacker", .hash = hash_of_key(attacker), .created = "", .share = {}}}};
  const TestServer server(*model_, {}, options);
  Client theirs(server.port());
  Client ours(server.port());
  std::vector<int> primed(kSamples);
  std::fill_n(primed.begin(), kSamples / 2, 1);
  std::ranges::shuffle(primed, random_);
  std::map<Effort, int> seen[2];
  std::map<Effort, int> own;
  for (const int prime : primed) {
    const std::vector<TokenId> prompt = fresh_prompt();
    ask(theirs, victim, prime == 1 ? prompt : fresh_prompt());
    ++seen[prime][ask(ours, attacker, prompt)];
    ++own[ask(ours, attacker, prompt)];
  }
  const Effort cold{0, kPromptTokens + kAnswerTokens - 1, kAnswerTokens};
  const Effort warm{kPromptTokens - 1, kAnswerTokens, kAnswerTokens};
  EXPECT_EQ(seen[0], (std::map<Effort, int>{{cold, kSamples / 2}}));
  EXPECT_EQ(seen[1], (std::map<Effort, int>{{cold, kSamples / 2}}));
  EXPECT_EQ(own, (std::map<Effort, int>{{warm, kSamples}}));
}

}  // namespace
}  // namespace kvasir::testing
