// A server with little patience and small limits, for clients that mean it no good.
#pragma once

#include "test_server.h"

namespace kvasir::testing {

class HostileTest : public ServedDraft {
 protected:
  static HttpOptions impatient() {
    HttpOptions options;
    options.header_timeout = std::chrono::milliseconds(400);
    options.body_timeout = std::chrono::milliseconds(600);
    options.idle_timeout = std::chrono::milliseconds(1000);
    options.header_bytes = 8192;
    options.body_bytes = 1 << 20;
    return options;
  }

  // The next good request works, and nothing is left of those before.
  void expect_alive() {
    const Reply reply = server_.post("/v1/chat/completions", story(3));
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.json()["usage"]["completion_tokens"], 3);
    EXPECT_TRUE(eventually([&] { return at_rest(server_); }));
  }

  TestServer server_{*model_, impatient()};
};

}  // namespace kvasir::testing
