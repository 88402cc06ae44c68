// HTTP as the handlers see it: plain values, no sockets.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvasir {

struct Caller;  // server/tenants.h

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;  // "POST"
  std::string path;    // without the query
  std::string body;
  std::string id;                                  // x-request-id: the client's, or one of ours
  std::string key{};                               // as the client gave it; empty: none
  std::shared_ptr<const Caller> caller = nullptr;  // whose key it is; null: not asked yet
  bool explain = false;                            // x-kvasir-explain
};

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Headers headers{};
};

// An answer in the making. Used by one thread at a time; destroying it early cancels what still runs.
class Work {
 public:
  struct Progress {
    std::string bytes;
    bool done = false;
    int status = 200;  // with `done`: of a reply that is sent whole
  };

  virtual ~Work() = default;

  // `wake` is called, from any thread and perhaps more often than needed, when take() has something new.
  virtual void on_news(std::function<void()> wake) = 0;
  virtual Progress take() = 0;

  // Ends the answer where it is, for a reason that is the server's: a deadline.
  virtual Progress give_up(const std::string& why) = 0;
};

// What a handler returns.
struct Response {
  enum class Body {
    kReady,     // `reply` is all there is
    kWhole,     // sent when `work` is done: its bytes are the body
    kStreamed,  // `reply` is the head, and bytes are sent as they come
  };
  Body body = Body::kReady;
  HttpReply reply;
  std::unique_ptr<Work> work;
  std::string heartbeat;  // kStreamed: sent when there was nothing to say for a while; may be empty
};

}  // namespace kvasir
