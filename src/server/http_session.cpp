#include "server/http_session.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <utility>

#include "server/random_id.h"

namespace kvasir {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

// A number for what was wrong with the bytes; 0: the connection is beyond answering.
int status_of(const error_code& error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) return 431;
  if (error == http::error::body_limit) return 413;
  if (error == http::error::end_of_stream || error == http::error::partial_message) return 0;
  return error.category() == http::make_error_code(http::error::bad_method).category() ? 400 : 0;
}

}  // namespace

Session::Session(asio::ip::tcp::socket socket, SessionContext& context)
    : context_(context), stream_(std::move(socket)), news_(stream_.get_executor()) {
  error_code ignored;
  stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  stream_.socket().non_blocking(true, ignored);
}

void Session::close_if_idle() {
  if (idle_) close_now();
}

void Session::close_now() {
  gone_ = true;
  news_.cancel();
  error_code ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  stream_.close();
}

asio::awaitable<void> Session::run() {
  try {
    co_await serve();
  } catch (const boost::system::system_error&) {
    log("gone");
  } catch (const std::exception&) {  // our bug, or no memory: this connection's trouble is no other's
    log("failed");
  }
  response_ = {};  // the engine stops working for it
  stop_watching();
  stream_.close();
}

asio::awaitable<void> Session::serve() {
  while (!context_.draining && !gone_) {
    const Read read = co_await read_request();
    if (read == Read::kClose) break;
    if (read == Read::kRequest) co_await answer();
    response_ = {};
    if (keep_alive() == KeepAlive::kNo) {
      co_await linger();
      break;
    }
  }
}

asio::awaitable<bool> Session::wait_for_first_byte() {
  if (buffer_.size() > 0) co_return true;
  idle_ = true;
  stream_.expires_after(context_.options.idle_timeout);
  error_code error;
  const size_t bytes =
      co_await stream_.async_read_some(buffer_.prepare(4096), asio::redirect_error(asio::use_awaitable, error));
  idle_ = false;
  buffer_.commit(bytes);
  co_return !error;
}

asio::awaitable<Session::Read> Session::read_request() {
  exchange_ = {};
  request_ = {};
  origin_.clear();
  host_.clear();
  wants_keep_alive_ = false;
  const bool begun = co_await wait_for_first_byte();
  if (!begun) co_return Read::kClose;
  start_ = Clock::now();
  Parser parser;
  parser.header_limit(context_.options.header_bytes);
  parser.body_limit(context_.options.body_bytes);
  stream_.expires_after(context_.options.header_timeout);
  error_code error;
  co_await http::async_read_header(stream_, buffer_, parser, asio::redirect_error(asio::use_awaitable, error));
  if (!error) {
    take_request(parser);
    if (std::optional<HttpReply> reply = answer_without_handler()) {
      if (!parser.is_done()) wants_keep_alive_ = false;  // the body stays unread
      co_await send_whole(std::move(*reply));
      log("refused");
      co_return Read::kAnswered;
    }
    stream_.expires_after(context_.options.body_timeout);
    const std::string_view expect = parser.get()[http::field::expect];
    if (!parser.is_done() && beast::iequals(expect, "100-continue")) co_await write("HTTP/1.1 100 Continue\r\n\r\n");
    stream_.expires_after(context_.options.body_timeout);
    co_await http::async_read(stream_, buffer_, parser, asio::redirect_error(asio::use_awaitable, error));
  }
  if (error) {
    co_await refuse_unread(error);
    co_return Read::kClose;
  }
  request_.body = std::move(parser.get().body());
  co_return Read::kRequest;
}

asio::awaitable<void> Session::refuse_unread(const error_code& error) {
  const int status = status_of(error);
  if (status == 0) co_return;
  wants_keep_alive_ = false;
  if (request_.id.empty()) request_.id = "req-" + random_hex(96);
  HttpReply reply =
      context_.callbacks.refuse(request_.path, status, "this is not a request the server reads: " + error.message());
  co_await send_whole(std::move(reply));
  log("refused");
  co_await linger();
}

void Session::take_request(Parser& parser) {
  const auto& message = parser.get();
  request_.method = std::string(message.method_string());
  request_.path = std::string(path_of(message.target()));
  const std::string_view id = message["x-request-id"];
  request_.id = is_request_id(id) ? std::string(id) : "req-" + random_hex(96);
  request_.key = std::string(key_of(message[http::field::authorization], message["x-api-key"]));
  const std::string_view explain = message["x-kvasir-explain"];
  request_.explain = !explain.empty() && explain != "0" && explain != "false";
  origin_ = std::string(message[http::field::origin]);
  host_ = std::string(message[http::field::host]);
  version_ = static_cast<int>(message.version());
  wants_keep_alive_ = message.keep_alive();
}

KeepAlive Session::keep_alive() const {
  return wants_keep_alive_ && !context_.draining && !gone_ ? KeepAlive::kYes : KeepAlive::kNo;
}

std::optional<HttpReply> Session::answer_without_handler() {
  if (context_.options.allowed_hosts && !is_allowed_host(host_, *context_.options.allowed_hosts)) {
    return context_.callbacks.refuse(request_.path, 403, "the server does not go by this name; see --allow-host");
  }
  if (!origin_.empty() && !is_allowed_origin(origin_, context_.options.allowed_origins)) {
    return context_.callbacks.refuse(request_.path, 403,
                                     "pages of this origin may not use the server; see --allow-origin");
  }
  if (request_.method != "OPTIONS") {  // a browser asks with OPTIONS before it sends a key
    return context_.callbacks.identify ? context_.callbacks.identify(request_) : std::nullopt;
  }
  HttpReply reply;
  reply.status = 204;
  reply.headers = {{"allow", "GET, POST, DELETE, OPTIONS"},
                   {"access-control-allow-methods", "GET, POST, DELETE, OPTIONS"},
                   {"access-control-allow-headers", "*, authorization"},
                   {"access-control-max-age", "600"}};
  return reply;
}

asio::awaitable<void> Session::answer() {
  co_await asio::co_spawn(context_.handlers.get_executor(), call_handler(), asio::use_awaitable);
  request_.body = {};  // up to tens of megabytes, and an answer may take minutes
  if (response_.body == Response::Body::kReady) {
    co_await send_whole(std::move(response_.reply));
    log("done");
    co_return;
  }
  response_.work->on_news([weak = weak_from_this(), executor = stream_.get_executor()] {
    asio::post(executor, [weak] {
      if (const auto self = weak.lock()) self->news_.cancel();
    });
  });
  watch_for_close();
  if (response_.body == Response::Body::kWhole) {
    co_await send_when_done();
  } else {
    co_await send_stream();
  }
  stop_watching();
}

// Runs on a handler thread while the session waits: nothing else touches request_ and response_.
asio::awaitable<void> Session::call_handler() {
  response_ = context_.callbacks.handle(request_);
  co_return;
}

HttpReply Session::with_common_headers(HttpReply reply) const {
  reply.headers.emplace_back("x-request-id", request_.id);
  if (!origin_.empty() && is_allowed_origin(origin_, context_.options.allowed_origins)) {
    reply.headers.emplace_back("access-control-allow-origin", origin_);
    reply.headers.emplace_back("access-control-expose-headers", "x-request-id");
    reply.headers.emplace_back("vary", "origin");
  }
  return reply;
}

asio::awaitable<void> Session::send_whole(HttpReply reply) {
  reply = with_common_headers(std::move(reply));
  exchange_.status = reply.status;
  exchange_.bytes = reply.body.size();
  std::string bytes = head_text(reply, Framing::kLength, keep_alive());
  if (request_.method != "HEAD") bytes += reply.body;
  co_await write(std::move(bytes));
}

asio::awaitable<void> Session::send_when_done() {
  std::string body;
  Work::Progress progress;
  while (!progress.done) {
    progress = co_await next_progress();
    if (gone_) {
      log("gone");
      co_return;
    }
    body += progress.bytes;
  }
  HttpReply reply = std::move(response_.reply);
  reply.status = progress.status;
  reply.body = std::move(body);
  // A client that was kept waiting until the deadline gains nothing by asking again at once.
  if (progress.status == 408) reply.headers.emplace_back("x-should-retry", "false");
  co_await send_whole(std::move(reply));
  log(progress.status == 408 ? "timeout" : "done");
}

asio::awaitable<void> Session::send_stream() {
  const Framing framing = version_ >= 11 ? Framing::kChunked : Framing::kClose;
  if (framing == Framing::kClose) wants_keep_alive_ = false;
  const HttpReply head = with_common_headers(std::move(response_.reply));
  exchange_.status = head.status;
  co_await write(head_text(head, framing, keep_alive()));
  Work::Progress progress;
  while (!progress.done) {
    progress = co_await next_progress();
    if (gone_) break;
    exchange_.bytes += progress.bytes.size();
    std::string bytes;
    if (!progress.bytes.empty())
      bytes = framing == Framing::kChunked ? chunk_text(progress.bytes) : std::move(progress.bytes);
    if (progress.done && framing == Framing::kChunked) bytes += kLastChunk;
    if (!bytes.empty()) co_await write(std::move(bytes));
  }
  log(gone_ ? "gone" : progress.status == 408 ? "timeout" : "done");
}

// Something to send, a heartbeat included, or the end; returns empty-handed only when the client is gone.
asio::awaitable<Work::Progress> Session::next_progress() {
  const HttpOptions& options = context_.options;
  const Clock::time_point silent_until = Clock::now() + options.heartbeat_after;
  const bool limited = options.request_timeout.count() > 0;
  const Clock::time_point deadline = limited ? start_ + options.request_timeout : Clock::time_point::max();
  while (!gone_) {
    Work::Progress progress = response_.work->take();
    if (progress.done || !progress.bytes.empty()) co_return progress;
    const Clock::time_point now = Clock::now();
    if (now >= deadline) {
      progress = response_.work->give_up("the answer took longer than the server's --request-timeout");
      co_return progress;
    }
    if (now >= silent_until && !response_.heartbeat.empty()) {
      progress.bytes = response_.heartbeat;
      co_return progress;
    }
    news_.expires_at(response_.heartbeat.empty() ? deadline : std::min(deadline, silent_until));
    error_code ignored;
    co_await news_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  co_return Work::Progress{};
}

asio::awaitable<void> Session::write(std::string bytes) {
  stream_.expires_after(context_.options.write_timeout);
  co_await asio::async_write(stream_, asio::buffer(bytes), asio::use_awaitable);
  stream_.expires_never();
}

// Closing while the client still sends would reset the connection, and our last reply might never be read.
asio::awaitable<void> Session::linger() {
  error_code error;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, error);
  stream_.expires_after(std::chrono::seconds(2));
  buffer_.clear();
  while (!error) {
    co_await stream_.async_read_some(buffer_.prepare(16384), asio::redirect_error(asio::use_awaitable, error));
  }
}

// A client that closes has lost interest, whatever else it sent before that: what comes meanwhile begins its next
// request, and is kept. One that sends more than a head's worth unanswered is only found gone when it is written to.
void Session::watch_for_close() {
  watching_ = true;
  stream_.socket().async_wait(asio::ip::tcp::socket::wait_read, [self = shared_from_this()](const error_code& error) {
    if (error || !self->watching_) return;
    const size_t room = self->context_.options.header_bytes;
    if (self->buffer_.size() >= room) return;
    error_code read;
    const size_t bytes = self->stream_.socket().receive(
        self->buffer_.prepare(std::min<size_t>(room - self->buffer_.size(), 4096)), 0, read);
    self->buffer_.commit(bytes);
    if (bytes > 0 || read == asio::error::would_block) return self->watch_for_close();
    self->gone_ = true;
    self->news_.cancel();
  });
}

void Session::stop_watching() {
  if (!watching_) return;
  watching_ = false;
  error_code ignored;
  stream_.socket().cancel(ignored);
}

void Session::log(std::string_view outcome) {
  if (request_.id.empty()) return;  // nothing was asked
  exchange_.id = request_.id;
  exchange_.method = request_.method;
  exchange_.path = request_.path;
  exchange_.outcome = outcome;
  exchange_.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  if (context_.callbacks.on_exchange) context_.callbacks.on_exchange(exchange_);
}

}  // namespace kvasir
