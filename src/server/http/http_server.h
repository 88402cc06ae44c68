// Sockets: HTTP/1.1 in, the handler's answers out. Knows nothing of models, tokens or JSON.
//
// One thread (run()'s) does all reading and writing; a few more run the handler, which may take a while to parse and
// tokenize, in turns by tenant; one more waits for answers of the engine. A client that leaves ends its request: its
// Work is destroyed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/http/http_types.h"

namespace kvasir {

struct HttpOptions {
  std::string host = "127.0.0.1";  // an address, or "localhost"
  std::uint16_t port = 8080;       // 0: any that is free
  size_t max_connections = 4096;
  std::uint32_t header_bytes = 32 << 10;
  std::uint64_t body_bytes = 16 << 20;
  std::uint64_t bodies_bytes = 256 << 20;  // of all requests that are read or wait for a handler; see BodyBudget
  std::chrono::milliseconds idle_timeout{75'000};    // between two requests
  std::chrono::milliseconds header_timeout{10'000};  // from the first byte of a request to the end of its headers
  std::chrono::milliseconds body_timeout{60'000};
  std::chrono::milliseconds write_timeout{30'000};    // for a client to take what it was sent
  std::chrono::milliseconds request_timeout{0};       // for an answer; 0: none
  std::chrono::milliseconds heartbeat_after{15'000};  // of silence in a stream
  std::chrono::milliseconds drain_timeout{30'000};    // for what runs when a drain begins; 0: none
  int handler_threads = 2;
  size_t handler_queue = 1024;                              // requests of each tenant that wait for one
  std::vector<std::string> allowed_origins{};               // besides loopback ones; "*": all
  bool own_pages = false;                                   // and the one that the request's Host header names
  std::optional<std::vector<std::string>> allowed_hosts{};  // besides loopback ones; nullopt: any Host header will do
};

// One line of the log.
struct HttpExchange {
  std::string id;
  std::string tenant;  // empty: nobody's in particular
  std::string method;
  std::string path;
  int status = 0;
  std::uint64_t bytes = 0;  // of the body
  double seconds = 0;
  std::string_view outcome;  // "done", "gone": the client left, "timeout", "refused": before the handler saw it,
                             // "shutdown", "failed"
  std::optional<TokenCounts> tokens{};
};

class HttpServer {
 public:
  // All are called on run()'s thread, but the handler, which is called where `lane` says. It must not throw.
  struct Callbacks {
    // Finds out who asks, from the headers alone. A reply turns the request away before its body is read.
    std::function<std::optional<HttpReply>(HttpRequest&)> identify;
    std::function<Lane(const HttpRequest&)> lane;  // empty: kHandlers for all
    std::function<Response(const HttpRequest&)> handle;
    std::function<HttpReply(const std::string& path, int status, const std::string& message)>
        refuse;  // an error's body
    std::function<void(const HttpExchange&)> on_exchange;
    std::function<void(std::int64_t open)> on_connections;
    std::function<void()> on_drain;                    // it begins
    std::function<void(size_t cut)> on_drain_timeout;  // so many answers are ended before their time
  };

  // Binds. Throws Error when it cannot.
  HttpServer(HttpOptions options, Callbacks callbacks);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;

  // Serves until drained or stopped; every connection is closed when it returns. Call once.
  void run();

  // From any thread. drain: requests that are being answered are finished, within drain_timeout, and new ones are
  // refused but for those of Lane::kNow: who asks how we are gets an answer until the end. stop: all are cut.
  void drain();
  void stop();

  // SIGTERM and SIGINT drain; a second one ends the process at once. Call before run().
  void drain_on_signals();

  // Calls `hook` on the thread that waits for the engine's answers. Call before run(), once for each signal.
  void on_signal(int number, std::function<void()> hook);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvasir
