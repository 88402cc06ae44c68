#include "server/http_server.h"

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
#include <unordered_set>

#include "base/error.h"
#include "server/http_session.h"

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
        handlers(static_cast<size_t>(std::max(options.handler_threads, 1))) {
    bind();
  }

  void bind();
  asio::awaitable<void> accept_loop();
  void open(tcp::socket socket);
  void turn_away(tcp::socket socket) const;
  void leave(const std::shared_ptr<Session>& session);
  void begin_drain();
  void wait_for_signal();
  void end_if_drained();

  HttpOptions options;
  Callbacks callbacks;
  asio::io_context io{1};
  tcp::acceptor acceptor;
  std::uint16_t port = 0;
  asio::signal_set signals;
  asio::steady_timer accept_pause;
  asio::thread_pool handlers;
  SessionContext context{options, callbacks, handlers};
  std::unordered_set<std::shared_ptr<Session>> sessions;
  std::function<void()> on_drain;
  std::function<void()> on_reload;
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
      open(std::move(socket));
      continue;
    }
    // Most likely no file descriptors are left: others will close.
    accept_pause.expires_after(std::chrono::milliseconds(50));
    co_await accept_pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
}

void HttpServer::Impl::open(tcp::socket socket) {
  if (sessions.size() >= options.max_connections) return turn_away(std::move(socket));
  auto session = std::make_shared<Session>(std::move(socket), context);
  sessions.insert(session);
  if (callbacks.on_connections) callbacks.on_connections(static_cast<std::int64_t>(sessions.size()));
  asio::co_spawn(io, session->run(), [this, session](const std::exception_ptr&) { leave(session); });
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
  context.draining = true;
  error_code ignored;
  acceptor.close(ignored);
  accept_pause.cancel();
  for (const auto& session : sessions) session->close_if_idle();
  end_if_drained();
}

// run() returns when nothing is left to wait for.
void HttpServer::Impl::end_if_drained() {
  error_code ignored;
  if (context.draining && sessions.empty()) signals.cancel(ignored);
}

void HttpServer::Impl::wait_for_signal() {
  signals.async_wait([this](const error_code& error, int number) {
    if (error) return;
    if (number == SIGHUP) {
      asio::post(handlers, on_reload);
      return wait_for_signal();
    }
    if (context.draining) std::_Exit(128 + number);
    if (on_drain) on_drain();
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
  impl_->io.run();
  impl_->handlers.join();
}

void HttpServer::drain() {
  asio::post(impl_->io, [impl = impl_.get()] { impl->begin_drain(); });
}

void HttpServer::stop() {
  asio::post(impl_->io, [impl = impl_.get()] {
    impl->begin_drain();
    for (const auto& session : impl->sessions) session->close_now();
  });
}

void HttpServer::drain_on_signals(std::function<void()> on_drain) {
  impl_->on_drain = std::move(on_drain);
  impl_->signals.add(SIGTERM);
  impl_->signals.add(SIGINT);
  impl_->wait_for_signal();
}

void HttpServer::reload_on_signal(std::function<void()> on_reload) {
  impl_->on_reload = std::move(on_reload);
  impl_->signals.add(SIGHUP);
}

}  // namespace kvasir
