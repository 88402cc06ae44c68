#include "server/serve.h"

#include "server/api/api_error.h"
#include "server/log.h"

namespace kvasir {
namespace {

ApiError refusal(int status, const std::string& message) {
  ApiError::Reply reply;
  reply.status = status;
  if (status == 403) reply.type = "permission_error";
  if (status == 504) reply.type = "timeout_error";
  if (status == 429) reply.type = "rate_limit_error";
  if (status == 503) reply.type = "unavailable_error";
  return {std::move(reply), message};
}

HttpReply health_reply(int status, std::string_view text) {
  HttpReply reply = json_response({{"status", std::string(text)}}).reply;
  reply.status = status;
  if (status == 503) reply.headers.emplace_back("retry-after", "1");
  return reply;
}

LogEvent event_of(const std::string& request, const Preemption& pause) {
  return {"pause", {{"id", request}, {"how", std::string(name_of(pause.how))}, {"what", describe(request, pause)}}};
}

LogEvent event_of(const Canary::Verdict& verdict) {
  return {"kv_fallback",
          {{"policy", verdict.policy},
           {"by", verdict.replaced_by.empty() ? "none" : verdict.replaced_by},
           {"kl", verdict.kl},
           {"tokens", static_cast<std::int64_t>(verdict.tokens)}}};
}

}  // namespace

std::string_view name_of(Readiness readiness) {
  switch (readiness) {
    case Readiness::kLoading:
      return "loading";
    case Readiness::kReady:
      return "ok";
    case Readiness::kFailed:
      return "failed";
    case Readiness::kDraining:
      break;
  }
  return "draining";
}

void FrontDoor::open(Service& service) {
  if (log_ != nullptr) {
    service.on_pause(
        [log = log_](const std::string& request, const Preemption& pause) { log->write(event_of(request, pause)); });
    service.on_note([log = log_](const std::string& request, const std::string& what) {
      log->write({"note", {{"id", request}, {"what", what}}});
    });
    service.on_verdict([log = log_](const Canary::Verdict& verdict) { log->write(event_of(verdict)); });
  }
  service.on_failure([this](const std::string& why) { note_failure(why); });
  service_ = &service;
  Readiness expected = Readiness::kLoading;
  readiness_.compare_exchange_strong(expected, Readiness::kReady);
}

void FrontDoor::note_failure(const std::string& why) {
  failed_at_ = Clock::now().time_since_epoch().count();
  if (log_ != nullptr) log_->write({"step_failed", {{"error", why}}});
}

Readiness FrontDoor::readiness() const {
  constexpr std::chrono::seconds kTold{10};
  const Readiness readiness = readiness_;
  const Service* service = service_;
  if (readiness != Readiness::kReady || !service->failing()) return readiness;
  const Clock::time_point failed_at{Clock::duration(failed_at_.load())};
  return Clock::now() - failed_at < kTold ? Readiness::kFailed : readiness;
}

std::optional<HttpReply> FrontDoor::identify(HttpRequest& request) const {
  if (const Service* service = service_) return service->identify(request);
  if (Service::is_health(request.path)) return std::nullopt;
  HttpReply reply = error_reply(dialect_of(request.path), refusal(503, "the model is being loaded; try again"));
  reply.headers.emplace_back("retry-after", "5");
  return reply;
}

Response FrontDoor::handle(const HttpRequest& request) {
  const Readiness readiness = this->readiness();
  if (Service::is_health(request.path) && readiness != Readiness::kReady) {
    Response response;
    if (is_page(request.path)) {
      response = page_response(request);
      if (request.path == "/") response.reply.status = 503;
      return response;
    }
    const bool alive = request.path == Service::kLivePath;
    response.reply = alive ? health_reply(200, "ok") : health_reply(503, name_of(readiness));
    return response;
  }
  return service_.load()->handle(request);
}

void FrontDoor::tell_service(const HttpExchange& exchange) {
  Service* service = service_;
  if (service == nullptr) return;
  service->metrics().replied(exchange.status);
  if (log_ != nullptr) service->metrics().log_lines_dropped(log_->dropped());
}

HttpServer::Callbacks FrontDoor::callbacks() {
  HttpServer::Callbacks out;
  out.identify = [this](HttpRequest& request) { return identify(request); };
  out.lane = [](const HttpRequest& request) { return Service::lane(request); };
  out.handle = [this](const HttpRequest& request) { return handle(request); };
  out.refuse = [](const std::string& path, int status, const std::string& message) {
    return error_reply(dialect_of(path), refusal(status, message));
  };
  out.on_exchange = [this](const HttpExchange& exchange) {
    tell_service(exchange);
    if (log_ != nullptr) log_->write(event_of(exchange));
  };
  out.on_connections = [this](std::int64_t open) {
    if (Service* service = service_) service->metrics().connections(open);
  };
  out.on_drain = [this] {
    readiness_ = Readiness::kDraining;
    if (Service* service = service_) service->end_live_streams();
  };
  return out;
}

}  // namespace kvasir
