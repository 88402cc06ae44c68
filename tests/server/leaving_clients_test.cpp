// Clients that leave: in every state of a connection, in every way there is to leave, and at random. The server stops
// working for them, and the next good request works.
#include <atomic>
#include <random>

#include "hostile_server.h"

namespace kvasir::testing {
namespace {

enum class Way { kClose, kReset, kEndSending };
constexpr std::array<Way, 3> kWays{Way::kClose, Way::kReset, Way::kEndSending};

class LeavingClientsTest : public HostileTest {
 protected:
  static Json endless() {
    Json body = story(1900);
    body["ignore_eos"] = true;
    body["stream"] = true;
    return body;
  }

  static void leave(Client& client, Way way) {
    if (way == Way::kClose) return client.close();
    if (way == Way::kReset) return client.reset();
    client.end_sending();
    EXPECT_TRUE(client.closed_by_peer());
  }
};

TEST_F(LeavingClientsTest, AtAnyByteOfARequest) {
  const std::string good = request_text("POST", "/v1/chat/completions", endless().dump(), "expect: 100-continue\r\n");
  for (const Way way : kWays) {
    for (size_t cut = 0; cut <= good.size(); cut += cut + 3 < good.size() ? 3 : 1) {
      Client client(server_.port());
      client.send(std::string_view(good).substr(0, cut));
      leave(client, way);
    }
    expect_alive();
  }
}

TEST_F(LeavingClientsTest, WhileItIsAnswered) {
  const std::string chat = "/v1/chat/completions";
  for (const Way way : kWays) {
    for (const char* seen : {"HTTP/1.1 200", "\r\n\r\n", "data: {", "\"delta\":{\"content\"", "}\n\n\r\n"}) {
      Client client(server_.port());
      client.send(request_text("POST", chat, endless().dump()));
      EXPECT_TRUE(client.receive_until(seen));
      leave(client, way);
      EXPECT_TRUE(eventually([&] { return at_rest(server_); })) << seen;
    }
    Client between(server_.port());
    EXPECT_EQ(between.ask("GET", "/health").status, 200);
    leave(between, way);
    Client after_error(server_.port());
    after_error.send("nonsense\r\n\r\n");
    EXPECT_TRUE(after_error.receive_until("\r\n\r\n"));
    leave(after_error, way);
    expect_alive();
  }
}

// What a client sent ahead must not hide that it has left.
TEST_F(LeavingClientsTest, AfterTheBeginningOfANextRequest) {
  int i = 0;
  for (const Way way : {Way::kClose, Way::kEndSending}) {
    for (const std::string& ahead : {std::string("G"), request_text("GET", "/health", "")}) {
      Json body = endless();
      body["stream"] = false;
      body["n"] = 3;
      const std::string id = "ahead-" + std::to_string(i++);
      Client client(server_.port());
      client.send(request_text("POST", "/v1/chat/completions", body.dump(), "x-request-id: " + id + "\r\n"));
      EXPECT_TRUE(eventually([&] { return server_.service().in_flight() == 3; }));
      client.send(ahead);
      leave(client, way);
      EXPECT_TRUE(eventually([&] { return at_rest(server_); }));
      EXPECT_EQ(server_.ask("GET", "/kvasir/requests/" + id).json()["finish_reasons"][0], "abort");
    }
  }
  expect_alive();
}

// More wait than the model works on at once; those in the middle of the queue leave.
TEST_F(LeavingClientsTest, WhileItWaitsInTheQueue) {
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 12; ++i) {
    Json body = endless();
    body["n"] = 32;
    clients.push_back(std::make_unique<Client>(server_.port()));
    clients.back()->send(request_text("POST", "/v1/chat/completions", body.dump()));
  }
  EXPECT_TRUE(eventually([&] { return server_.service().in_flight() == 12 * 32; }));
  for (size_t i = 2; i < 10; ++i) leave(*clients[i], kWays[i % 2]);
  EXPECT_TRUE(eventually([&] { return server_.service().in_flight() == 4 * 32; }));
  clients.clear();
  expect_alive();
}

TEST_F(LeavingClientsTest, WithoutEverReading) {
  struct Endless : Work {
    explicit Endless(std::atomic<int>& count) : alive(count) { ++alive; }
    ~Endless() override { --alive; }
    void on_event(std::function<void()>) override {}
    Progress take() override { return {std::string(1 << 20, 'x'), false, 200}; }
    Progress give_up(GiveUp) override { return {"", true, 504}; }
    std::atomic<int>& alive;
  };
  std::atomic<int> alive = 0;
  HttpServer::Callbacks callbacks;
  callbacks.handle = [&alive](const HttpRequest&) {
    Response response;
    response.body = Response::Body::kStreamed;
    response.work = std::make_unique<Endless>(alive);
    return response;
  };
  HttpOptions options;
  options.port = 0;
  options.write_timeout = std::chrono::milliseconds(100);
  HttpServer server(options, callbacks);
  std::thread thread([&] { server.run(); });
  Client client(server.port());
  client.send(request_text("GET", "/", ""));
  EXPECT_TRUE(client.receive_until("HTTP/1.1 200"));
  EXPECT_TRUE(eventually([&] { return alive == 0; }));
  server.stop();
  thread.join();
}

TEST_F(LeavingClientsTest, AtRandom) {
  std::mt19937 random(7);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, seed = random()] {
      std::mt19937 mine(seed);
      for (int i = 0; i < 15; ++i) {
        Json body = story(200);
        body["stream"] = mine() % 2 == 0;
        body["ignore_eos"] = true;
        const std::string all = request_text("POST", "/v1/chat/completions", body.dump());
        Client client(server_.port());
        client.send(all.substr(0, mine() % 3 == 0 ? mine() % all.size() : all.size()));
        std::this_thread::sleep_for(std::chrono::milliseconds(mine() % 8));
        leave(client, kWays[mine() % 2]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect_alive();
}

}  // namespace
}  // namespace kvasir::testing
