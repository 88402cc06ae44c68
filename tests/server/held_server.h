// A server without a model whose handlers stay in "/held…" until they are let go; the key is the tenant's name.
#pragma once

#include <condition_variable>
#include <mutex>

#include "test_server.h"

namespace kvasir::testing {

class HeldServer {
 public:
  explicit HeldServer(HttpOptions options = {}) : server_(on_free_port(std::move(options)), callbacks()) {
    thread_ = std::thread([this] { server_.run(); });
  }
  ~HeldServer() {
    let_go();
    server_.stop();
    join();
  }

  HttpServer& server() { return server_; }
  std::uint16_t port() const { return server_.port(); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }
  int handled() {
    const std::lock_guard lock(mutex_);
    return begun_;
  }
  size_t answers_ended() const { return answers_ended_; }

  // A request that is sent, and its reply still to be read.
  std::unique_ptr<Client> begin(const std::string& path, const std::string& tenant = {},
                                const std::string& body = {}) {
    auto client = std::make_unique<Client>(port());
    client->send(request_text("POST", path, body, tenant.empty() ? "" : "x-api-key: " + tenant + "\r\n"));
    return client;
  }
  Reply ask(const std::string& path, const std::string& tenant = {}) {
    const auto client = begin(path, tenant);
    return client->read_reply();
  }

 private:
  static HttpOptions on_free_port(HttpOptions options) {
    options.port = 0;
    return options;
  }

  // An answer that never ends by itself.
  struct Endless : Work {
    void on_event(std::function<void()>) override {}
    Progress take() override { return {}; }
    Progress give_up(GiveUp why) override {
      return why == GiveUp::kDeadline ? Progress{"deadline", true, 504} : Progress{"shutdown", true, 503};
    }
    std::optional<TokenCounts> tokens() const override { return std::nullopt; }
  };

  Response handle(const HttpRequest& request) {
    std::unique_lock lock(mutex_);
    ++begun_;
    if (request.path.starts_with("/held")) changed_.wait(lock, [this] { return !held_; });
    Response response;
    if (request.path.starts_with("/endless")) {
      const bool whole = request.path == "/endless/whole";
      response.body = whole ? Response::Body::kWhole : Response::Body::kStreamed;
      response.work = std::make_unique<Endless>();
    }
    return response;
  }

  HttpServer::Callbacks callbacks() {
    HttpServer::Callbacks out;
    out.identify = [](HttpRequest& request) {
      request.tenant = request.key;
      return std::optional<HttpReply>();
    };
    out.lane = [](const HttpRequest& request) {
      return request.path == "/health"          ? Lane::kNow
             : request.path == "/held/question" ? Lane::kQuestion
                                                : Lane::kHandlers;
    };
    out.handle = [this](const HttpRequest& request) {
      return request.path == "/health" ? Response{} : handle(request);
    };
    out.refuse = [](const std::string&, int status, const std::string& message) {
      return HttpReply{status, "text/plain", message};
    };
    out.on_drain_timeout = [this](size_t cut) { answers_ended_ = cut; };
    return out;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = true;
  int begun_ = 0;
  std::atomic<size_t> answers_ended_ = 0;
  HttpServer server_;
  std::thread thread_;
};

}  // namespace kvasir::testing
