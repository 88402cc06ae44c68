// A server from before its model is loaded to after its last answer.
#include <fstream>

#include "held_server.h"

namespace kvasir::testing {
namespace {

using std::chrono::milliseconds;

class HttpLifeTest : public ServedDraft {};

TEST_F(HttpLifeTest, TellsThatTheModelIsLoaded) {
  Log log({.file = "/dev/null"});
  FrontDoor door(&log);
  HttpServer server({.port = 0}, door.callbacks());
  std::thread thread([&] { server.run(); });
  const auto ask = [&](const std::string& path) { return Client(server.port()).ask("GET", path); };
  EXPECT_EQ(ask("/health").status, 503);
  EXPECT_EQ(ask("/health").json()["status"], "loading");
  EXPECT_EQ(ask("/health/ready").status, 503);
  EXPECT_EQ(ask("/health/live").status, 200);
  const Reply early = ask("/v1/models");
  EXPECT_EQ(early.status, 503);
  EXPECT_TRUE(early.headers.contains("retry-after"));
  EXPECT_EQ(early.json()["error"]["type"], "unavailable_error");
  {
    Service service(*model_, {});
    door.open(service);
    for (const char* path : {"/health", "/v1/health", "/health/ready", "/health/live"}) {
      EXPECT_EQ(ask(path).status, 200) << path;
      EXPECT_EQ(ask(path).json()["status"], "ok") << path;
    }
    EXPECT_EQ(ask("/v1/models").status, 200);
    EXPECT_NE(ask("/metrics").body.find("kvasir:log_lines_dropped_total{"), std::string::npos);
    EXPECT_EQ(Client(server.port()).ask("POST", "/health").status, 405);
    server.stop();
    thread.join();
  }
}

TEST_F(HttpLifeTest, TellsThatItDrains) {
  TestServer server(*model_);
  Json body = story(400);
  body["ignore_eos"] = true;
  body["stream"] = true;
  Client busy(server.port());
  busy.send(request_text("POST", "/v1/chat/completions", body.dump()));
  ASSERT_TRUE(busy.receive_until("data: "));
  server.drain();
  ASSERT_TRUE(eventually([&] { return server.ask("GET", "/health").status == 503; }));
  const Reply health = server.ask("GET", "/health");
  EXPECT_EQ(health.json()["status"], "draining");
  EXPECT_EQ(health.headers.at("connection"), "close");
  EXPECT_EQ(server.ask("GET", "/health/live").status, 200);
  const Reply late = server.ask("GET", "/v1/models");
  EXPECT_EQ(late.status, 503);
  EXPECT_EQ(late.headers.at("retry-after"), "1");
  EXPECT_TRUE(busy.read_reply().body.ends_with("data: [DONE]\n\n"));
  server.join();
}

TEST_F(HttpLifeTest, ADrainHasADeadline) {
  HttpOptions options;
  options.drain_timeout = milliseconds(100);
  TestServer server(*model_, options);
  Json body = story(2000);
  body["ignore_eos"] = true;
  body["n"] = 8;
  std::vector<std::unique_ptr<Client>> clients;
  for (const bool stream : {true, false}) {
    body["stream"] = stream;
    clients.push_back(std::make_unique<Client>(server.port()));
    clients.back()->send(request_text("POST", "/v1/chat/completions", body.dump()));
  }
  ASSERT_TRUE(eventually([&] { return server.service().in_flight() == 16; }));
  server.drain();
  const Json last = events_of(clients[0]->read_reply().body).back();
  EXPECT_EQ(last["error"]["type"], "unavailable_error");
  const Reply whole = clients[1]->read_reply();
  EXPECT_EQ(whole.status, 503);
  EXPECT_EQ(whole.headers.at("retry-after"), "1");
  server.join();
  EXPECT_TRUE(eventually([&] { return server.service().in_flight() == 0; }));
}

TEST(HttpDrain, EndsWhatWaitsForAHandlerAndWhatIsHalfSent) {
  HeldServer server({.drain_timeout = milliseconds(200), .handler_threads = 1});
  const auto endless = server.begin("/endless/whole");
  ASSERT_TRUE(eventually([&] { return server.handled() == 1; }));
  const auto running = server.begin("/held");
  ASSERT_TRUE(eventually([&] { return server.handled() == 2; }));
  const auto waiting = server.begin("/held");
  Client half(server.port());
  half.send("POST /quick HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\nx");
  std::this_thread::sleep_for(milliseconds(50));
  server.server().drain();
  EXPECT_EQ(endless->read_reply().body, "shutdown");
  EXPECT_EQ(waiting->read_reply().status, 503);
  EXPECT_TRUE(half.closed_by_peer());
  EXPECT_EQ(server.answers_ended(), 3U);
  server.let_go();
  server.join();
}

TEST(HttpDrain, DoesNotWaitForThoseWhoComeLate) {
  HeldServer server({.drain_timeout = milliseconds(0)});
  const auto running = server.begin("/held");
  ASSERT_TRUE(eventually([&] { return server.handled() == 1; }));
  server.server().drain();
  Client silent(server.port());  // and says nothing
  EXPECT_TRUE(eventually([&] { return server.ask("/quick").status == 503; }));
  server.let_go();
  EXPECT_EQ(running->read_reply().status, 200);
  server.join();
  EXPECT_TRUE(silent.closed_by_peer());
}

TEST_F(HttpLifeTest, ALogThatCannotBeWrittenChangesNothing) {
  Log log({.format = LogFormat::kJson, .file = "/dev/full"});
  FrontDoor door(&log);
  Service service(*model_, {});
  HttpServer server({.port = 0}, door.callbacks());
  door.open(service);
  std::thread thread([&] { server.run(); });
  Client client(server.port());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(client.ask("POST", "/v1/chat/completions", story(2).dump()).status, 200);
  EXPECT_TRUE(eventually([&] {
    const std::string page = client.ask("GET", "/metrics").body;
    return page.find("kvasir:log_lines_dropped_total{") != std::string::npos &&
           page.find("kvasir:log_lines_dropped_total{model_name=\"kvasir\"} 0\n") == std::string::npos;
  }));
  server.stop();
  thread.join();
}

TEST_F(HttpLifeTest, ARequestsLineHasItsTokens) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("kvasir_life_" + std::to_string(::getpid()));
  {
    Log log({.format = LogFormat::kJson, .file = file});
    FrontDoor door(&log);
    Service service(*model_, {});
    HttpServer server({.port = 0}, door.callbacks());
    door.open(service);
    std::thread thread([&] { server.run(); });
    EXPECT_EQ(
        Client(server.port()).ask("POST", "/v1/chat/completions", story(3).dump(), "x-request-id: mine\r\n").status,
        200);
    server.drain();
    thread.join();
  }
  std::ifstream stream(file);
  std::string line;
  ASSERT_TRUE(std::getline(stream, line));
  const Json told = Json::parse(line);
  EXPECT_EQ(told["event"], "request");
  EXPECT_EQ(told["id"], "mine");
  EXPECT_EQ(told["tenant"], "-");
  EXPECT_EQ(told["answer_tokens"], 3);
  EXPECT_GT(told["prompt_tokens"], 3);
  EXPECT_EQ(told["outcome"], "done");
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace kvasir::testing
