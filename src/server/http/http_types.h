// HTTP as the handlers see it: plain values, no sockets.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
  std::string tenant{};                            // its name; empty: nobody's in particular
  bool explain = false;                            // x-kvasir-explain
  bool accepts_gzip = false;
};

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Headers headers{};
};

// Where a request is handled.
enum class Lane : std::uint8_t {
  kHandlers,  // may take a while: in turns with those of others
  kQuestion,  // waits for the engine's step: apart, since it needs no handler meanwhile
  kNow,       // at once, on the thread of the sockets
};

struct TokenCounts {
  std::int64_t prompt = 0;
  std::int64_t cached = 0;  // of the prompt
  std::int64_t answer = 0;
};

// Why the server ends an answer before its time.
enum class GiveUp : std::uint8_t { kDeadline, kShutdown };

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
  virtual void on_event(std::function<void()> wake) = 0;
  virtual Progress take() = 0;

  // Ends the answer where it is, for a reason that is the server's.
  virtual Progress give_up(GiveUp why) = 0;

  // What it cost so far; nullopt: it is no matter of tokens.
  virtual std::optional<TokenCounts> tokens() const { return std::nullopt; }
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
