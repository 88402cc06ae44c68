#include "server/http/http_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

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

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

bool is_token_char(char c) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         kOthers.find(c) != std::string_view::npos;
}

bool is_text_char(char c) { return c == '\t' || (c != '\x7f' && static_cast<unsigned char>(c) >= ' '); }

// The values of the headers that decide where a request ends and whose it is.
struct DecisiveHeaders {
  std::vector<std::string_view> values[6];
  static constexpr std::string_view kNames[6] = {"content-length", "transfer-encoding", "host",
                                                 "authorization",  "x-api-key",         "origin"};

  void see(std::string_view name, std::string_view value) {
    for (size_t i = 0; i < std::size(kNames); ++i) {
      if (lower(name) == kNames[i]) values[i].push_back(value);
    }
  }
  std::optional<Refusal> fault() const;
};

std::optional<Refusal> DecisiveHeaders::fault() const {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (values[i].size() > 1) return Refusal{400, fmt::format("the header {} came more than once", kNames[i])};
  }
  const auto& [lengths, encodings, hosts, keys, more_keys, origins] = values;
  if (!lengths.empty() && !encodings.empty()) return Refusal{400, "both content-length and transfer-encoding"};
  if (!encodings.empty() && lower(encodings.front()) != "chunked")
    return Refusal{501, "the only transfer-encoding that is understood is chunked"};
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!lengths.empty() && (lengths.front().empty() || !std::ranges::all_of(lengths.front(), is_digit)))
    return Refusal{400, "content-length is not a number"};
  return std::nullopt;
}

// `line`: without its end.
std::optional<Refusal> fault_of_field(std::string_view line, DecisiveHeaders& seen) {
  if (line.front() == ' ' || line.front() == '\t') return Refusal{400, "a header that goes on in a second line"};
  const size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  if (colon == std::string_view::npos || name.empty() || !std::ranges::all_of(name, is_token_char))
    return Refusal{400, "a header without a proper name"};
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (lower(name) == "expect" && lower(value) != "100-continue")
    return Refusal{417, "the only expectation that is met is 100-continue"};
  seen.see(name, value);
  return std::nullopt;
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
    case 413:
      return "Content Too Large";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
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

std::optional<Refusal> fault_of(std::string_view head) {
  if (is_hopeless(head)) return Refusal{400, "a control character in the head"};
  DecisiveHeaders seen;
  size_t at = head.find("\r\n");
  const std::string_view first = head.substr(0, at);
  while (at != std::string_view::npos) {
    const size_t next = head.find("\r\n", at + 2);
    const std::string_view line = head.substr(at + 2, next - at - 2);
    if (line.empty()) break;
    if (std::optional<Refusal> fault = fault_of_field(line, seen)) return fault;
    at = next;
  }
  // HTTP/1.0 knows no chunks: who forwards it may not have looked for them.
  if (first.ends_with("HTTP/1.0") && !seen.values[1].empty()) return Refusal{400, "transfer-encoding in HTTP/1.0"};
  if (first.ends_with("HTTP/1.1") && seen.values[2].empty()) return Refusal{400, "the header host is missing"};
  return seen.fault();
}

bool is_hopeless(std::string_view bytes, size_t from) {
  constexpr size_t kLongestMethod = 32;
  const std::string_view method = bytes.substr(0, bytes.find(' '));
  if (method.size() > kLongestMethod || !std::ranges::all_of(method, is_token_char)) return true;
  for (size_t i = from; i < bytes.size(); ++i) {
    if (bytes[i] == '\r') {
      if (i + 1 < bytes.size() && bytes[i + 1] != '\n') return true;
    } else if (bytes[i] == '\n') {
      if (i == 0 || bytes[i - 1] != '\r') return true;
    } else if (!is_text_char(bytes[i])) {
      return true;
    }
  }
  return false;
}

std::string_view authority_of(std::string_view target) {
  const std::string scheme = lower(target.substr(0, 8));
  if (!scheme.starts_with("http://") && scheme != "https://") return {};
  target.remove_prefix(target.find("//") + 2);
  return target.substr(0, target.find_first_of("/?#"));
}

std::string_view path_of(std::string_view target) {
  if (const std::string_view authority = authority_of(target); !authority.empty()) {
    target.remove_prefix(static_cast<size_t>(authority.end() - target.begin()));
    if (!target.starts_with('/')) return "/";
  }
  return target.substr(0, target.find_first_of("?#"));
}

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

bool is_origin_of_host(std::string_view origin, std::string_view host) {
  const size_t scheme = origin.find("://");
  return scheme != std::string_view::npos && !host.empty() && lower(origin.substr(scheme + 3)) == lower(host);
}

// "br, gzip;q=1.0": but not "gzip;q=0".
bool accepts_gzip(std::string_view accept_encoding) {
  const std::string all = lower(accept_encoding);
  const size_t at = all.find("gzip");
  if (at == std::string::npos) return false;
  const std::string_view rest = std::string_view(all).substr(at + 4);
  const std::string_view weight = rest.substr(0, rest.find(','));
  return weight.find("q=0") == std::string_view::npos || weight.find("q=0.") != std::string_view::npos;
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
