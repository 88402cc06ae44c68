#include "cli/client/http_client.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <memory>

#include "base/error.h"

namespace kvasir {
namespace {

constexpr int kSilenceMs = 60'000;

[[noreturn]] void fail_reply(const char* what) { fail_system(what, "the server's reply"); }

size_t number_at(std::string_view text, int base) {
  size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end == text.data()) fail_reply("a number was expected");
  return value;
}

// The value of a header that the server writes in lower case; empty: it is not there.
std::string_view header(std::string_view head, std::string_view name) {
  const std::string line = fmt::format("\r\n{}: ", name);
  const size_t at = head.find(line);
  if (at == std::string_view::npos) return {};
  const size_t from = at + line.size();
  return head.substr(from, head.find("\r\n", from) - from);
}

}  // namespace

HttpAddress parse_url(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme))
    fail_usage(fmt::format("'{}' is not an address", url), "--url", "use one like http://127.0.0.1:8080");
  std::string rest = url.substr(kScheme.size());
  rest = rest.substr(0, rest.find('/'));
  const size_t bracket = rest.find(']');
  const size_t colon = rest.find(':', bracket == std::string::npos ? 0 : bracket);
  HttpAddress out{rest.substr(0, colon), colon == std::string::npos ? "80" : rest.substr(colon + 1)};
  if (out.host.starts_with('[')) out.host = out.host.substr(1, out.host.size() - 2);
  return out;
}

int connect_to(const HttpAddress& address) {
  const std::string host = fmt::format("{}:{}", address.host, address.port);
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(address.host.c_str(), address.port.c_str(), &wanted, &found); error != 0)
    fail_system(::gai_strerror(error), host);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  int connected = -1;
  for (const addrinfo* one = found; one != nullptr && connected < 0; one = one->ai_next) {
    connected = ::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol);
    if (connected >= 0 && ::connect(connected, one->ai_addr, one->ai_addrlen) == 0) break;
    if (connected >= 0) ::close(connected);
    connected = -1;
  }
  if (connected < 0)
    fail_system(fmt::format("cannot connect: {}", std::strerror(errno)), host, "is the server running?");
  const int on = 1;
  ::setsockopt(connected, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return connected;
}

void send_all(int socket, std::string_view bytes, const std::string& host) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) fail_system(fmt::format("cannot send: {}", std::strerror(errno)), host);
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

HttpClient::HttpClient(const HttpAddress& address)
    : host_(fmt::format("{}:{}", address.host, address.port)), socket_(connect_to(address)) {}

HttpClient::~HttpClient() { ::close(socket_); }

HttpClient::Answer HttpClient::get(const std::string& path, const std::string& key) {
  return exchange(fmt::format("GET {} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\r\n", path, host_, key));
}

HttpClient::Answer HttpClient::post(const std::string& path, const std::string& key, const std::string& body) {
  return exchange(
      fmt::format("POST {} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n"
                  "content-length: {}\r\n\r\n{}",
                  path, host_, key, body.size(), body));
}

void HttpClient::receive() {
  pollfd wait{socket_, POLLIN, 0};
  if (::poll(&wait, 1, kSilenceMs) <= 0) fail_system("nothing came for a minute", host_);
  std::array<char, 16384> chunk{};
  const ssize_t got = ::recv(socket_, chunk.data(), chunk.size(), 0);
  if (got <= 0) fail_system("the server closed the connection", host_);
  buffer_.append(chunk.data(), static_cast<size_t>(got));
}

HttpClient::Answer HttpClient::exchange(const std::string& request) {
  const auto start = std::chrono::steady_clock::now();
  send_all(socket_, request, host_);
  size_t end = 0;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) receive();
  const std::string head = buffer_.substr(0, end + 2);
  buffer_.erase(0, end + 4);
  Answer answer;
  answer.status = static_cast<int>(number_at(std::string_view(head).substr(std::min<size_t>(9, head.size())), 10));
  if (header(head, "transfer-encoding") != "chunked") {
    const size_t size = number_at(header(head, "content-length"), 10);
    while (buffer_.size() < size) receive();
    answer.body = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return answer;
  }
  while (true) {
    size_t line = 0;
    while ((line = buffer_.find("\r\n")) == std::string::npos) receive();
    const size_t size = number_at(buffer_, 16);
    while (buffer_.size() < line + 2 + size + 2) receive();
    answer.body += buffer_.substr(line + 2, size);
    buffer_.erase(0, line + 2 + size + 2);
    if (size == 0) return answer;
    if (answer.first_event_seconds == 0 && answer.body.find("data:") != std::string::npos)
      answer.first_event_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
}

}  // namespace kvasir
