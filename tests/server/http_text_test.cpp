// HTTP, events and log lines as bytes.
#include "server/http/http_text.h"

#include <gtest/gtest.h>

#include "server/api/json_fields.h"
#include "server/http/sse.h"
#include "server/log.h"

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
  const LogEvent event{"x",
                       {{"a", "plain"}, {"b", "two words"}, {"c", "new\nline \"q\" a=b"}, {"d", ""}, {"e", 2.5}}};
  const std::string line = log_line(event, LogFormat::kText);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_NE(line.find(R"( event=x a=plain b="two words" c="new\x0aline \x22q\x22 a=b" d="" e=2.5)"),
            std::string::npos)
      << line;
}

TEST(LogLine, IsJsonWhateverItQuotes) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  const std::string line = log_line(
      {"x", {{"bytes", bytes}, {"long", std::string(5000, '\xe2')}, {"n", std::int64_t{-7}}}}, LogFormat::kJson);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const Json read = Json::parse(line);
  EXPECT_EQ(read["event"], "x");
  EXPECT_EQ(read["n"], -7);
  EXPECT_EQ(read["time"].get<std::string>().size(), std::string("2026-08-01T12:00:00.123Z").size());
}

TEST(LogLine, TellsWhoseRequestItWas) {
  HttpExchange exchange{"req-1", "alice", "POST", "/v1/x", 200, 5, 0.01234, "done", TokenCounts{7, 4, 3}};
  const Json read = Json::parse(log_line(event_of(exchange), LogFormat::kJson));
  EXPECT_EQ(read["tenant"], "alice");
  EXPECT_EQ(read["ms"], 12.3);
  EXPECT_EQ(read["cached_tokens"], 4);
  exchange.tenant.clear();
  exchange.tokens.reset();
  const std::string line = log_line(event_of(exchange), LogFormat::kText);
  EXPECT_NE(line.find(" id=req-1 tenant=- method=POST path=/v1/x status=200 outcome=done bytes=5 ms=12.3"),
            std::string::npos)
      << line;
}

std::string head_of(const std::string& headers) {
  const bool has_host = headers.find("ost:") != std::string::npos;
  return std::string("POST /x HTTP/1.1\r\n") + (has_host ? "" : "host: a\r\n") + headers + "\r\n";
}

TEST(Head, IsRefusedWhereTwoReadersMightDiffer) {
  EXPECT_FALSE(fault_of(head_of("")));
  EXPECT_FALSE(
      fault_of(head_of("Host: a\r\nTransfer-Encoding:\t Chunked \r\nx-note: \xff\r\nExpect: 100-Continue\r\n")));
  for (const char* wrong :
       {"host: a\r\nHost: a\r\n", "content-length: 1\r\ncontent-length: 1\r\n", "content-length: 1, 1\r\n",
        "content-length: +1\r\n", "content-length:\r\n", "content-length: 5\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n", "host : a\r\n", "host\t: a\r\n",
        "x: a\r\n b\r\n", " x: a\r\n", "x: a\rb\r\n", "x: a\nb: c\r\n", "no colon\r\n", ": empty\r\n",
        "authorization: a\r\nauthorization: b\r\n", "x-api-key: a\r\nX-Api-Key: b\r\n", "x: \x01\r\n"}) {
    const std::optional<Refusal> fault = fault_of(head_of(wrong));
    ASSERT_TRUE(fault) << wrong;
    EXPECT_EQ(fault->status, 400) << wrong;
  }
  for (const char* encoding :
       {"xchunked", "identity", "\"chunked\"", "chunked, identity", "gzip, chunked", "gzip", ""})
    EXPECT_EQ(fault_of(head_of(std::string("transfer-encoding: ") + encoding + "\r\n"))->status, 501) << encoding;
  EXPECT_EQ(fault_of(head_of("expect: 200-ok\r\n"))->status, 417);
  EXPECT_EQ(fault_of("GET / HTTP/1.1\r\n\r\n")->status, 400);
  EXPECT_FALSE(fault_of("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_EQ(fault_of("POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n")->status, 400);
}

TEST(Target, MayBeAbsolute) {
  EXPECT_EQ(path_of("http://example.com/v1/models?x=1"), "/v1/models");
  EXPECT_EQ(path_of("HTTPS://example.com:81"), "/");
  EXPECT_EQ(path_of("http://example.com?x"), "/");
  EXPECT_EQ(path_of("/v1/http://x/"), "/v1/http://x/");
  EXPECT_EQ(authority_of("http://example.com:81/v1"), "example.com:81");
  EXPECT_EQ(authority_of("/v1"), "");
}

}  // namespace
}  // namespace kvasir::testing
