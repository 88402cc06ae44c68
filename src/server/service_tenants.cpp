// Who asks, what they may, and what they have.
#include <fmt/format.h>

#include <algorithm>

#include "server/api/api_error.h"
#include "server/service.h"

namespace kvasir {
namespace {

ApiError key_error(std::string_view key) {
  return {{.status = 401, .type = "authentication_error", .code = "invalid_api_key"},
          key.empty() ? "a key is needed; send \"Authorization: Bearer KEY\" or \"X-Api-Key: KEY\""
                      : "this key is not known here"};
}

}  // namespace

void Service::set_keys(const KeysFile& keys) {
  tenants_.replace(keys);
  set_shares();
  feed_.restart();
}

void Service::set_shares() {
  engine_.ask([callers = tenants_.all()](Engine& engine) {
    for (const auto& caller : callers) engine.set_share(caller->id, caller->share);
    return true;
  });
}

bool Service::needs_key(std::string_view path) const {
  if (tenants_.open() || is_health(path)) return false;
  return path != "/metrics" || options_.metrics_for == ServiceOptions::MetricsFor::kKeys;
}

std::optional<HttpReply> Service::identify(HttpRequest& request) const {
  request.caller = tenants_.find(request.key);
  if (request.caller && !tenants_.open()) request.tenant = request.caller->name;
  if (request.caller || !needs_key(request.path)) return std::nullopt;
  return error_reply(dialect_of(request.path), key_error(request.key));
}

std::shared_ptr<const Caller> Service::caller_of(const HttpRequest& request) const {
  if (request.caller) return request.caller;
  if (tenants_.open()) return tenants_.find({});
  throw key_error(request.key);
}

// A place of the server's and one of the tenant's for each. How many others hold is nobody's business.
std::vector<Admission::Ticket> Service::admit(std::int64_t count, const Caller& caller) {
  const std::int64_t most = std::min(admission_.places(), caller.admission->places());
  if (count > most)
    bad_param("n", fmt::format("{} answers were asked for at once, and the server takes {}", count, most));
  const auto full = [count](Admission& where, const char* code, const std::string& message) {
    const int seconds = where.seconds_to_wait(count);
    throw ApiError({.status = 429, .type = "rate_limit_error", .code = code, .retry_after_s = seconds},
                   fmt::format("{}; try again in {} s", message, seconds));
  };
  auto own = caller.admission->admit(count);
  if (!own) {
    full(*caller.admission, "tenant_queue_full",
         fmt::format("{} of your requests are running or waiting already", caller.admission->taken()));
  }
  auto places = admission_.admit(count);
  if (!places) full(admission_, "queue_full", "the server has as many requests as it takes");
  std::vector<Admission::Ticket> tickets;
  for (size_t i = 0; i < places->size(); ++i) {
    using Both = std::pair<Admission::Ticket, Admission::Ticket>;
    tickets.push_back(std::make_shared<Both>(std::move((*own)[i]), std::move((*places)[i])));
  }
  return tickets;
}

std::vector<TenantNumbers> Service::tenant_numbers() {
  return engine_.ask([callers = tenants_.all()](Engine& engine) {
    std::vector<TenantNumbers> out;
    out.reserve(callers.size());
    for (const auto& caller : callers) {
      const auto texts = static_cast<std::int64_t>(engine.speculator().text_bytes(caller->id));
      out.push_back({caller->name, engine.cache().tenant_stats(caller->id), texts});
    }
    return out;
  });
}

}  // namespace kvasir
