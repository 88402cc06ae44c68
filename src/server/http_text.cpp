#include "server/http_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace kvasir {
namespace {

std::string_view without_port(std::string_view host) {
  const size_t bracket = host.find(']');
  return host.substr(0, host.find(':', bracket == std::string_view::npos ? 0 : bracket));
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

}  // namespace

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    default:
      return "Unknown";
  }
}

std::string head_text(const HttpReply& reply, Framing framing, KeepAlive keep_alive) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", reply.status, reason_phrase(reply.status));
  if (reply.status != 204) out += fmt::format("content-type: {}\r\n", reply.content_type);
  if (framing == Framing::kChunked) out += "transfer-encoding: chunked\r\n";
  if (framing == Framing::kLength && reply.status != 204)
    out += fmt::format("content-length: {}\r\n", reply.body.size());
  for (const auto& [name, value] : reply.headers) out += fmt::format("{}: {}\r\n", name, value);
  out += keep_alive == KeepAlive::kYes ? "connection: keep-alive\r\n\r\n" : "connection: close\r\n\r\n";
  return out;
}

std::string chunk_text(std::string_view bytes) {
  CHECK(!bytes.empty());
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

bool is_request_id(std::string_view id) {
  return !id.empty() && id.size() <= 128 && std::ranges::all_of(id, [](char c) { return c > ' ' && c < '\x7f'; });
}

std::string_view path_of(std::string_view target) { return target.substr(0, target.find_first_of("?#")); }

bool is_loopback(std::string_view host) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host == "localhost" || host == "::1") return true;
  // 127.0.0.0/8 and nothing that only begins like it.
  return host.starts_with("127.") &&
         std::ranges::all_of(host, [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

bool is_allowed_origin(std::string_view origin, std::span<const std::string> allowed) {
  if (std::ranges::any_of(allowed, [&](const std::string& one) { return one == "*" || one == origin; })) return true;
  const size_t scheme = origin.find("://");
  if (scheme == std::string_view::npos) return false;
  return is_loopback(without_port(origin.substr(scheme + 3)));
}

bool is_allowed_host(std::string_view host, std::span<const std::string> allowed) {
  if (host.empty()) return true;
  const std::string name = lower(without_port(host));
  return is_loopback(name) ||
         std::ranges::any_of(allowed, [&](const std::string& one) { return lower(one) == name; });
}

std::string_view key_of(std::string_view authorization, std::string_view x_api_key) {
  constexpr std::string_view kScheme = "bearer ";
  if (lower(authorization.substr(0, kScheme.size())) != kScheme) return x_api_key;
  authorization.remove_prefix(kScheme.size());
  authorization.remove_prefix(std::min(authorization.find_first_not_of(' '), authorization.size()));
  return authorization;
}

}  // namespace kvasir
