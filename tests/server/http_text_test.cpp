// HTTP, events and log lines as bytes.
#include "server/http_text.h"

#include <gtest/gtest.h>

#include "server/log.h"
#include "server/sse.h"

namespace kvasir::testing {
namespace {

TEST(HeadText, SaysHowTheBodyEnds) {
  HttpReply reply;
  reply.body = "12345";
  reply.headers = {{"x-a", "b"}};
  EXPECT_EQ(head_text(reply, Framing::kLength, KeepAlive::kYes),
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5\r\nx-a: b\r\nconnection: "
            "keep-alive\r\n\r\n");
  reply.headers.clear();
  EXPECT_EQ(
      head_text(reply, Framing::kChunked, KeepAlive::kNo),
      "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n");
  reply.status = 204;
  EXPECT_EQ(head_text(reply, Framing::kLength, KeepAlive::kYes),
            "HTTP/1.1 204 No Content\r\nconnection: keep-alive\r\n\r\n");
}

TEST(ChunkText, IsSizeAndBytes) {
  EXPECT_EQ(chunk_text("hello"), "5\r\nhello\r\n");
  EXPECT_EQ(chunk_text(std::string(26, 'x')), "1a\r\n" + std::string(26, 'x') + "\r\n");
}

TEST(Sse, FramesEvents) {
  EXPECT_EQ(sse_data("{}"), "data: {}\n\n");
  EXPECT_EQ(sse_event("ping", "{}"), "event: ping\ndata: {}\n\n");
  EXPECT_DEATH(sse_data("a\nb"), "CHECK|json");
}

TEST(RequestId, RefusesWhatCouldForgeAHeaderOrALogLine) {
  EXPECT_TRUE(is_request_id("abc-123_x.y"));
  for (const std::string& bad :
       {std::string(), std::string("a b"), std::string("a\r\nb"), std::string("\xc3\xa9"), std::string(129, 'a')}) {
    EXPECT_FALSE(is_request_id(bad));
  }
}

TEST(Path, IsWithoutTheQuery) {
  EXPECT_EQ(path_of("/v1/models?x=1"), "/v1/models");
  EXPECT_EQ(path_of("/#a"), "/");
  EXPECT_EQ(path_of(""), "");
}

TEST(Origin, OnlyLocalPagesAndNamedOnes) {
  for (const char* good : {"http://localhost", "http://localhost:3000", "http://127.0.0.1:8080", "https://127.1.2.3",
                           "http://[::1]:80"}) {
    EXPECT_TRUE(is_allowed_origin(good, {})) << good;
  }
  for (const char* bad : {"null", "", "http://example.com", "http://localhost.example.com",
                          "http://127.0.0.1.example.com", "file://", "http://127.evil", "localhost"}) {
    EXPECT_FALSE(is_allowed_origin(bad, {})) << bad;
  }
  const std::vector<std::string> named{"https://app.example.com"};
  EXPECT_TRUE(is_allowed_origin("https://app.example.com", named));
  EXPECT_FALSE(is_allowed_origin("https://app.example.com:444", named));
  EXPECT_TRUE(is_allowed_origin("http://any", std::vector<std::string>{"*"}));
}

TEST(Loopback, IsThisMachineOnly) {
  for (const char* host : {"127.0.0.1", "127.9.9.9", "localhost", "::1", "[::1]"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"0.0.0.0", "::", "192.168.1.1", "127.example.com", "", "128.0.0.1"})
    EXPECT_FALSE(is_loopback(host)) << host;
}

TEST(LogLine, StaysOneLineWhateverItQuotes) {
  const std::string line =
      log_line("x", {{"a", "plain"}, {"b", "two words"}, {"c", "new\nline \"q\" a=b"}, {"d", ""}});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_NE(line.find(R"( event=x a=plain b="two words" c="new\x0aline \x22q\x22 a=b" d="")"), std::string::npos)
      << line;
}

}  // namespace
}  // namespace kvasir::testing
