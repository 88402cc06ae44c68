// A server in this process on a free loopback port, and a client that can also misbehave.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/api/json_fields.h"
#include "server/serve.h"

namespace kvasir::testing {

inline LlmOptions draft_options() {
  LlmOptions options;
  options.model = KVASIR_SOURCE_DIR "/models/tales-draft";
  options.threads = 1;
  return options;
}

struct Reply {
  int status = 0;  // 0: the connection was closed without an answer
  std::map<std::string, std::string> headers{};
  std::string body{};

  Json json() const { return Json::parse(body); }
};

inline std::string request_text(const std::string& method, const std::string& path, const std::string& body,
                                const std::string& headers = {}) {
  return method + " " + path + " HTTP/1.1\r\nhost: localhost\r\n" + headers +
         "content-length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

// One connection. Reading gives up when nothing came for `patience`, so that no test hangs.
class Client {
 public:
  explicit Client(std::uint16_t port, std::chrono::milliseconds patience = std::chrono::minutes(5))
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)), patience_(patience) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~Client() { close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  // Ends the connection as a crash or a pulled plug does: without goodbye.
  void reset() {
    const linger at_once{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
  }

  void end_sending() { ::shutdown(socket_, SHUT_WR); }

  // More bytes into the buffer; false: closed, or nothing came for too long.
  bool receive() {
    pollfd wait{socket_, POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(patience_.count())) <= 0) return false;
    char chunk[16384];
    const ssize_t got = ::recv(socket_, chunk, sizeof chunk, 0);
    if (got <= 0) return false;
    buffer_.append(chunk, static_cast<size_t>(got));
    return true;
  }

  bool receive_until(std::string_view text) {
    while (buffer_.find(text) == std::string::npos) {
      if (!receive()) return false;
    }
    return true;
  }

  // Whether a reply has begun to come, or never will.
  static bool readable(const Client& client) {
    pollfd wait{client.socket_, POLLIN, 0};
    return !client.buffer_.empty() || ::poll(&wait, 1, 0) == 1;
  }

  bool closed_by_peer() {
    while (receive()) {
    }
    pollfd wait{socket_, POLLIN, 0};
    return ::poll(&wait, 1, 0) == 1;
  }

  // Status and headers only: all there is of a reply to HEAD, and of "100 Continue".
  Reply read_head() {
    Reply reply;
    if (!receive_until("\r\n\r\n")) return reply;
    const size_t end = buffer_.find("\r\n\r\n");
    parse_head(buffer_.substr(0, end), reply);
    buffer_.erase(0, end + 4);
    return reply;
  }

  Reply read_reply() {
    Reply reply = read_head();
    if (reply.headers.contains("content-length")) {
      const size_t size = std::stoul(reply.headers["content-length"]);
      while (buffer_.size() < size && receive()) {
      }
      reply.body = buffer_.substr(0, size);
      buffer_.erase(0, size);
    } else if (reply.headers["transfer-encoding"] == "chunked") {
      while (read_chunk(reply.body)) {
      }
    }
    return reply;
  }

  Reply ask(const std::string& method, const std::string& path, const std::string& body = {},
            const std::string& headers = {}) {
    send(request_text(method, path, body, headers));
    return read_reply();
  }

  std::string& buffer() { return buffer_; }

 private:
  static void parse_head(const std::string& head, Reply& reply) {
    reply.status = std::stoi(head.substr(9, 3));
    size_t at = head.find("\r\n");
    while (at != std::string::npos) {
      const size_t next = head.find("\r\n", at + 2);
      const std::string line = head.substr(at + 2, next - at - 2);
      reply.headers[line.substr(0, line.find(": "))] = line.substr(line.find(": ") + 2);
      at = next;
    }
  }

  bool read_chunk(std::string& body) {
    if (!receive_until("\r\n")) return false;
    const size_t line = buffer_.find("\r\n");
    const size_t size = std::stoul(buffer_.substr(0, line), nullptr, 16);
    while (buffer_.size() < line + 2 + size + 2 && receive()) {
    }
    body += buffer_.substr(line + 2, size);
    buffer_.erase(0, line + 2 + size + 2);
    return size > 0;
  }

  int socket_;
  std::chrono::milliseconds patience_;
  std::string buffer_;
};

class TestServer {
 public:
  explicit TestServer(LoadedModel& model, HttpOptions http = {}, ServiceOptions service = {})
      : service_(model, std::move(service)),
        server_(ephemeral(std::move(http)), door_.callbacks()),
        port_(server_.port()) {
    door_.open(service_);
    thread_ = std::thread([this] { server_.run(); });
  }
  ~TestServer() {
    server_.stop();
    join();
  }

  void join() {
    if (thread_.joinable()) thread_.join();
  }
  void drain() { server_.drain(); }
  std::uint16_t port() const { return port_; }
  Service& service() { return service_; }

  Reply ask(const std::string& method, const std::string& path, const std::string& body = {},
            const std::string& headers = {}) const {
    return Client(port_).ask(method, path, body, headers);
  }
  Reply post(const std::string& path, const Json& body) const { return ask("POST", path, body.dump()); }

 private:
  static HttpOptions ephemeral(HttpOptions options) {
    options.port = 0;
    return options;
  }

  Service service_;
  FrontDoor door_{nullptr};
  HttpServer server_;
  std::uint16_t port_;
  std::thread thread_;
};

// Tests with the small shipped model, loaded once for all of a suite.
class ServedDraft : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = std::make_unique<LoadedModel>(draft_options()); }
  static void TearDownTestSuite() { model_.reset(); }

  static Json story(std::int64_t tokens) {
    return {{"messages", {{{"role", "user"}, {"content", "Tell me a story about a fox and a crow."}}}},
            {"max_tokens", tokens},
            {"temperature", 0}};
  }

  static inline std::unique_ptr<LoadedModel> model_;
};

// Waits for the answer to be whole.
inline Reply finish(Response& response) {
  if (response.body == Response::Body::kReady) return {response.reply.status, {}, response.reply.body};
  Reply reply{response.reply.status, {}, {}};
  for (Work::Progress progress; !progress.done;) {
    auto ready = std::make_shared<std::promise<void>>();
    auto once = std::make_shared<std::atomic<bool>>(false);
    response.work->on_event([ready, once] {
      if (!once->exchange(true)) ready->set_value();
    });
    if (ready->get_future().wait_for(std::chrono::seconds(60)) != std::future_status::ready) return {};
    progress = response.work->take();
    reply.body += progress.bytes;
    if (progress.done && response.body == Response::Body::kWhole) reply.status = progress.status;
  }
  return reply;
}

// Every route without a socket.
class ServiceDraft : public ServedDraft {
 protected:
  Reply ask(const std::string& method, const std::string& path, const std::string& body = {}) {
    Response response = service_.handle({method, path, body, "req-test"});
    return finish(response);
  }

  Reply post(const std::string& path, const Json& body) { return ask("POST", path, body.dump()); }

  Service service_{*model_, {.model_name = "draft"}};
};

// The payloads of the "data:" lines, without [DONE].
inline std::vector<Json> events_of(const std::string& stream) {
  std::vector<Json> out;
  for (size_t at = stream.find("data: "); at != std::string::npos; at = stream.find("data: ", at + 6)) {
    const std::string line = stream.substr(at + 6, stream.find('\n', at) - at - 6);
    if (line != "[DONE]") out.push_back(Json::parse(line));
  }
  return out;
}

// Whether nothing is left of any request: no place in the queue, no sequence, no block that somebody holds.
inline bool at_rest(TestServer& server) {
  if (server.service().in_flight() != 0) return false;
  const EngineNumbers now = server.service().engine_numbers();
  return now.running == 0 && now.waiting == 0 && now.held_blocks == 0;
}

// Tries for ten seconds.
inline bool eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 1000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace kvasir::testing
