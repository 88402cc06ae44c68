#include "cli/client/event_stream.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/error.h"

namespace kvasir {
namespace {

constexpr size_t kMostHead = 64 << 10;
constexpr size_t kMostEvent = size_t{256} << 20;  // a snapshot has some 60 bytes a block
constexpr size_t kMostRefusal = 64 << 10;

[[noreturn]] void fail_stream(const std::string& host) {
  fail_system("what came is no stream of events", host, "is this the address of a kvasir server?");
}

}  // namespace

EventStream::EventStream(const HttpAddress& address, const std::string& path, const std::string& key)
    : host_(fmt::format("{}:{}", address.host, address.port)), socket_(connect_to(address)) {
  std::string request = fmt::format("GET {} HTTP/1.1\r\nhost: {}\r\naccept: text/event-stream\r\n", path, host_);
  if (!key.empty()) request += fmt::format("authorization: Bearer {}\r\n", key);
  send_all(socket_, request + "\r\n", host_);
}

EventStream::~EventStream() { ::close(socket_); }

void EventStream::receive() {
  std::array<char, 65536> chunk{};
  ssize_t got = 0;
  do {
    got = ::recv(socket_, chunk.data(), chunk.size(), 0);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) fail_system("the server closed the connection", host_);
  buffer_.append(chunk.data(), static_cast<size_t>(got));
}

// False: more has to come.
bool EventStream::read_head() {
  const size_t end = buffer_.find("\r\n\r\n");
  if (end == std::string::npos) {
    if (buffer_.size() > kMostHead) fail_stream(host_);
    return false;
  }
  const std::string head = buffer_.substr(0, end + 2);
  int status = 0;
  if (!head.starts_with("HTTP/1.") || head.size() < 12) fail_stream(host_);
  std::from_chars(head.data() + 9, head.data() + 12, status);
  if (status != 200) {
    std::string body = buffer_.substr(end + 4);
    throw Refused{status, body.substr(0, kMostRefusal)};
  }
  const bool stream = head.find("\r\ncontent-type: text/event-stream") != std::string::npos;
  if (!stream || head.find("\r\ntransfer-encoding: chunked") == std::string::npos) fail_stream(host_);
  buffer_.erase(0, end + 4);
  begun_ = true;
  return true;
}

void EventStream::unchunk() {
  size_t at = 0;
  while (true) {
    const size_t line = buffer_.find("\r\n", at);
    if (line == std::string::npos) break;
    size_t size = 0;
    const auto [rest, error] = std::from_chars(buffer_.data() + at, buffer_.data() + line, size, 16);
    if (error != std::errc{} || size > kMostEvent) fail_stream(host_);
    if (size == 0) fail_system("the server ended the stream", host_);
    if (buffer_.size() < line + 2 + size + 2) break;
    events_.append(buffer_, line + 2, size);
    at = line + 2 + size + 2;
  }
  buffer_.erase(0, at);
}

std::vector<std::string> EventStream::read() {
  receive();
  if (!begun_ && !read_head()) return {};
  unchunk();
  std::vector<std::string> out;
  size_t at = 0;
  for (size_t end = 0; (end = events_.find("\n\n", at)) != std::string::npos; at = end + 2) {
    const std::string_view event = std::string_view(events_).substr(at, end - at);
    if (event.starts_with("data: ")) out.emplace_back(event.substr(6));  // else a comment: the server lives
  }
  events_.erase(0, at);
  if (events_.size() > kMostEvent) fail_stream(host_);
  return out;
}

}  // namespace kvasir
