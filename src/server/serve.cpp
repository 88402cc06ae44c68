#include "server/serve.h"

#include <fmt/format.h>

#include "server/api_error.h"
#include "server/log.h"

namespace kvasir {
namespace {

ApiError refusal(int status, const std::string& message) {
  ApiError::Reply reply;
  reply.status = status;
  if (status == 403) reply.type = "permission_error";
  if (status == 503) reply.type = "unavailable_error";
  return {std::move(reply), message};
}

}  // namespace

HttpServer::Callbacks callbacks_of(Service& service, std::function<void(const std::string& line)> log) {
  if (log) {
    service.on_pause([log](const std::string& request, const Pause& pause) {
      log(log_line("pause",
                   {{"id", request}, {"how", std::string(name_of(pause.how))}, {"what", describe(request, pause)}}));
    });
  }
  if (log) {
    service.on_verdict([log](const Canary::Verdict& verdict) {
      log(log_line("kv_fallback", {{"policy", verdict.policy},
                                   {"by", verdict.replaced_by.empty() ? "none" : verdict.replaced_by},
                                   {"kl", fmt::format("{:.3g}", verdict.kl)},
                                   {"tokens", std::to_string(verdict.tokens)}}));
    });
  }
  HttpServer::Callbacks out;
  out.identify = [&service](HttpRequest& request) { return service.identify(request); };
  out.handle = [&service](const HttpRequest& request) { return service.handle(request); };
  out.refuse = [](const std::string& path, int status, const std::string& message) {
    return error_reply(dialect_of(path), refusal(status, message));
  };
  out.on_exchange = [&service, log = std::move(log)](const HttpExchange& exchange) {
    service.metrics().replied(exchange.status);
    if (log) log(log_line(exchange));
  };
  out.on_connections = [&service](std::int64_t open) { service.metrics().connections(open); };
  return out;
}

}  // namespace kvasir
