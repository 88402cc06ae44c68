// Clients that send garbage, halves, floods and trickles: the server answers or closes, and the next good request
// works.
#include <random>

#include "test_server.h"

namespace kvasir::testing {
namespace {

class HostileBytesTest : public ServedDraft {
 protected:
  static HttpOptions impatient() {
    HttpOptions options;
    options.header_timeout = std::chrono::milliseconds(200);
    options.body_timeout = std::chrono::milliseconds(300);
    options.idle_timeout = std::chrono::milliseconds(400);
    options.header_bytes = 8192;
    options.body_bytes = 1 << 20;
    return options;
  }

  void expect_alive() {
    const Reply reply = server_.post("/v1/chat/completions", story(3));
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.json()["usage"]["completion_tokens"], 3);
  }

  TestServer server_{*model_, impatient()};
};

TEST_F(HostileBytesTest, Garbage) {
  std::mt19937 random(1);
  for (int i = 0; i < 50; ++i) {
    std::string bytes;
    for (auto n = random() % 3000; n > 0; --n) bytes += static_cast<char>(random());
    Client client(server_.port());
    client.send(bytes + "\r\n\r\n");
    const int status = client.read_reply().status;
    EXPECT_TRUE(status == 0 || status == 400 || status == 431) << status;
  }
  expect_alive();
}

TEST_F(HostileBytesTest, BrokenHeads) {
  for (const char* bytes :
       {"GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "G\x01T / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\ncontent-length: x\r\n\r\n", "POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-length: 99999999999999999999999\r\n\r\n"}) {
    Client client(server_.port());
    client.send(bytes);
    const Reply reply = client.read_reply();
    EXPECT_TRUE(reply.status == 400 || reply.status == 405 || reply.status == 413) << bytes << reply.status;
    EXPECT_TRUE(reply.json()["error"].contains("message"));
  }
  expect_alive();
}

TEST_F(HostileBytesTest, HugeHeadersAndBodies) {
  Client headers(server_.port());
  headers.send("GET / HTTP/1.1\r\nx: " + std::string(100'000, 'a') + "\r\n\r\n");
  EXPECT_EQ(headers.read_reply().status, 431);
  Client many(server_.port());
  std::string lines = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 5000; ++i) lines += "x-" + std::to_string(i) + ": y\r\n";
  many.send(lines + "\r\n");
  EXPECT_EQ(many.read_reply().status, 431);
  EXPECT_EQ(server_.ask("POST", "/v1/completions", std::string((1 << 20) + 1, ' ')).status, 413);
  Client chunked(server_.port());
  chunked.send("POST /v1/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n");
  const std::string chunk = "10000\r\n" + std::string(0x10000, ' ') + "\r\n";
  for (int i = 0; i < 40 && chunked.send(chunk); ++i) {
  }
  EXPECT_EQ(chunked.read_reply().status, 413);
  expect_alive();
}

TEST_F(HostileBytesTest, HalfRequestsAndTrickles) {
  {
    Client half(server_.port());
    half.send("POST /v1/completions HTTP/1.1\r\ncontent-le");
  }
  {
    Client half(server_.port());
    half.send("POST /v1/completions HTTP/1.1\r\ncontent-length: 100\r\n\r\n{\"prompt\":");
  }
  Client nothing(server_.port());
  Client slow(server_.port());
  Client slow_body(server_.port());
  slow_body.send("POST /v1/completions HTTP/1.1\r\ncontent-length: 100\r\n\r\n");
  // A byte now and then does not keep a connection: the time is for all of the head, and for all of the body.
  const auto start = std::chrono::steady_clock::now();
  bool head_open = true;
  bool body_open = true;
  for (int i = 0; i < 60 && (head_open || body_open); ++i) {
    head_open = head_open && slow.send("G");
    body_open = body_open && slow_body.send(" ");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_FALSE(head_open);
  EXPECT_FALSE(body_open);
  EXPECT_TRUE(nothing.closed_by_peer());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  expect_alive();
}

TEST_F(HostileBytesTest, HostileJson) {
  for (const std::string& body :
       {std::string(500'000, '['), std::string("{\"prompt\":\"\xff\xfe\"}"), std::string("{\"prompt\":1e999}"),
        std::string("\"\\ud800\""), std::string(1000, '\0')}) {
    EXPECT_EQ(server_.ask("POST", "/v1/completions", body).status, 400);
  }
  expect_alive();
}

TEST_F(HostileBytesTest, ExpectContinueAndOldHttp) {
  Client curl(server_.port());
  const std::string body = R"({"content":"x"})";
  curl.send("POST /tokenize HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: " + std::to_string(body.size()) +
            "\r\n\r\n");
  EXPECT_TRUE(curl.receive_until("HTTP/1.1 100 Continue\r\n\r\n"));
  curl.buffer().clear();
  curl.send(body);
  EXPECT_EQ(curl.read_reply().status, 200);
  Json streamed = story(3);
  streamed["stream"] = true;
  Client old(server_.port());
  old.send("POST /v1/chat/completions HTTP/1.0\r\ncontent-length: " + std::to_string(streamed.dump().size()) +
           "\r\n\r\n" + streamed.dump());
  EXPECT_TRUE(old.closed_by_peer());
  EXPECT_NE(old.buffer().find("data: [DONE]"), std::string::npos);
  EXPECT_EQ(old.buffer().find("chunked"), std::string::npos);
}

TEST_F(HostileBytesTest, ClientsThatVanishAtRandom) {
  std::mt19937 random(7);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, seed = random()] {
      std::mt19937 mine(seed);
      for (int i = 0; i < 15; ++i) {
        Json body = story(200);
        body["stream"] = mine() % 2 == 0;
        body["ignore_eos"] = true;
        const std::string text = body.dump();
        const std::string all =
            "POST /v1/chat/completions HTTP/1.1\r\ncontent-length: " + std::to_string(text.size()) + "\r\n\r\n" +
            text;
        Client client(server_.port());
        client.send(all.substr(0, mine() % 3 == 0 ? mine() % all.size() : all.size()));
        std::this_thread::sleep_for(std::chrono::milliseconds(mine() % 8));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(eventually([&] { return server_.service().in_flight() == 0; }));
  expect_alive();
}

}  // namespace
}  // namespace kvasir::testing
