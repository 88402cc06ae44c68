#include "server/http/http_session.h"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <utility>

namespace kvasir {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

std::string_view outcome_of(const Work::Progress& progress) {
  if (progress.status == 504) return "timeout";
  return progress.status == 503 ? "shutdown" : "done";
}

// Of what is read and not yet understood: a head, or a line of a chunk.
size_t unread_bytes(const HttpOptions& options) { return options.header_bytes + (64U << 10); }

}  // namespace

Session::Session(asio::ip::tcp::socket socket, SessionContext& context)
    : context_(context),
      stream_(std::move(socket)),
      wake_(stream_.get_executor()),
      buffer_(unread_bytes(context.options)) {
  error_code ignored;
  stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  stream_.socket().non_blocking(true, ignored);
}

void Session::close_if_idle() {
  if (idle_since_) close_now();
}

void Session::close_now() {
  gone_ = true;
  wake_.cancel();
  error_code ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  stream_.close();
}

bool Session::cut_short() {
  if (answering_) {
    wake_.cancel();
  } else {
    close_now();
  }
  return answering_;
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

// One who comes while the server drains is still told so.
asio::awaitable<void> Session::serve() {
  do {
    const Read read = co_await read_request();
    if (read == Read::kClose) break;
    answering_ = true;
    if (read == Read::kRequest) co_await answer();
    answering_ = false;
    stop_watching();
    response_ = {};
    if (keep_alive() == KeepAlive::kNo) {
      co_await linger();
      break;
    }
  } while (!context_.draining && !gone_);
}

KeepAlive Session::keep_alive() const {
  return wants_keep_alive_ && !context_.draining && !gone_ ? KeepAlive::kYes : KeepAlive::kNo;
}

asio::awaitable<void> Session::answer() {
  const Lane lane = context_.callbacks.lane ? context_.callbacks.lane(request_) : Lane::kHandlers;
  if (lane == Lane::kNow) {
    response_ = context_.callbacks.handle(request_);
  } else {
    watch_for_close();
    const bool handled = co_await call_handler(lane == Lane::kHandlers ? context_.handlers : context_.questions);
    if (!handled) co_return;
  }
  request_.body = {};  // up to tens of megabytes, and an answer may take minutes
  body_share_.reset();
  if (response_.body == Response::Body::kReady) {
    stop_watching();
    co_await send_whole(std::move(response_.reply));
    log("done");
    co_return;
  }
  response_.work->on_event([weak = weak_from_this(), executor = stream_.get_executor()] {
    asio::post(executor, [weak] {
      if (const auto self = weak.lock()) self->wake_.cancel();
    });
  });
  if (response_.body == Response::Body::kWhole) {
    co_await send_when_done();
  } else {
    co_await send_stream();
  }
}

// False: no handler will see the request, and whoever still waits for an answer has one.
asio::awaitable<bool> Session::call_handler(HandlerPool& pool) {
  handled_ = false;
  // While the session waits, nothing but the handler touches request_ and response_; and the last to let go of the
  // session is the thread of the sockets.
  const HandlerPool::Ticket ticket = pool.submit(request_.tenant, [self = shared_from_this()]() mutable {
    try {
      self->response_ = self->context_.callbacks.handle(self->request_);
    } catch (const std::exception&) {  // no memory, not even for an error
      self->response_.reply.status = 500;
    }
    const auto executor = self->stream_.get_executor();
    asio::post(executor, [self = std::move(self)] {
      self->handled_ = true;
      self->wake_.cancel();
    });
  });
  if (!ticket) {
    Refusal full{429, "too many of your requests wait to be read; try again"};
    co_await refuse_unhandled(std::move(full));
    co_return false;
  }
  bool waiting = true;
  while (!handled_) {
    wake_.expires_at(waiting ? deadline() : Clock::time_point::max());
    error_code ignored;
    co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    if (handled_ || !waiting || !(gone_ || time_is_up())) continue;
    waiting = false;  // it runs, and cannot be stopped
    if (!pool.withdraw(ticket)) continue;
    if (gone_) {
      log("gone");
      co_return false;
    }
    Refusal late{504, "the request waited longer than the server's --request-timeout"};
    if (time_is_up() == GiveUp::kShutdown) late = {503, "the server is shutting down"};
    co_await refuse_unhandled(std::move(late));
    co_return false;
  }
  co_return true;
}

asio::awaitable<void> Session::refuse_unhandled(Refusal why) {
  const bool late = why.status == 504;
  HttpReply reply = context_.callbacks.refuse(request_.path, why.status, why.message);
  late ? reply.headers.emplace_back("x-should-retry", "false") : reply.headers.emplace_back("retry-after", "1");
  stop_watching();
  co_await send_whole(std::move(reply));
  log(late ? "timeout" : "refused");
}

Session::Clock::time_point Session::deadline() const {
  const std::chrono::milliseconds limit = context_.options.request_timeout;
  return limit.count() > 0 ? start_ + limit : Clock::time_point::max();
}

std::optional<GiveUp> Session::time_is_up() const {
  if (context_.drain_over) return GiveUp::kShutdown;
  if (Clock::now() >= deadline()) return GiveUp::kDeadline;
  return std::nullopt;
}

HttpReply Session::with_common_headers(HttpReply reply) const {
  reply.headers.emplace_back("x-request-id", request_.id);
  if (!origin_.empty() && is_allowed_origin(origin_, context_.options.allowed_origins)) {
    reply.headers.emplace_back("access-control-allow-origin", origin_);
    reply.headers.emplace_back("access-control-expose-headers", "x-request-id, retry-after, x-should-retry");
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
  if (progress.status == 504) reply.headers.emplace_back("x-should-retry", "false");
  if (progress.status == 503) reply.headers.emplace_back("retry-after", "1");
  co_await send_whole(std::move(reply));
  log(outcome_of(progress));
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
  log(gone_ ? "gone" : outcome_of(progress));
}

// Something to send, a heartbeat included, or the end; returns empty-handed only when the client is gone.
asio::awaitable<Work::Progress> Session::next_progress() {
  const HttpOptions& options = context_.options;
  const Clock::time_point silent_until = Clock::now() + options.heartbeat_after;
  while (!gone_) {
    Work::Progress progress = response_.work->take();
    if (progress.done || !progress.bytes.empty()) co_return progress;
    if (const std::optional<GiveUp> why = time_is_up()) {
      progress = response_.work->give_up(*why);
      co_return progress;
    }
    if (Clock::now() >= silent_until && !response_.heartbeat.empty()) {
      progress.bytes = response_.heartbeat;
      co_return progress;
    }
    wake_.expires_at(response_.heartbeat.empty() ? deadline() : std::min(deadline(), silent_until));
    error_code ignored;
    co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
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
    self->wake_.cancel();
  });
}

void Session::stop_watching() {
  if (!watching_) return;
  watching_ = false;
  error_code ignored;
  stream_.socket().cancel(ignored);
}

// A line that cannot be had must not keep the connection open.
void Session::log(std::string_view outcome) noexcept {
  if (request_.id.empty() || !context_.callbacks.on_exchange) return;  // nothing was asked
  try {
    exchange_.id = request_.id;
    exchange_.tenant = request_.tenant;
    exchange_.method = request_.method;
    exchange_.path = request_.path;
    exchange_.outcome = outcome;
    exchange_.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    if (response_.work) exchange_.tokens = response_.work->tokens();
    context_.callbacks.on_exchange(exchange_);
  } catch (const std::exception&) {
  }
}

}  // namespace kvasir
