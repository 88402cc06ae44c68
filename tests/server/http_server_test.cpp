// The server over real sockets: answers, many at once, clients that leave, deadlines, drain.
#include "server/http/http_server.h"

#include "test_server.h"

namespace kvasir::testing {
namespace {

class HttpServerTest : public ServedDraft {
 protected:
  static Json endless() {
    Json body = story(2000);
    body["ignore_eos"] = true;
    return body;
  }
  static std::string text_of_stream(const std::string& stream) {
    std::string text;
    for (const Json& event : events_of(stream)) text += event["choices"][0]["delta"].value("content", "");
    return text;
  }
};

TEST_F(HttpServerTest, StreamedAndWholeAnswersAgree) {
  const TestServer server(*model_);
  Json body = story(40);
  const Reply whole = server.post("/v1/chat/completions", body);
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(whole.headers.at("content-type"), "application/json");
  body["stream"] = true;
  const Reply streamed = server.post("/v1/chat/completions", body);
  EXPECT_EQ(streamed.headers.at("content-type"), "text/event-stream");
  EXPECT_EQ(streamed.headers.at("transfer-encoding"), "chunked");
  EXPECT_EQ(text_of_stream(streamed.body), whole.json()["choices"][0]["message"]["content"]);
}

TEST_F(HttpServerTest, OneConnectionServesManyRequests) {
  const TestServer server(*model_);
  Client client(server.port());
  for (int i = 0; i < 20; ++i) {
    Json body = story(3);
    body["stream"] = i % 2 == 0;
    EXPECT_EQ(client.ask("POST", "/v1/chat/completions", body.dump()).status, 200);
    EXPECT_EQ(client.ask("GET", "/health").status, 200);
    EXPECT_EQ(client.ask("GET", "/nowhere").status, 404);
  }
  // Two requests sent before the first is answered.
  const std::string request = "GET /health HTTP/1.1\r\nhost: x\r\n\r\n";
  client.send(request + request);
  EXPECT_EQ(client.read_reply().status, 200);
  EXPECT_EQ(client.read_reply().status, 200);
}

TEST_F(HttpServerTest, ManyAtOnceGetWhatEachGetsAlone) {
  const TestServer server(*model_);
  constexpr int kClients = 16;
  const auto body = [](int who) {
    Json out = story(24 + who);
    out["messages"][0]["content"] = "Tell me a story about " + std::string(who % 3 == 0 ? "a fox" : "a wolf") +
                                    " and " + std::to_string(who % 5) + " crows.";
    out["temperature"] = 0.9;
    out["seed"] = who;
    out["stream"] = who % 2 == 1;
    return out;
  };
  const auto text = [&](int who) {
    const Reply reply = server.post("/v1/chat/completions", body(who));
    return who % 2 == 1 ? text_of_stream(reply.body)
                        : reply.json()["choices"][0]["message"]["content"].get<std::string>();
  };
  std::vector<std::string> together(kClients);
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) threads.emplace_back([&, i] { together[static_cast<size_t>(i)] = text(i); });
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kClients; ++i) EXPECT_EQ(together[static_cast<size_t>(i)], text(i)) << i;
}

TEST_F(HttpServerTest, AClientThatLeavesEndsItsRequest) {
  TestServer server(*model_);
  for (const bool stream : {true, false}) {
    Json body = endless();
    body["stream"] = stream;
    body["n"] = 3;
    Client client(server.port());
    const std::string text = body.dump();
    client.send("POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nx-request-id: leaves-" +
                std::to_string(stream) + "\r\ncontent-length: " + std::to_string(text.size()) + "\r\n\r\n" + text);
    if (stream) {
      EXPECT_TRUE(client.receive_until("data: "));
    }
    EXPECT_TRUE(eventually([&] { return server.service().in_flight() == 3; }));
    client.close();
    EXPECT_TRUE(eventually([&] { return server.service().in_flight() == 0; }));
    EXPECT_EQ(server.service().engine_numbers().running, 0);
    const Json record = server.ask("GET", "/kvasir/requests/leaves-" + std::to_string(stream)).json();
    EXPECT_EQ(record["finish_reasons"][0], "abort");
    EXPECT_LT(record["answer_tokens"], 3 * 2000);
  }
}

TEST_F(HttpServerTest, RequestIdsGoInAndOut) {
  const TestServer server(*model_);
  EXPECT_EQ(server.ask("GET", "/health", "", "x-request-id: mine-1\r\n").headers.at("x-request-id"), "mine-1");
  EXPECT_TRUE(server.ask("GET", "/health").headers.at("x-request-id").starts_with("req-"));
  EXPECT_TRUE(
      server.ask("GET", "/health", "", "x-request-id: a b\r\n").headers.at("x-request-id").starts_with("req-"));
  EXPECT_EQ(server.ask("GET", "/nowhere", "", "x-request-id: mine-2\r\n").headers.at("x-request-id"), "mine-2");
}

TEST_F(HttpServerTest, PagesFromElsewhereMayNotAsk) {
  const TestServer server(*model_);
  EXPECT_EQ(server.ask("GET", "/health", "", "origin: https://example.com\r\n").status, 403);
  const Reply local = server.ask("OPTIONS", "/v1/chat/completions", "", "origin: http://localhost:3000\r\n");
  EXPECT_EQ(local.status, 204);
  EXPECT_EQ(local.headers.at("access-control-allow-origin"), "http://localhost:3000");
  EXPECT_EQ(
      server.ask("GET", "/health", "", "origin: http://localhost:3000\r\n").headers.at("access-control-allow-origin"),
      "http://localhost:3000");
}

TEST_F(HttpServerTest, ADeadlineEndsAnAnswer) {
  HttpOptions options;
  options.request_timeout = std::chrono::milliseconds(40);
  TestServer server(*model_, options);
  Json body = endless();
  body["n"] = 8;
  const Reply whole = server.post("/v1/chat/completions", body);
  EXPECT_EQ(whole.status, 504);
  EXPECT_EQ(whole.headers.at("x-should-retry"), "false");
  body["stream"] = true;
  const Reply streamed = server.post("/v1/chat/completions", body);
  EXPECT_EQ(streamed.status, 200);
  EXPECT_TRUE(events_of(streamed.body).back().contains("error"));
  EXPECT_TRUE(eventually([&] { return server.service().in_flight() == 0; }));
}

TEST_F(HttpServerTest, SilenceInAStreamIsFilled) {
  HttpServer::Callbacks callbacks;
  struct Silent : Work {
    void on_event(std::function<void()>) override {}
    Progress take() override { return {"", std::chrono::steady_clock::now() > end, 200}; }
    Progress give_up(GiveUp) override { return {"", true, 504}; }
    std::chrono::steady_clock::time_point end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  };
  callbacks.handle = [](const HttpRequest&) {
    Response response;
    response.body = Response::Body::kStreamed;
    response.work = std::make_unique<Silent>();
    response.heartbeat = "still here\n";
    return response;
  };
  HttpOptions options;
  options.port = 0;
  options.heartbeat_after = std::chrono::milliseconds(20);
  HttpServer server(options, callbacks);
  std::thread thread([&] { server.run(); });
  const Reply reply = Client(server.port()).ask("GET", "/");
  EXPECT_TRUE(reply.body.starts_with("still here\nstill here\n")) << reply.body;
  server.drain();
  thread.join();
}

TEST_F(HttpServerTest, TurnsAwayWhatIsTooMuch) {
  HttpOptions options;
  options.max_connections = 2;
  const TestServer server(*model_, options);
  Client one(server.port());
  Client two(server.port());
  EXPECT_EQ(one.ask("GET", "/health").status, 200);
  EXPECT_EQ(two.ask("GET", "/health").status, 200);
  Client instead(server.port());  // of who was idle longest
  const Reply served = instead.ask("GET", "/health");
  EXPECT_EQ(served.status, 200) << served.body;
  EXPECT_FALSE(one.receive_until("\r\n"));
  for (Client* busy : {&two, &instead}) busy->send("POST /tokenize HTTP/1.1\r\nhost: localhost\r\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  Client three(server.port());
  const Reply reply = three.read_reply();
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.headers.at("retry-after"), "1");
  two.close();
  EXPECT_TRUE(eventually([&] { return Client(server.port()).ask("GET", "/health").status == 200; }));
}

TEST_F(HttpServerTest, DrainFinishesWhatRuns) {
  TestServer server(*model_);
  Client idle(server.port());
  EXPECT_EQ(idle.ask("GET", "/health").status, 200);
  Json body = story(400);
  body["ignore_eos"] = true;
  body["stream"] = true;
  Client busy(server.port());
  const std::string text = body.dump();
  busy.send("POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: " +
            std::to_string(text.size()) + "\r\n\r\n" + text);
  EXPECT_TRUE(busy.receive_until("data: "));
  server.drain();
  const Reply reply = busy.read_reply();
  EXPECT_TRUE(reply.body.ends_with("data: [DONE]\n\n"));
  server.join();
  EXPECT_TRUE(idle.closed_by_peer());
  EXPECT_EQ(server.service().in_flight(), 0);
}

TEST_F(HttpServerTest, StopCutsWhatRuns) {
  auto server = std::make_unique<TestServer>(*model_);
  Json body = endless();
  body["stream"] = true;
  Client busy(server->port());
  const std::string text = body.dump();
  busy.send("POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: " +
            std::to_string(text.size()) + "\r\n\r\n" + text);
  EXPECT_TRUE(busy.receive_until("data: "));
  server.reset();
  EXPECT_TRUE(busy.closed_by_peer());
}

TEST_F(HttpServerTest, APortInUseIsAnError) {
  const TestServer server(*model_);
  HttpOptions options;
  options.port = server.port();
  EXPECT_THROW(HttpServer(options, {}), Error);
  options.host = "not an address";
  EXPECT_THROW(HttpServer(options, {}), Error);
}

}  // namespace
}  // namespace kvasir::testing
