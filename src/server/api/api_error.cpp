#include "server/api/api_error.h"

#include "server/api/json_fields.h"
#include "text/utf8.h"

namespace kvasir {
namespace {

constexpr size_t kLongestMessage = 600;  // bytes: longer than any of ours

OrderedJson text_or_null(const std::string& text) { return text.empty() ? OrderedJson(nullptr) : OrderedJson(text); }

std::string anthropic_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

}  // namespace

ApiError::ApiError(Reply reply, const std::string& message)
    : Error(reply.status >= 500 ? Kind::kSystem : Kind::kBadInput,
            {excerpt(message, kLongestMessage), excerpt(reply.param), ""}),
      reply_(std::move(reply)) {
  reply_.param = parts().where;
}

ApiError ApiError::from(const Error& error) {
  if (const auto* api = dynamic_cast<const ApiError*>(&error)) return *api;
  std::string message = error.parts().what;
  if (!error.parts().fix.empty()) message += "; " + error.parts().fix;
  Reply reply;
  if (error.kind() == Kind::kSystem) reply = {.status = 500, .type = "server_error"};
  if (error.kind() == Kind::kCapacity) reply.code = "context_length_exceeded";
  return {std::move(reply), message};
}

std::string excerpt(std::string_view text, size_t most) {
  if (text.size() <= most) return to_valid_utf8(text);
  size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return to_valid_utf8(text.substr(0, end)) + "…";
}

void bad_param(const std::string& param, const std::string& message) {
  throw ApiError({.param = param, .code = "invalid_value"}, message);
}

void not_supported(const std::string& param, const std::string& message) {
  throw ApiError({.param = param, .code = "unsupported_parameter"}, message);
}

Dialect dialect_of(std::string_view path) {
  if (path.starts_with("/v1/messages")) return Dialect::kAnthropic;
  if (path.starts_with("/api/")) return Dialect::kOllama;
  return Dialect::kOpenAi;
}

std::string error_body(Dialect dialect, const ApiError& error) {
  const ApiError::Reply& reply = error.reply();
  switch (dialect) {
    case Dialect::kAnthropic:
      return to_text(
          {{"type", "error"}, {"error", {{"type", anthropic_type(reply.status)}, {"message", error.message()}}}});
    case Dialect::kOllama:
      return to_text({{"error", error.message()}});
    case Dialect::kOpenAi:
      break;
  }
  return to_text({{"error",
                   {{"message", error.message()},
                    {"type", reply.type},
                    {"param", text_or_null(reply.param)},
                    {"code", text_or_null(reply.code)}}}});
}

HttpReply error_reply(Dialect dialect, const ApiError& error) {
  HttpReply reply;
  reply.status = error.reply().status;
  reply.body = error_body(dialect, error);
  if (error.reply().retry_after_s > 0)
    reply.headers.emplace_back("retry-after", std::to_string(error.reply().retry_after_s));
  if (reply.status == 401) reply.headers.emplace_back("www-authenticate", "Bearer");
  if (!error.reply().allow.empty()) reply.headers.emplace_back("allow", error.reply().allow);
  return reply;
}

}  // namespace kvasir
