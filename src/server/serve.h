// A service behind sockets: what the HTTP server asks while the model is loaded, while it serves and while it ends.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "server/http/http_server.h"
#include "server/log_writer.h"
#include "server/service.h"

namespace kvasir {

// Whether to send requests here, as /health tells it.
enum class Readiness : std::uint8_t { kLoading, kReady, kFailed, kDraining };
std::string_view name_of(Readiness readiness);

// Stands before a service that may not be there yet: until open() everybody is told to come again, and health is told
// without the service. All methods may be called from any thread.
class FrontDoor {
 public:
  // `log` gets a line for each exchange, pause, replaced policy and failed step; null: none. Outlives this.
  explicit FrontDoor(Log* log) : log_(log) {}

  // From now on requests go to the service, which outlives the server that has callbacks().
  void open(Service& service);

  // kFailed for a while after a step of the engine that failed, unless one has worked since: who sends no more
  // requests because of it could not learn otherwise that all is well again.
  Readiness readiness() const;

  // What an HttpServer calls; this outlives it.
  HttpServer::Callbacks callbacks();

 private:
  using Clock = std::chrono::steady_clock;

  std::optional<HttpReply> identify(HttpRequest& request) const;
  Response handle(const HttpRequest& request);
  void tell_service(const HttpExchange& exchange);
  void note_failure(const std::string& why);

  Log* log_;
  std::atomic<Service*> service_ = nullptr;
  std::atomic<Readiness> readiness_ = Readiness::kLoading;  // but for kFailed
  std::atomic<Clock::rep> failed_at_ = 0;
};

}  // namespace kvasir
