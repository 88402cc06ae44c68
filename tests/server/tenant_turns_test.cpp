// Whose turn it is, and what one tenant is told of another: over HTTP, with real keys.
#include <algorithm>
#include <mutex>

#include "test_keys.h"
#include "test_server.h"

namespace kvasir::testing {
namespace {

class TwoTenants : public ::testing::Test {
 protected:
  TwoTenants(const char* device, std::uint64_t blocks) : model_(small(device, blocks)) {
    operator_.entry.sees = KeyEntry::Sees::kAll;
    ServiceOptions options;
    options.keys = KeysFile{random_secret(), {alice_.entry, bob_.entry, operator_.entry}};
    server_ = std::make_unique<TestServer>(model_, HttpOptions{}, options);
  }

  static LlmOptions small(const char* device, std::uint64_t blocks) {
    LlmOptions options = draft_options();
    options.device = device;
    options.kv_bytes = blocks * 16 * 512;
    return options;
  }

  static Json completion(std::uint32_t seed, int prompt_tokens, int max_tokens) {
    std::vector<TokenId> prompt;
    for (int i = 0; i < prompt_tokens; ++i) {
      seed = seed * 69069 + 1;
      prompt.push_back(static_cast<TokenId>(100 + (seed >> 8) % 3000));
    }
    return {{"prompt", prompt}, {"max_tokens", max_tokens}, {"temperature", 0}, {"ignore_eos", true}};
  }

  Reply ask(const TestKey& who, const Json& body, const std::string& id = {}) const {
    return server_->ask("POST", "/v1/completions", body.dump(),
                        who.header() + (id.empty() ? "" : "x-request-id: " + id + "\r\n"));
  }

  TestKey alice_ = new_key("alice");
  TestKey bob_ = new_key("bob");
  TestKey operator_ = new_key("operator");
  LoadedModel model_;
  std::unique_ptr<TestServer> server_;
};

// On the reference backend, which is slow enough to be looked at while it works.
class TenantTurnsTest : public TwoTenants {
 protected:
  TenantTurnsTest() : TwoTenants("ref", 40) {}

  // An answer that is being written for a second or two, or until its client is closed.
  std::unique_ptr<Client> long_answer(const TestKey& who, const std::string& id) const {
    Json body = completion(1, 40, 560);
    body["stream"] = true;
    auto client = std::make_unique<Client>(server_->port());
    client->send(request_text("POST", "/v1/completions", body.dump(), who.header() + "x-request-id: " + id + "\r\n"));
    EXPECT_TRUE(client->receive_until("data: "));
    return client;
  }

  Json slots(const TestKey& who) const { return server_->ask("GET", "/slots", "", who.header()).json(); }
  std::int64_t waiting() const {
    const Json all = slots(operator_);
    return std::ranges::count_if(all, [](const Json& slot) { return slot["state"] == "waiting"; });
  }

  // Behind an answer of alice's that leaves no room: sent one after the other, each waiting before the next comes,
  // and then let go. The order in which they were answered.
  struct Waiter {
    const TestKey* who;
    const char* name;
    int priority;
  };
  std::vector<std::string> order_of(const std::vector<Waiter>& waiters) {
    const auto hog = long_answer(alice_, "hog");
    std::mutex mutex;
    std::vector<std::string> order;
    std::vector<std::thread> threads;
    for (const Waiter& waiter : waiters) {
      threads.emplace_back([&, waiter, seed = static_cast<std::uint32_t>(threads.size()) + 50] {
        Json body = completion(seed, 590, 2);  // 37 of the 40 blocks: no two at once
        body["priority"] = waiter.priority;
        EXPECT_EQ(ask(*waiter.who, body).status, 200);
        const std::lock_guard lock(mutex);
        order.emplace_back(waiter.name);
      });
      EXPECT_TRUE(eventually([&] { return waiting() == std::ssize(threads); }));
    }
    const auto written = [&] {
      for (const Json& slot : slots(alice_)) {
        if (slot["request_id"] == "hog") return slot["answer_tokens"].get<int>();
      }
      return -1;
    };
    const int before = written();
    EXPECT_GE(before, 0) << "it ended before all were there";
    EXPECT_TRUE(eventually([&] { return written() > before; }));  // all are there, and alice is served on
    hog->close();
    for (std::thread& thread : threads) thread.join();
    return order;
  }
};

TEST_F(TenantTurnsTest, AnUrgentRequestOvertakesItsOwn) {
  EXPECT_EQ(order_of({{&alice_, "first", 0}, {&alice_, "second", 0}, {&alice_, "late", 3}, {&alice_, "urgent", -1}}),
            (std::vector<std::string>{"urgent", "first", "second", "late"}));
}

TEST_F(TenantTurnsTest, ButNotAnotherTenants) {
  EXPECT_EQ(order_of({{&alice_, "first", 0}, {&alice_, "urgent", -100}, {&bob_, "bob's", 100}}),
            (std::vector<std::string>{"bob's", "urgent", "first"}));
}

TEST_F(TenantTurnsTest, SlotsAreListedToTheirOwnerAndTheOperator) {
  const auto hers = long_answer(alice_, "hers");
  const auto his = long_answer(bob_, "his");
  const auto names = [&](const TestKey& who) {
    std::vector<std::string> out;
    for (const Json& slot : slots(who)) out.push_back(slot["request_id"]);
    std::ranges::sort(out);
    return out;
  };
  EXPECT_EQ(names(alice_), std::vector<std::string>{"hers"});
  EXPECT_EQ(names(bob_), std::vector<std::string>{"his"});
  EXPECT_EQ(names(operator_), (std::vector<std::string>{"hers", "his"}));
  EXPECT_EQ(server_->ask("GET", "/slots").status, 401);
  // Nor has one who runs a record of the other's.
  EXPECT_EQ(server_->ask("GET", "/kvasir/requests/hers", "", bob_.header()).status, 404);
}

class TenantToldTest : public TwoTenants {
 protected:
  TenantToldTest() : TwoTenants("cpu", 24) {}
};

TEST_F(TenantToldTest, AnEvictionByAnotherIsToldWithoutAWordOfThem) {
  Json prompt = completion(7, 64, 2);
  prompt["explain"] = true;
  const auto evicted = [](const Reply& reply) {
    EXPECT_EQ(reply.status, 200) << reply.body;
    const Json told = reply.json()["kvasir"];
    EXPECT_EQ(told["reason"], "evicted") << told;
    return told;
  };
  // Her own request is named: it is hers.
  ask(alice_, prompt);
  const Reply own = ask(alice_, completion(8, 360, 2), "mine");
  const Json by_own = evicted(ask(alice_, prompt))["evicted"];
  const Json record = server_->ask("GET", "/kvasir/requests/mine", "", alice_.header()).json();
  EXPECT_EQ(by_own["for"], "own_request");
  EXPECT_EQ(by_own["by_task"], record["tasks"][0]["id_task"]) << record;
  // His is not.
  ask(alice_, prompt);
  const Reply his = ask(bob_, completion(9, 360, 2), "his-request");
  const std::string his_id = his.json()["id"];
  const Reply again = ask(alice_, prompt, "hers-again");
  const Json by_other = evicted(again);
  EXPECT_EQ(by_other["evicted"]["for"], "shared_pool");
  EXPECT_EQ(by_other["evicted"].size(), 2U) << by_other;  // for, seconds_ago
  EXPECT_NE(by_other["explanation"].get<std::string>().find("because the shared pool was full"), std::string::npos);
  const std::string kept = server_->ask("GET", "/kvasir/requests/hers-again", "", alice_.header()).body;
  for (const std::string& text : {again.body, kept}) {
    for (const std::string& word : {std::string("bob"), std::string("his-request"), his_id})
      EXPECT_EQ(text.find(word), std::string::npos) << word << " in " << text;
  }
}

TEST_F(TenantToldTest, AnEvictionByOnesOwnQuotaSaysSo) {
  alice_.entry.share.most = 0.5;
  server_->service().set_keys({random_secret(), {alice_.entry, bob_.entry, operator_.entry}});
  Json prompt = completion(7, 64, 2);
  prompt["explain"] = true;
  ask(alice_, prompt);
  ask(alice_, completion(8, 180, 2));  // twelve blocks are all she may have, and the pool has as many more
  const Json told = ask(alice_, prompt).json()["kvasir"];
  EXPECT_EQ(told["evicted"]["for"], "own_quota") << told;
}

}  // namespace
}  // namespace kvasir::testing
