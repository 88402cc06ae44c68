// Keys at the door, and what tenants see of each other.
#include "server/access/tenants.h"

#include <filesystem>
#include <fstream>

#include "server/http/http_text.h"
#include "test_keys.h"
#include "test_server.h"

namespace kvasir::testing {
namespace {

using namespace std::string_literals;

class TenantsTest : public ServedDraft {
 protected:
  ServiceOptions options() {
    ServiceOptions out;
    out.keys = keys_;
    return out;
  }
  static Reply ask(const TestServer& server, const TestKey& who, const std::string& path, const Json& body) {
    return server.ask("POST", path, body.dump(), who.header());
  }

  // A prompt of 64 tokens, four whole blocks, that nobody has sent before.
  Json fresh(int max_tokens = 2) {
    std::vector<TokenId> prompt;
    for (int i = 0; i < 64; ++i) prompt.push_back(static_cast<TokenId>(100 + (next_ = next_ * 69069 + 1) % 1000));
    return {{"prompt", prompt}, {"max_tokens", max_tokens}, {"temperature", 0}};
  }

  static std::int64_t cached(const Reply& reply) {
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"].get<std::int64_t>();
  }

  TestKey alice_ = new_key("alice");
  TestKey bob_ = new_key("bob");
  KeysFile keys_{random_secret(), {alice_.entry, bob_.entry}};
  std::uint32_t next_ = 12345;
};

TEST_F(TenantsTest, WithoutAKeyEachApiSaysSoInItsOwnWords) {
  const TestServer server(*model_, {}, options());
  const Reply openai = server.post("/v1/chat/completions", story(1));
  EXPECT_EQ(openai.status, 401);
  EXPECT_EQ(openai.headers.at("www-authenticate"), "Bearer");
  EXPECT_EQ(openai.json()["error"]["code"], "invalid_api_key");
  EXPECT_EQ(openai.json()["error"]["type"], "authentication_error");
  const Reply anthropic = server.post("/v1/messages", story(1));
  EXPECT_EQ(anthropic.status, 401);
  EXPECT_EQ(anthropic.json()["type"], "error");
  EXPECT_EQ(anthropic.json()["error"]["type"], "authentication_error");
  const Reply ollama = server.post("/api/chat", story(1));
  EXPECT_EQ(ollama.status, 401);
  EXPECT_TRUE(ollama.json()["error"].is_string());
  for (const char* path : {"/v1/models", "/props", "/metrics", "/kvasir/requests/x", "/api/tags", "/no-such-path"})
    EXPECT_EQ(server.ask("GET", path).status, 401) << path;
  for (const char* path : {"/", "/health", "/v1/health"}) EXPECT_EQ(server.ask("GET", path).status, 200) << path;
  const Reply wrong = server.ask("GET", "/v1/models", "", "authorization: Bearer kv-wrong\r\n");
  EXPECT_EQ(wrong.status, 401);
  EXPECT_EQ(wrong.body.find("kv-wrong"), std::string::npos);
}

TEST_F(TenantsTest, EitherHeaderOpensEveryRoute) {
  const TestServer server(*model_, {}, options());
  for (const std::string& header : {alice_.header(), "x-api-key: " + alice_.key + "\r\n"}) {
    EXPECT_EQ(server.ask("GET", "/v1/models", "", header).status, 200);
    EXPECT_EQ(server.ask("POST", "/v1/messages", story(1).dump(), header).status, 200);
    EXPECT_EQ(server.ask("POST", "/v1/chat/completions", story(1).dump(), header).status, 200);
    EXPECT_EQ(server.ask("GET", "/no-such-path", "", header).status, 404);
  }
}

TEST_F(TenantsTest, AnUnknownClientIsTurnedAwayBeforeItsBodyIsRead) {
  const TestServer server(*model_, {}, options());
  Client client(server.port());
  client.send("POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n");
  const Reply reply = client.read_reply();
  EXPECT_EQ(reply.status, 401);
  EXPECT_EQ(reply.headers.at("connection"), "close");
  Client expecting(server.port());
  expecting.send("POST /v1/completions HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n");
  EXPECT_EQ(expecting.read_reply().status, 401);
  Client polite(server.port());  // nothing is left unread: the connection goes on
  EXPECT_EQ(polite.ask("GET", "/v1/models").status, 401);
  EXPECT_EQ(polite.ask("GET", "/v1/models", "", bob_.header()).status, 200);
}

TEST_F(TenantsTest, ARequestNobodyIdentifiedIsNotServed) {
  Service service(*model_, options());
  EXPECT_EQ(service.handle({"POST", "/v1/chat/completions", story(1).dump(), "a"}).reply.status, 401);
  EXPECT_EQ(service.handle({"GET", "/kvasir/requests/a", "", "b"}).reply.status, 401);
  EXPECT_EQ(service.handle({"GET", "/health", "", "c"}).reply.status, 200);
}

TEST_F(TenantsTest, AnotherTenantsPromptIsNotFound) {
  const TestServer server(*model_, {}, options());
  const Json prompt = fresh();
  EXPECT_EQ(cached(ask(server, alice_, "/v1/completions", prompt)), 0);
  EXPECT_EQ(cached(ask(server, bob_, "/v1/completions", prompt)), 0);
  EXPECT_EQ(cached(ask(server, alice_, "/v1/completions", prompt)), 63);
  EXPECT_EQ(cached(ask(server, bob_, "/v1/completions", prompt)), 63);
}

TEST_F(TenantsTest, SaltAndCacheKeyDivideATenantsOwnSpace) {
  const TestServer server(*model_, {}, options());
  const Json prompt = fresh();
  const auto with = [&](const char* salt, const char* key) {
    Json body = prompt;
    if (salt != nullptr) body["cache_salt"] = salt;
    if (key != nullptr) body["prompt_cache_key"] = key;
    return cached(ask(server, alice_, "/v1/completions", body));
  };
  for (int round = 0; round < 2; ++round) {
    const std::int64_t expected = round == 0 ? 0 : 63;
    EXPECT_EQ(with(nullptr, nullptr), expected);
    EXPECT_EQ(with("x", nullptr), expected);
    EXPECT_EQ(with(nullptr, "x"), expected);
    EXPECT_EQ(with("x", "x"), expected);
  }
  Json long_salt = prompt;
  long_salt["cache_salt"] = std::string(5000, 'x');
  const Reply refused = ask(server, alice_, "/v1/completions", long_salt);
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.json()["error"]["param"], "cache_salt");
}

TEST_F(TenantsTest, EveryApiTakesASalt) {
  const TestServer server(*model_, {}, options());
  struct Api {
    const char* path;
    const char* cached;
  };
  for (const Api& api :
       {Api{"/v1/chat/completions", "/usage/prompt_tokens_details/cached_tokens"},
        Api{"/v1/messages", "/usage/cache_read_input_tokens"}, Api{"/api/chat", "/kvasir/reused_tokens"},
        Api{"/v1/responses", "/usage/input_tokens_details/cached_tokens"}}) {
    for (const char* name : {"cache_salt", "prompt_cache_key"}) {
      for (const char* salt : {"one", "two"}) {
        Json body = story(16);
        if (api.path == "/v1/responses"s)
          body = {{"input", "Tell me a story about a fox and a crow."}, {"max_output_tokens", 16}};
        if (api.path == "/api/chat"s) {
          body.erase("max_tokens");
          body["options"] = {{"num_predict", 16}};
        }
        body["stream"] = false;
        body["explain"] = true;
        body[name] = api.path + ""s + salt;
        const auto reused = [&] {
          const Reply reply = ask(server, alice_, api.path, body);
          EXPECT_EQ(reply.status, 200) << reply.body;
          return reply.json().value(Json::json_pointer(api.cached), -1);
        };
        EXPECT_EQ(reused(), 0) << api.path << name << salt;
        EXPECT_GT(reused(), 0) << api.path << name << salt;
      }
    }
  }
}

TEST_F(TenantsTest, RecordsOfOthersLookLikeNone) {
  const TestServer server(*model_, {}, options());
  const std::string named = alice_.header() + "x-request-id: secret-1\r\n";
  const Reply answer = server.ask("POST", "/v1/completions", fresh().dump(), named);
  const std::string id = answer.json()["id"];
  EXPECT_EQ(server.ask("GET", "/kvasir/requests/secret-1", "", alice_.header()).json()["answer_id"], id);
  const Reply theirs = server.ask("GET", "/kvasir/requests/secret-1", "", bob_.header());
  const Reply none = server.ask("GET", "/kvasir/requests/secret-2", "", bob_.header());
  EXPECT_EQ(theirs.status, 404);
  EXPECT_EQ(none.status, 404);
  std::string same = none.body;
  same.replace(same.find("secret-2"), 8, "secret-1");
  EXPECT_EQ(theirs.body, same);
  EXPECT_EQ(server.ask("GET", "/kvasir/requests/" + id, "", bob_.header()).status, 404);
  // Bob may use the same id: each finds their own.
  server.ask("POST", "/v1/completions", fresh().dump(), bob_.header() + "x-request-id: secret-1\r\n");
  EXPECT_EQ(server.ask("GET", "/kvasir/requests/secret-1", "", alice_.header()).json()["answer_id"], id);
  EXPECT_NE(server.ask("GET", "/kvasir/requests/secret-1", "", bob_.header()).json()["answer_id"], id);
}

TEST_F(TenantsTest, ResponsesOfOthersLookLikeNone) {
  const TestServer server(*model_, {}, options());
  const Json asked{{"input", "Tell me of a fox."}, {"max_output_tokens", 2}};
  const std::string id = ask(server, alice_, "/v1/responses", asked).json()["id"];
  const std::string path = "/v1/responses/" + id;
  EXPECT_EQ(server.ask("GET", path, "", bob_.header()).status, 404);
  EXPECT_EQ(server.ask("GET", path + "/input_items", "", bob_.header()).status, 404);
  EXPECT_EQ(server.ask("DELETE", path, "", bob_.header()).status, 404);
  EXPECT_EQ(server.ask("GET", path).status, 401);
  EXPECT_EQ(server.ask("GET", path, "", alice_.header()).status, 200);
  const Json next{{"input", "Go on."}, {"previous_response_id", id}, {"max_output_tokens", 2}};
  EXPECT_EQ(ask(server, bob_, "/v1/responses", next).status, 404);
  EXPECT_EQ(ask(server, alice_, "/v1/responses", next).status, 200);
}

TEST_F(TenantsTest, MetricsShowATenantItselfAndAnOperatorAll) {
  keys_.entries.push_back(new_key("unused").entry);
  TestKey watcher = new_key("watcher");
  watcher.entry.sees = KeyEntry::Sees::kAll;
  keys_.entries.push_back(watcher.entry);
  const TestServer server(*model_, {}, options());
  const Json prompt = fresh();
  for (int i = 0; i < 2; ++i) ask(server, bob_, "/v1/completions", prompt);
  const std::string own = server.ask("GET", "/metrics", "", bob_.header()).body;
  EXPECT_NE(own.find("tenant=\"bob\"} "), std::string::npos);
  EXPECT_EQ(own.find("alice"), std::string::npos);
  EXPECT_EQ(own.find("vllm:"), std::string::npos) << "numbers of all tell of others";
  const std::string all = server.ask("GET", "/metrics", "", watcher.header()).body;
  EXPECT_NE(all.find("tenant=\"alice\"} "), std::string::npos);
  EXPECT_NE(all.find("vllm:prefix_cache_hits_total"), std::string::npos);
  EXPECT_EQ(server.ask("GET", "/metrics").status, 401);
}

TEST_F(TenantsTest, PublicMetricsNeedNoKeyAndNothingElseIsPublic) {
  ServiceOptions shown = options();
  shown.metrics_for = ServiceOptions::MetricsFor::kAnyone;
  const TestServer open(*model_, {}, shown);
  EXPECT_NE(open.ask("GET", "/metrics").body.find("tenant=\"bob\"} "), std::string::npos);
  EXPECT_EQ(open.ask("GET", "/v1/models").status, 401);
}

TEST_F(TenantsTest, PublicBeginningsAreSharedAndNothingBehindThem) {
  const auto file = std::filesystem::temp_directory_path() / ("kvasir_public_" + std::to_string(::getpid()) + ".txt");
  std::string text;
  for (int i = 0; i < 60; ++i) text += " the old fox";
  std::ofstream(file) << text;
  const std::vector<std::filesystem::path> files{file};
  LoadedModel own(draft_options(), files);
  std::filesystem::remove(file);
  const auto blocks = static_cast<std::int64_t>(own.public_texts.at(0).size()) / 16 * 16;
  ASSERT_GT(blocks, 0);
  const TestServer server(own, {}, options());
  // Computed at the house's expense: nobody is charged.
  const std::string charged = server.ask("GET", "/metrics", "", alice_.header()).body;
  for (const char* name : {"\nkvasir:tenant_prefix_cache_queries_total{", "\nkvasir:tenant_kv_blocks{"}) {
    const size_t line = charged.find(name);
    ASSERT_NE(line, std::string::npos) << name;
    EXPECT_TRUE(charged.substr(line, charged.find('\n', line + 1) - line).ends_with("tenant=\"alice\"} 0"))
        << charged;
  }
  std::string behind;
  for (int i = 0; i < 60; ++i) behind += " and a crow";
  const Json asked{{"prompt", text + behind}, {"max_tokens", 2}, {"temperature", 0}};
  EXPECT_EQ(cached(ask(server, alice_, "/v1/completions", asked)), blocks);
  EXPECT_EQ(cached(ask(server, bob_, "/v1/completions", asked)), blocks);
  EXPECT_GT(cached(ask(server, bob_, "/v1/completions", asked)), blocks);
}

TEST_F(TenantsTest, AnAnswerFitsItsTenantsShare) {
  LoadedModel own(draft_options());
  alice_.entry.share.most = 0.1;
  keys_ = {random_secret(), {bob_.entry, alice_.entry}};
  const TestServer server(own, {}, options());
  const auto longest = [&](const TestKey& who) {
    return server.ask("GET", "/props", "", who.header()).json()["default_generation_settings"]["n_ctx"].get<int>();
  };
  EXPECT_EQ(longest(bob_), own.longest);
  EXPECT_LT(longest(alice_), own.longest);
  Json body = story(1);
  body.erase("max_tokens");  // as many as fit
  EXPECT_EQ(ask(server, alice_, "/v1/chat/completions", body).status, 200);
  body["max_tokens"] = own.longest - 100;
  EXPECT_EQ(ask(server, alice_, "/v1/chat/completions", body).status, 400);
}

TEST_F(TenantsTest, OneTenantsFullQueueIsNotAnothers) {
  LoadedModel own(draft_options());
  ServiceOptions limited = options();
  limited.max_queued_per_tenant = 1 - own.engine.config().scheduler.max_sequences;  // one place each
  Service service(own, limited);
  const auto begin = [&](const TestKey& who) {
    Json body = story(100000);
    body["ignore_eos"] = true;
    HttpRequest request{"POST", "/v1/chat/completions", body.dump(), "a", who.key};
    EXPECT_FALSE(service.identify(request));
    return service.handle(request);
  };
  Response first = begin(alice_);
  ASSERT_NE(first.work, nullptr);
  const Response second = begin(alice_);
  EXPECT_EQ(second.reply.status, 429);
  ASSERT_EQ(second.reply.headers.size(), 1U);
  EXPECT_EQ(second.reply.headers[0].first, "retry-after");
  EXPECT_GE(std::stoi(second.reply.headers[0].second), 1);
  EXPECT_NE(begin(bob_).work, nullptr);
  first.work.reset();
  EXPECT_TRUE(eventually([&] { return begin(alice_).work != nullptr; }));
}

TEST_F(TenantsTest, WhoIsRemovedFinishesWhatRuns) {
  TestServer server(*model_, {}, options());
  Client client(server.port());
  Json body = story(300);
  body["ignore_eos"] = true;
  body["stream"] = true;
  const std::string text = body.dump();
  client.send("POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n" + alice_.header() +
              "content-length: " + std::to_string(text.size()) + "\r\n\r\n" + text);
  ASSERT_TRUE(client.receive_until("data: "));
  const TestKey carol = new_key("carol");
  server.service().set_keys({keys_.secret, {bob_.entry, carol.entry}});
  EXPECT_EQ(server.ask("GET", "/v1/models", "", alice_.header()).status, 401);
  EXPECT_EQ(server.ask("GET", "/v1/models", "", carol.header()).status, 200);
  const Reply whole = client.read_reply();
  EXPECT_EQ(whole.status, 200);
  EXPECT_TRUE(whole.body.ends_with("data: [DONE]\n\n"));
}

TEST_F(TenantsTest, ANameThatPointsHereIsNotEnough) {
  HttpOptions http;
  http.allowed_hosts = std::vector<std::string>{"box.lan"};
  const TestServer server(*model_, http);
  const auto status = [&](const std::string& host) {
    Client client(server.port());
    client.send("GET /v1/models HTTP/1.1\r\n" + host + "\r\n");
    return client.read_reply().status;
  };
  EXPECT_EQ(status("host: 127.0.0.1:8080\r\n"), 200);
  EXPECT_EQ(status("host: box.lan\r\n"), 200);
  EXPECT_EQ(status("host: evil.example:8080\r\n"), 403);
  EXPECT_EQ(status(""), 400);  // HTTP/1.1 has one
}

}  // namespace
}  // namespace kvasir::testing
