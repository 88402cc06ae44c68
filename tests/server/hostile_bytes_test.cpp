// Clients that send garbage, halves, floods and trickles: the server answers or closes, and the next good request
// works.
#include <random>

#include "hostile_server.h"

namespace kvasir::testing {
namespace {

class HostileBytesTest : public HostileTest {
 protected:
  // The reply to these bytes, after which the client sends no more.
  Reply reply_to(const std::string& bytes) {
    Client client(server_.port());
    client.send(bytes);
    client.end_sending();
    return client.read_reply();
  }
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
       {"GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "G\x01T / HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: localhost\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: localhost\r\ncontent-length: x\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        "POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999999999999999\r\n\r\n"}) {
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
  headers.send("GET / HTTP/1.1\r\nhost: localhost\r\nx: " + std::string(100'000, 'a') + "\r\n\r\n");
  EXPECT_EQ(headers.read_reply().status, 431);
  Client many(server_.port());
  std::string lines = "GET / HTTP/1.1\r\nhost: localhost\r\n";
  for (int i = 0; i < 5000; ++i) lines += "x-" + std::to_string(i) + ": y\r\n";
  many.send(lines + "\r\n");
  EXPECT_EQ(many.read_reply().status, 431);
  EXPECT_EQ(server_.ask("POST", "/v1/completions", std::string((1 << 20) + 1, ' ')).status, 413);
  Client chunked(server_.port());
  chunked.send("POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n");
  const std::string chunk = "10000\r\n" + std::string(0x10000, ' ') + "\r\n";
  for (int i = 0; i < 40 && chunked.send(chunk); ++i) {
  }
  EXPECT_EQ(chunked.read_reply().status, 413);
  expect_alive();
}

TEST_F(HostileBytesTest, HalfRequestsAndTrickles) {
  {
    Client half(server_.port());
    half.send("POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-le");
  }
  {
    Client half(server_.port());
    half.send("POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{\"prompt\":");
  }
  Client nothing(server_.port());
  Client slow(server_.port());
  Client slow_body(server_.port());
  slow_body.send("POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n");
  // A byte now and then does not keep a connection: the time is for all of the head, and for all of the body.
  bool head_open = true;
  bool body_open = true;
  for (int i = 0; i < 500 && (head_open || body_open); ++i) {
    head_open = head_open && slow.send("G");
    body_open = body_open && slow_body.send(" ");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_FALSE(head_open);
  EXPECT_FALSE(body_open);
  EXPECT_TRUE(nothing.closed_by_peer());
  expect_alive();
}

TEST_F(HostileBytesTest, HostileJson) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  for (const std::string& body :
       {std::string(500'000, '['), nested(65), nested(100'000), R"({"prompt":)" + nested(70) + "}",
        std::string("{\"prompt\":\"\xff\xfe\"}"), std::string("{\"prompt\":\"\xc0\xaf\"}"),
        std::string("{\"prompt\":\"\xed\xa0\x80\"}"), std::string("{\"\xf5\":1,\"prompt\":\"x\"}"),
        std::string(R"({"prompt":1e999})"), std::string(R"("\ud800")"), std::string(R"({"prompt":"\ud800"})"),
        std::string(1000, '\0'), std::string(R"({"prompt":"x"}{"prompt":"x"})"), std::string("\xef\xbb\xbf")}) {
    const Reply reply = server_.ask("POST", "/v1/completions", body);
    EXPECT_EQ(reply.status, 400) << body.substr(0, 60);
    EXPECT_TRUE(reply.json()["error"]["message"].is_string());
  }
  expect_alive();
}

TEST_F(HostileBytesTest, BytesThatAreNotTextInTheHead) {
  const Reply path = server_.ask("GET", "/\xff\xfe\xc0");
  EXPECT_TRUE(path.status == 400 || path.status == 404) << path.status;
  EXPECT_TRUE(path.json().contains("error"));
  const Reply id = server_.ask("GET", "/health", "", "x-request-id: \xff\xfe\r\nauthorization: \x80\x81\r\n");
  EXPECT_EQ(id.status, 200);
  EXPECT_TRUE(id.headers.at("x-request-id").starts_with("req-"));
  EXPECT_EQ(server_.ask("GET", "/kvasir/requests/\xe2\x28\xa1").status, 404);
  expect_alive();
}

TEST_F(HostileBytesTest, LengthsThatAreNotTheBodys) {
  const std::string body = R"({"content":"one two three"})";
  const auto with_length = [&](const std::string& length) {
    return "POST /tokenize HTTP/1.1\r\nhost: localhost\r\ncontent-length: " + length + "\r\n\r\n" + body;
  };
  EXPECT_EQ(reply_to(with_length(std::to_string(body.size() + 1))).status, 0);  // a half: nobody to answer
  for (const char* wrong : {"+27", "27 27", "0x1b", "27;", "1e1", "", "27, 28"}) {
    EXPECT_EQ(reply_to(with_length(wrong)).status, 400) << wrong;
  }
  // Too short: what is left over is not the next request.
  Client client(server_.port());
  client.send(with_length("5"));
  EXPECT_EQ(client.read_reply().status, 400);
  EXPECT_EQ(client.read_reply().status, 400);
  EXPECT_TRUE(client.closed_by_peer());
  expect_alive();
}

TEST_F(HostileBytesTest, Chunks) {
  const std::string head = "POST /tokenize HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
  Client good(server_.port());
  good.send(head + "d;name=value\r\n{\"content\":\"x\r\n2\r\n\"}\r\n0\r\nlater: x\r\n\r\n");
  EXPECT_EQ(good.read_reply().status, 200);
  for (const char* wrong : {"-1\r\nx\r\n", "g\r\n", "\r\n", "ffffffffffffffffff\r\n", "2\r\nabcd\r\n",
                            "2\r\nab0\r\n\r\n", "2 2\r\nab\r\n", "0\r\nno colon\r\n\r\n"}) {
    Client client(server_.port());
    client.send(head + wrong);
    const int status = client.read_reply().status;
    EXPECT_EQ(status, 400) << wrong;
  }
  EXPECT_EQ(reply_to(head + "7fffffff\r\nabc").status, 413);
  for (const char* half : {"", "5", "5\r\nab", "5\r\nabcde", "2\r\nab\r\n", "2\r\nab\r\n0\r\n", "2\nab\n0\n\n"}) {
    EXPECT_EQ(reply_to(head + half).status, 0) << half;
  }
  // What is not understood ends the connection: its body is not the next request.
  for (const char* encoding : {"gzip", "gzip, chunked", "chunked, chunked", "xchunked", "identity", "\"chunked\""}) {
    Client client(server_.port());
    client.send(std::string("POST /tokenize HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: ") + encoding +
                "\r\n\r\n" + request_text("GET", "/health", ""));
    EXPECT_EQ(client.read_reply().status, 501) << encoding;
    EXPECT_TRUE(client.closed_by_peer());
    EXPECT_EQ(client.buffer(), "") << "a second reply";
  }
  expect_alive();
}

// Neither the line of a chunk nor what follows the last one may be longer than a head.
TEST_F(HostileBytesTest, EndlessLinesOfChunks) {
  const std::string head = "POST /tokenize HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
  for (const char* begin : {"2;x=", "0\r\nx: "}) {
    Client client(server_.port());
    client.send(head + begin);
    const std::string more(1 << 16, 'y');
    for (int i = 0; i < 64 && client.send(more); ++i) {
    }
    const int status = client.read_reply().status;
    EXPECT_TRUE(status == 431 || status == 400 || status == 0) << status;
    EXPECT_TRUE(client.closed_by_peer());
  }
  expect_alive();
}

TEST_F(HostileBytesTest, HeadsThatTwoReadersReadDifferently) {
  const std::string body = R"({"content":"x"})";
  const std::string length = "content-length: " + std::to_string(body.size()) + "\r\n";
  for (const std::string& headers :
       {"host: a\r\nhost: b\r\n" + length, length + length, length + "transfer-encoding: chunked\r\n",
        "x: a\r\n b: c\r\n" + length, "host : a\r\n" + length}) {
    Client client(server_.port());
    client.send("POST /tokenize HTTP/1.1\r\nhost: localhost\r\n" + headers + "\r\n" + body);
    EXPECT_EQ(client.read_reply().status, 400) << headers;
    EXPECT_TRUE(client.closed_by_peer());
  }
  EXPECT_EQ(server_.ask("GET", "/health", "", "expect: miracles\r\n").status, 417);
  EXPECT_EQ(server_.ask("GET", "http://localhost/v1/models").status, 200);
  Client late(server_.port());
  late.send("\r\n" + request_text("GET", "/health", ""));  // an empty line before a request is none
  EXPECT_EQ(late.read_reply().status, 200);
  expect_alive();
}

TEST_F(HostileBytesTest, Pipelining) {
  Json streamed = story(4);
  streamed["stream"] = true;
  const std::string chat = "/v1/chat/completions";
  const std::string round = request_text("GET", "/health", "") + request_text("POST", chat, streamed.dump()) +
                            request_text("HEAD", "/health", "") + request_text("POST", chat, story(2).dump()) +
                            request_text("GET", "/nowhere", "");
  Client client(server_.port());
  std::string all;
  for (int i = 0; i < 5; ++i) all += round;
  client.send(all + "not a request\r\n\r\n");
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(client.read_reply().status, 200);
    EXPECT_TRUE(client.read_reply().body.ends_with("data: [DONE]\n\n"));
    EXPECT_EQ(client.read_head().status, 200);
    EXPECT_EQ(client.read_reply().json()["usage"]["completion_tokens"], 2);
    EXPECT_EQ(client.read_reply().status, 404);
  }
  EXPECT_EQ(client.read_reply().status, 400);
  EXPECT_TRUE(client.closed_by_peer());
  expect_alive();
}

TEST_F(HostileBytesTest, Head) {
  Client client(server_.port());
  client.send(request_text("HEAD", "/v1/models", "") + request_text("HEAD", "/v1/chat/completions", "") +
              request_text("HEAD", "/nowhere", "") + request_text("GET", "/health", ""));
  const Reply models = client.read_head();
  EXPECT_EQ(models.status, 200);
  EXPECT_GT(std::stoi(models.headers.at("content-length")), 0);
  EXPECT_EQ(client.read_head().status, 405);
  EXPECT_EQ(client.read_head().status, 404);
  EXPECT_EQ(client.read_reply().json()["status"], "ok");
  expect_alive();
}

TEST_F(HostileBytesTest, ExpectContinue) {
  const std::string body = R"({"content":"x"})";
  const std::string head = "POST /tokenize HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: " +
                           std::to_string(body.size()) + "\r\n\r\n";
  Client curl(server_.port());
  curl.send(head);
  EXPECT_EQ(curl.read_head().status, 100);
  curl.send(body);
  EXPECT_EQ(curl.read_reply().status, 200);
  curl.send(head + body);  // one that did not wait
  Reply reply = curl.read_head();
  if (reply.status == 100) reply = curl.read_head();
  EXPECT_EQ(reply.status, 200);
  Client large(server_.port());
  large.send("POST /tokenize HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 9999999\r\n\r\n");
  EXPECT_EQ(large.read_reply().status, 413);
  Client leaves(server_.port());
  leaves.send(head);
  EXPECT_EQ(leaves.read_head().status, 100);
  leaves.reset();
  expect_alive();
}

TEST_F(HostileBytesTest, OldHttp) {
  Json streamed = story(3);
  streamed["stream"] = true;
  const std::string length = "content-length: " + std::to_string(streamed.dump().size()) + "\r\n";
  for (const char* keep : {"", "connection: keep-alive\r\n"}) {
    Client old(server_.port());
    old.send("POST /v1/chat/completions HTTP/1.0\r\n" + length + keep + "\r\n" + streamed.dump());
    EXPECT_TRUE(old.closed_by_peer());
    EXPECT_NE(old.buffer().find("data: [DONE]"), std::string::npos);
    EXPECT_EQ(old.buffer().find("chunked"), std::string::npos);
  }
  Client closes(server_.port());
  closes.send("GET /health HTTP/1.0\r\n\r\n");
  EXPECT_EQ(closes.read_reply().status, 200);
  EXPECT_TRUE(closes.closed_by_peer());
  Client stays(server_.port());
  for (int i = 0; i < 3; ++i) {
    stays.send("GET /health HTTP/1.0\r\nconnection: keep-alive\r\n\r\n");
    EXPECT_EQ(stays.read_reply().status, 200);
  }
  expect_alive();
}

// Good requests with a few bytes changed, left out or doubled.
TEST_F(HostileBytesTest, NearlyGoodRequests) {
  std::mt19937 random(3);
  const std::vector<std::string> good{
      request_text("POST", "/v1/chat/completions", story(2).dump()),
      "POST /tokenize HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: "
      "chunked\r\n\r\nf\r\n{\"content\":\"x\"}\r\n0\r\n\r\n",
      request_text("GET", "/v1/models", "", "connection: close\r\nexpect: 100-continue\r\n")};
  for (int i = 0; i < 300; ++i) {
    std::string bytes = good[random() % good.size()];
    for (auto n = 1 + random() % 4; n > 0; --n) {
      const size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, 1 + random() % 8);
          break;
        default:
          bytes.insert(at, bytes.substr(at, 1 + random() % 8));
          break;
      }
      if (bytes.empty()) break;
    }
    const int status = reply_to(bytes).status;
    EXPECT_TRUE(status < 500 || status == 501) << status << "\n" << bytes;
  }
  expect_alive();
}

}  // namespace
}  // namespace kvasir::testing
