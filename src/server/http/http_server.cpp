#include "server/http/http_server.h"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <cstdlib>
#include <map>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "server/http/http_session.h"

namespace kvasir {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

struct HttpServer::Impl {
  Impl(HttpOptions wanted, Callbacks given)
      : options(std::move(wanted)),
        callbacks(std::move(given)),
        acceptor(io),
        signals(io),
        accept_pause(io),
        drain_timer(io),
        handlers({options.handler_threads, options.handler_queue}),
        questions({1, options.handler_queue}) {
    bind();
  }

  void bind();
  asio::awaitable<void> accept_loop();
  void open(tcp::socket socket);
  bool close_longest_idle();
  void turn_away(tcp::socket socket) const;
  void leave(const std::shared_ptr<Session>& session);
  void begin_drain();
  void cut_short();
  void wait_for_signal();
  void end_if_drained();
  void close_all();

  HttpOptions options;
  Callbacks callbacks;
  asio::io_context io{1};
  tcp::acceptor acceptor;
  std::uint16_t port = 0;
  asio::signal_set signals;
  asio::steady_timer accept_pause;
  asio::steady_timer drain_timer;
  HandlerPool handlers;
  HandlerPool questions;
  SessionContext context{options, callbacks, handlers, questions, BodyBudget(options.bodies_bytes)};
  std::unordered_set<std::shared_ptr<Session>> sessions;
  size_t awaited = 0;  // sessions that a drain waits for: all that were there when it began
  bool drains_on_signals = false;
  std::map<int, std::function<void()>> hooks;
};

void HttpServer::Impl::bind() {
  error_code error;
  const asio::ip::address address =
      asio::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, error);
  if (error)
    fail_usage(fmt::format("'{}' is not an address", options.host), "--host", "use one like 127.0.0.1 or ::1");
  const tcp::endpoint endpoint(address, options.port);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    fail_usage(fmt::format("cannot listen on {}:{}: {}", options.host, options.port, error.message()), "--port",
               "use another --port, or end what uses this one");
  }
  port = acceptor.local_endpoint().port();
}

asio::awaitable<void> HttpServer::Impl::accept_loop() {
  while (acceptor.is_open()) {
    error_code error;
    tcp::socket socket = co_await acceptor.async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (!acceptor.is_open()) break;
    if (!error) {
      try {
        open(std::move(socket));
        continue;
      } catch (const std::exception&) {  // no memory for one more: this connection's trouble is no other's
      }
    }
    // Most likely no file descriptors are left: others will close.
    accept_pause.expires_after(std::chrono::milliseconds(50));
    co_await accept_pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
}

// Whoever keeps connections without using them keeps nobody else out.
bool HttpServer::Impl::close_longest_idle() {
  std::shared_ptr<Session> longest;
  for (const auto& session : sessions) {
    if (!session->idle_since()) continue;
    if (!longest || *session->idle_since() < *longest->idle_since()) longest = session;
  }
  if (longest) longest->close_now();
  return longest != nullptr;
}

void HttpServer::Impl::open(tcp::socket socket) {
  if (sessions.size() >= options.max_connections && !close_longest_idle()) return turn_away(std::move(socket));
  auto session = std::make_shared<Session>(std::move(socket), context);
  sessions.insert(session);
  if (!context.draining) ++awaited;
  if (callbacks.on_connections) callbacks.on_connections(static_cast<std::int64_t>(sessions.size()));
  asio::co_spawn(io, session->run(), [this, session, late = context.draining](const std::exception_ptr&) {
    if (!late) --awaited;
    leave(session);
  });
}

// One try, without waiting: who is turned away costs nothing more.
void HttpServer::Impl::turn_away(tcp::socket socket) const {
  HttpReply reply = callbacks.refuse("", 503, "too many connections; try again");
  reply.headers.emplace_back("retry-after", "1");
  const std::string bytes = head_text(reply, Framing::kLength, KeepAlive::kNo) + reply.body;
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.send(asio::buffer(bytes), 0, ignored);
  socket.shutdown(tcp::socket::shutdown_send, ignored);
}

void HttpServer::Impl::leave(const std::shared_ptr<Session>& session) {
  sessions.erase(session);
  if (callbacks.on_connections) callbacks.on_connections(static_cast<std::int64_t>(sessions.size()));
  end_if_drained();
}

void HttpServer::Impl::begin_drain() {
  if (context.draining) return;
  context.draining = true;
  if (callbacks.on_drain) callbacks.on_drain();
  // Closing a session may end it, and change the set.
  for (const auto& session : std::vector(sessions.begin(), sessions.end())) session->close_if_idle();
  if (options.drain_timeout.count() > 0) {
    drain_timer.expires_after(options.drain_timeout);
    drain_timer.async_wait([this](const error_code& error) {
      if (!error) cut_short();
    });
  }
  end_if_drained();
}

// What still runs is told so, and then has a moment to send it.
void HttpServer::Impl::cut_short() {
  context.drain_over = true;
  size_t cut = 0;
  for (const auto& session : std::vector(sessions.begin(), sessions.end())) cut += session->cut_short() ? 1 : 0;
  if (callbacks.on_drain_timeout) callbacks.on_drain_timeout(cut);
  drain_timer.expires_after(std::chrono::seconds(2));
  drain_timer.async_wait([this](const error_code& error) {
    if (!error) close_all();
  });
}

// run() returns when nothing is left to wait for.
void HttpServer::Impl::end_if_drained() {
  if (!context.draining || awaited > 0) return;
  error_code ignored;
  signals.cancel(ignored);
  drain_timer.cancel();
  close_all();
}

void HttpServer::Impl::close_all() {
  error_code ignored;
  acceptor.close(ignored);
  accept_pause.cancel();
  for (const auto& session : std::vector(sessions.begin(), sessions.end())) session->close_now();
}

void HttpServer::Impl::wait_for_signal() {
  signals.async_wait([this](const error_code& error, int number) {
    if (error) return;
    if (const auto hook = hooks.find(number); hook != hooks.end()) {
      questions.submit("", hook->second);
      return wait_for_signal();
    }
    if (context.draining) std::_Exit(128 + number);
    wait_for_signal();
    begin_drain();
  });
}

HttpServer::HttpServer(HttpOptions options, Callbacks callbacks)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(callbacks))) {}

HttpServer::~HttpServer() = default;

std::uint16_t HttpServer::port() const { return impl_->port; }

void HttpServer::run() {
  asio::co_spawn(impl_->io, impl_->accept_loop(), asio::detached);
  if (!impl_->hooks.empty() || impl_->drains_on_signals) impl_->wait_for_signal();
  for (bool ended = false; !ended;) {
    try {
      impl_->io.run();
      ended = true;
    } catch (const std::exception&) {  // no memory for a moment; what it concerned is left to its timeouts
    }
  }
  impl_->handlers.join();
  impl_->questions.join();
}

void HttpServer::drain() {
  asio::post(impl_->io, [impl = impl_.get()] { impl->begin_drain(); });
}

void HttpServer::stop() {
  asio::post(impl_->io, [impl = impl_.get()] {
    impl->begin_drain();
    impl->close_all();
  });
}

void HttpServer::drain_on_signals() {
  impl_->drains_on_signals = true;
  impl_->signals.add(SIGTERM);
  impl_->signals.add(SIGINT);
}

void HttpServer::on_signal(int number, std::function<void()> hook) {
  impl_->hooks[number] = std::move(hook);
  impl_->signals.add(number);
}

}  // namespace kvasir
