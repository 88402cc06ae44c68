// What one request may make the server hold or compute, and what it is told beyond.
#include <fmt/format.h>

#include <set>
#include <thread>

#include "cpu_time.h"
#include "server/answer/tool_prompt.h"
#include "server/api/api_error.h"
#include "server/api/openai_parse.h"
#include "server/api/parse_common.h"
#include "server/memory_return.h"
#include "server/records.h"
#include "test_keys.h"
#include "test_server.h"
#include "text/utf8.h"

namespace kvasir::testing {
namespace {

class RequestLimits : public ServiceDraft {
 protected:
  // The status, the parameter and the message of a refusal.
  Json refusal(const std::string& path, const Json& body) {
    const Reply reply = post(path, body);
    EXPECT_EQ(reply.status, 400) << path << " " << reply.body.substr(0, 300);
    return reply.status == 400 ? reply.json()["error"] : Json{{"param", ""}, {"message", ""}, {"code", ""}};
  }
};

TEST_F(RequestLimits, LogitBias) {
  const auto ask = [&](const Json& bias) {
    Json body = story(1);
    body["logit_bias"] = bias;
    return post("/v1/chat/completions", body);
  };
  Json most = Json::object();
  for (int i = 0; i < 1024; ++i) most[std::to_string(i)] = 0;
  EXPECT_EQ(ask(most).status, 200);
  Json more = most;
  more["1024"] = 0;
  EXPECT_EQ(ask(more).status, 400);
  EXPECT_NE(ask(more).body.find("1025 entries; use at most 1024"), std::string::npos);
  for (const char* key : {"01", "-0", "+1", " 1", "1 ", "1e1", "", "99999999999"})
    EXPECT_EQ(ask({{key, 1}}).status, 400) << key;
  const int vocab = model_->model->config().vocab;
  EXPECT_EQ(ask({{std::to_string(vocab - 1), 1}}).status, 200);
  EXPECT_EQ(ask({{std::to_string(vocab), 1}}).status, 400);
}

TEST_F(RequestLimits, AnswersOfOneRequest) {
  Json prompts = Json::array();
  for (int i = 0; i < 10; ++i) prompts.push_back("a fox");
  EXPECT_EQ(refusal("/v1/completions", {{"prompt", prompts}, {"n", 13}, {"max_tokens", 1}})["param"], "n");
  EXPECT_EQ(post("/v1/completions", {{"prompt", prompts}, {"n", 12}, {"max_tokens", 1}}).status, 200);
  for (int i = 0; i < 119; ++i) prompts.push_back("a fox");
  EXPECT_EQ(refusal("/v1/completions", {{"prompt", prompts}, {"max_tokens", 1}})["param"], "prompt");
}

// Many answers with all their probabilities: a stream sends them, one reply does not hold them.
TEST_F(RequestLimits, AReplyThatIsSentWholeIsBounded) {
  Json body = story(420);
  body.update({{"n", 128}, {"min_tokens", 420}, {"logprobs", true}, {"top_logprobs", 20}});
  const Json error = refusal("/v1/chat/completions", body);
  EXPECT_EQ(error["code"], "reply_too_long") << error;
  EXPECT_NE(error["message"].get<std::string>().find("ask for a stream"), std::string::npos) << error;
  body["max_tokens"] = body["min_tokens"] = 8;
  EXPECT_EQ(post("/v1/chat/completions", body).status, 200);
}

// A few bytes more than the longest tokens could spell: no route tokenizes it.
TEST_F(RequestLimits, TextThatCannotFitIsNotTokenized) {
  size_t longest = 1;
  for (TokenId id = 0; id < model_->tokenizer.vocab_size(); ++id)
    longest = std::max(longest, model_->tokenizer.bytes_of(id).size());
  const size_t most = static_cast<size_t>(model_->engine.config().context) * longest;
  const std::string text(most + 1, 'x');
  const Json messages{{{"role", "user"}, {"content", text}}};
  const std::vector<std::pair<const char*, Json>> asked{{"/v1/completions", {{"prompt", text}}},
                                                        {"/v1/completions", {{"prompt", {"a", text}}}},
                                                        {"/v1/chat/completions", {{"messages", messages}}},
                                                        {"/v1/responses", {{"input", text}}},
                                                        {"/v1/responses/input_tokens", {{"input", text}}},
                                                        {"/tokenize", {{"content", text}}},
                                                        {"/apply-template", {{"messages", messages}}}};
  for (const auto& [path, body] : asked) {
    const Json error = refusal(path, body);
    EXPECT_EQ(error["code"], "context_length_exceeded") << path;
    EXPECT_NE(error["message"].get<std::string>().find(std::to_string(most)), std::string::npos) << error;
  }
  for (const char* path : {"/v1/messages", "/v1/messages/count_tokens"})
    EXPECT_EQ(post(path, {{"messages", messages}, {"max_tokens", 1}}).status, 400) << path;
  EXPECT_EQ(post("/api/chat", {{"messages", messages}}).status, 400);
  EXPECT_EQ(post("/api/generate", {{"prompt", text}, {"raw", true}}).status, 400);
  EXPECT_EQ(post("/tokenize", {{"content", std::string(1000, 'x')}}).status, 200);
}

TEST_F(RequestLimits, ListsOfTokens) {
  const Json many(Json::array_t(200'000, 7));
  EXPECT_EQ(refusal("/detokenize", {{"tokens", many}})["param"], "tokens");
  EXPECT_EQ(post("/detokenize", {{"tokens", Json::array_t(1000, 7)}}).status, 200);
}

TEST_F(RequestLimits, AChatOfManyMessagesEndsSoon) {
  Json body{{"messages", Json::array()}, {"max_tokens", 1}};
  for (int i = 0; i < 200'000; ++i)
    body["messages"].push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", "x"}});
  const std::string text = body.dump();
  EXPECT_LT(cpu_seconds([&] { EXPECT_EQ(ask("POST", "/v1/chat/completions", text).status, 400); }), 20);
}

// Once each was put behind a copy of all before it.
TEST(RequestCosts, ManyResultsInARow) {
  OrderedJson messages = OrderedJson::array();
  const std::string result(100, 'x');
  for (int i = 0; i < 50'000; ++i) messages.push_back({{"role", "tool"}, {"tool_call_id", "c"}, {"content", result}});
  EXPECT_LT(cpu_seconds([&] { EXPECT_EQ(messages_with_tools(messages, {}).size(), 1U); }), 5);
}

TEST(RequestCosts, StopStringsThatAreNearlyMet) {
  std::vector<std::string> stops;
  for (int i = 0; i < 64; ++i)
    stops.push_back(std::string(static_cast<size_t>(2000 + i), 'a') + "b" + std::string(2000, 'a'));
  StopStrings matcher(stops);
  EXPECT_LT(cpu_seconds([&] {
              for (int i = 0; i < 20'000; ++i) matcher.push("a");
            }),
            5);
  EXPECT_FALSE(matcher.matched());
}

TEST(Excerpts, AreShortAndValid) {
  EXPECT_EQ(excerpt("short"), "short");
  EXPECT_EQ(excerpt("abcdef", 3), "abc…");
  EXPECT_EQ(excerpt("a\xC3\xA9"
                    "b",
                    2),
            "a…");
  for (size_t most = 0; most < 12; ++most) {
    const std::string cut = excerpt("\xE2\x82\xAC\xF0\x9F\xA6\x8A\xFF\xC3\xE2\x82\xAC", most);
    EXPECT_EQ(to_valid_utf8(cut), cut);
  }
}

TEST_F(RequestLimits, ErrorsQuoteLittle) {
  const std::string large(1'000'000, 'q');
  Json kv = story(1);
  kv["kv"] = large;
  Json setting = story(1);
  setting["kv"] = {{large, true}};
  Json schema = story(1);
  schema["guided_json"] = {{"type", large}};
  Json role = story(1);
  role["messages"][0]["role"] = large;
  Json bias = story(1);
  bias["logit_bias"] = {{large, 1}};
  Json reference = story(1);
  reference["guided_json"] = {{"$ref", large}};
  for (const Json& body : {kv, setting, schema, role, bias, reference}) {
    const Reply reply = post("/v1/chat/completions", body);
    EXPECT_EQ(reply.status, 400);
    EXPECT_LT(reply.body.size(), 1500U) << reply.body.substr(0, 300);
  }
  const Reply bad = ask("POST", "/v1/chat/completions", "{\"a\":\"" + std::string(1'000'000, '\xFF') + "\"}");
  EXPECT_EQ(bad.status, 400);
  EXPECT_LT(bad.body.size(), 1500U);
  EXPECT_EQ(to_valid_utf8(bad.body), bad.body);
}

TEST(AdmissionTest, ARefusedOneNeverStandsInAnothersWay) {
  Admission admission(10);
  std::atomic<bool> done = false;
  std::thread large([&] {
    while (!done) EXPECT_FALSE(admission.admit(11));
  });
  for (int i = 0; i < 200'000; ++i) {
    const auto place = admission.admit(1);
    ASSERT_TRUE(place) << i;
  }
  done = true;
  large.join();
  EXPECT_EQ(admission.taken(), 0);
}

TEST(WaitEstimateTest, TellsEachItsTurn) {
  using Clock = WaitEstimate::Clock;
  const auto at = [](double seconds) {
    return Clock::time_point{} + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  };
  WaitEstimate wait(at(0));
  EXPECT_EQ(wait.refused(at(0.1), 1), 1);
  for (int i = 1; i <= 40; ++i) wait.freed(at(2.0 * i), 1);  // a place every two seconds
  // Ten who come at once are sent back one after the other.
  int before = 0;
  for (int i = 1; i <= 10; ++i) {
    const int told = wait.refused(at(80), 1);
    EXPECT_NEAR(told, 2 * i, 2) << i;
    EXPECT_GE(told, before);
    before = told;
  }
  for (int i = 41; i <= 60; ++i) wait.freed(at(2.0 * i), 1);  // they were served
  EXPECT_LE(wait.refused(at(120), 1), 3);
  EXPECT_NEAR(wait.refused(at(120), 8), 18, 3);
  for (int i = 0; i < 100; ++i) EXPECT_LE(wait.refused(at(120), 100), WaitEstimate::kMostSeconds);
  // Nothing is given back for a long time: the estimate grows with it.
  WaitEstimate stuck(at(0));
  EXPECT_GE(stuck.refused(at(30), 1), 20);
}

TEST(RecordsTest, KeepsTheNewestWithinItsBytesForEachTenant) {
  FinishedRecord record;
  record.tenant = 1;
  record.request_id = "x";
  record.tasks.resize(FinishedRecord::kMostTasks);
  for (FinishedRecord::Task& task : record.tasks) task.record.chunks.resize(100);
  Records one({.records = 1, .bytes = size_t{1} << 20});
  one.add(record);
  const size_t each = one.bytes(1);
  EXPECT_GT(each, to_text(to_json(record)).size());
  Records records({.records = 100, .bytes = 3 * each + each / 2});
  for (int i = 0; i < 10; ++i) {
    record.request_id = std::to_string(i);
    records.add(record);
    EXPECT_LE(records.bytes(1), 3 * each + each / 2);
  }
  EXPECT_EQ(Json::parse(records.find(1, "9").value_or("{}"))["id"], "9");
  EXPECT_TRUE(records.find(1, "7"));
  EXPECT_FALSE(records.find(1, "6"));
  EXPECT_FALSE(records.find(2, "9"));
  EXPECT_EQ(records.bytes(2), 0U);
  Records none({.records = 100, .bytes = each - 1});
  none.add(record);
  EXPECT_EQ(none.bytes(1), 0U);
}

TEST_F(RequestLimits, ARecordTellsOfTheFirstChoices) {
  Json body = story(1);
  body["n"] = 40;
  const Json reply = post("/v1/chat/completions", body).json();
  const Json record = ask("GET", "/kvasir/requests/" + reply["id"].get<std::string>()).json();
  EXPECT_EQ(record["finish_reasons"].size(), 40U);
  EXPECT_EQ(record["tasks"].size(), FinishedRecord::kMostTasks);
}

// Under a policy that evicts tokens nothing is published: nothing was written to be found again.
TEST(CacheWrites, PrivatePoliciesWriteNothingToBeFound) {
  LlmOptions options = draft_options();
  options.kv_allow = {"any"};
  LoadedModel model(options);
  const TestServer server(model);
  const Json prompt(Json::array_t(200, 300));
  const auto usage = [&](const char* kv) {
    const Reply reply = server.post("/v1/completions", {{"prompt", prompt}, {"max_tokens", 1}, {"kv", kv}});
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.json()["usage"]["prompt_tokens_details"]["cache_write_tokens"].get<int>();
  };
  EXPECT_EQ(usage("f16, evict=fifo:64, sinks=4"), 0);
  EXPECT_GT(usage("f16"), 0);
  const Json messages{{{"role", "user"}, {"content", std::string(400, 'q')}}};
  const Json said =
      server.post("/v1/messages", {{"messages", messages}, {"max_tokens", 1}, {"kv", "f16, evict=fifo:64"}}).json();
  EXPECT_EQ(said["usage"]["cache_creation_input_tokens"], 0) << said;
}

TEST(MemoryReturnTest, AfterEachLargeRequestAndOnceMoreAndNowAndThen) {
  MemoryReturn memory;
  for (int i = 0; i < 100; ++i) memory.after(1000);
  EXPECT_EQ(memory.times(), 1);  // and not again before ten seconds have passed
  for (int i = 0; i < 10; ++i) memory.after(2 << 20);
  EXPECT_EQ(memory.times(), 11);
  for (int i = 0; i < 100; ++i) memory.after(1000);
  EXPECT_LE(memory.times(), 12);  // not before a second has passed
}

class TenantLimits : public ServedDraft {
 protected:
  static ServiceOptions options(std::vector<KeyEntry> entries) {
    ServiceOptions out;
    out.keys = KeysFile{random_secret(), std::move(entries)};
    return out;
  }
  static Json ask(Service& service, const TestKey& who, const char* method, const std::string& path,
                  const Json& body) {
    HttpRequest request{method, path, body.is_null() ? "" : body.dump(), "req-" + std::to_string(++asked_), who.key};
    EXPECT_FALSE(service.identify(request));
    Response response = service.handle(request);
    for (Work::Progress progress; response.work && !progress.done;) {
      progress = response.work->take();
      response.reply.body += progress.bytes;
      std::this_thread::yield();
    }
    return parse_json(response.reply.body);
  }
  static inline int asked_ = 0;
};

// Nobody learns from the numbers of its own requests how many others came between them.
TEST_F(TenantLimits, NumbersOfTasksAreATenantsOwn) {
  const TestKey alice = new_key("alice");
  const TestKey bob = new_key("bob");
  TestKey operators = new_key("op");
  operators.entry.sees = KeyEntry::Sees::kAll;
  Service service(*model_, options({alice.entry, bob.entry, operators.entry}));
  const auto number = [&](const TestKey& who) {
    const Json answer = ask(service, who, "POST", "/v1/chat/completions", story(1));
    const Json record = ask(service, who, "GET", "/kvasir/requests/" + answer["id"].get<std::string>(), nullptr);
    return record["tasks"][0]["id_task"].get<std::uint64_t>();
  };
  const std::uint64_t first = number(operators);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 8; ++i) {
    const std::uint64_t mine = number(bob);
    EXPECT_TRUE(seen.insert(mine).second);
    EXPECT_GT(mine, 100'000U);  // one of 2^48, not one more than the last
    number(alice);
  }
  EXPECT_EQ(number(operators), first + 17);
}

TEST(TaskNumbers, AreDifferentForEachTaskAndTenant) {
  Caller alice;
  alice.secret = random_secret();
  Caller bob = alice;
  bob.secret = random_secret();
  std::set<std::uint64_t> seen;
  for (RequestId id = 0; id < 2000; ++id) {
    EXPECT_TRUE(seen.insert(task_number(alice, id)).second);
    EXPECT_LT(task_number(alice, id), std::uint64_t{1} << 48);
    EXPECT_NE(task_number(alice, id), task_number(bob, id));
    EXPECT_EQ(task_number(alice, id), task_number(alice, id));
  }
  bob.sees = KeyEntry::Sees::kAll;
  EXPECT_EQ(task_number(bob, 17), 17U);
}

TEST_F(TenantLimits, OneTenantLeavesHalfOfThePlaces) {
  const TestKey alice = new_key("alice");
  const TestKey bob = new_key("bob");
  ServiceOptions few = options({alice.entry, bob.entry});
  few.max_queued = 0;
  Service service(*model_, few);
  const auto places = static_cast<int>(model_->engine.config().scheduler.max_sequences);
  Json body = story(64);
  const auto begin = [&](const TestKey& who, int n) {
    body["n"] = n;
    HttpRequest request{"POST", "/v1/chat/completions", body.dump(), "req", who.key};
    EXPECT_FALSE(service.identify(request));
    return service.handle(request);
  };
  std::vector<Response> running;
  int taken = 0;
  for (; taken + 16 <= places / 2; taken += 16) running.push_back(begin(alice, 16));
  for (const Response& one : running) EXPECT_NE(one.work, nullptr) << one.reply.body;
  EXPECT_EQ(begin(alice, places / 2 - taken + 1).reply.status, taken == 0 ? 400 : 429);
  EXPECT_NE(begin(bob, 1).work, nullptr);
}

TEST_F(TenantLimits, WithoutKeysTheLargestRequestLeavesRoomForOthers) {
  Service service(*model_, {.max_queued = 0});
  Json body = story(64);
  body["n"] = 128;
  const Response large = service.handle({"POST", "/v1/chat/completions", body.dump(), "req"});
  EXPECT_NE(large.work, nullptr) << large.reply.body;
  EXPECT_NE(service.handle({"POST", "/v1/chat/completions", story(1).dump(), "req"}).work, nullptr);
}

}  // namespace
}  // namespace kvasir::testing
