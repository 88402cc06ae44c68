// One connection: reads requests one after the other and answers each. Lives on the server's one I/O thread.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <optional>
#include <string>

#include "server/http/body_budget.h"
#include "server/http/handler_pool.h"
#include "server/http/http_server.h"
#include "server/http/http_text.h"

namespace kvasir {

// What the connections of a server share. Outlives them.
struct SessionContext {
  const HttpOptions& options;
  const HttpServer::Callbacks& callbacks;
  HandlerPool& handlers;
  HandlerPool& questions;  // of Lane::kQuestion
  BodyBudget bodies;
  bool draining = false;
  bool drain_over = false;  // answers are ended
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(boost::asio::ip::tcp::socket socket, SessionContext& context);

  boost::asio::awaitable<void> run();  // until the connection is closed; never throws
  void close_if_idle();
  // Since when it has waited for a request; nullopt: it has one.
  std::optional<std::chrono::steady_clock::time_point> idle_since() const { return idle_since_; }
  void close_now();

  // Ends the answer that is being made with an error, and a request that is being read without one. Whether it was an
  // answer.
  bool cut_short();

 private:
  using Clock = std::chrono::steady_clock;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  template <class T>
  using Awaitable = boost::asio::awaitable<T>;
  enum class Read { kRequest, kAnswered, kClose };  // kAnswered: from its headers

  Awaitable<void> serve();

  // http_session_read.cpp
  Awaitable<Read> read_request();
  Awaitable<bool> wait_for_first_byte();
  Awaitable<std::optional<Refusal>> read_head();
  Awaitable<Read> read_body(Parser& parser);
  Awaitable<Read> refuse_unread(Refusal fault);
  void take_request(const Parser& parser);
  std::optional<HttpReply> answer_without_handler();

  Awaitable<void> answer();
  Awaitable<bool> call_handler(HandlerPool& pool);
  Awaitable<void> refuse_unhandled(Refusal why);
  Awaitable<void> send_whole(HttpReply reply);
  Awaitable<void> send_when_done();
  Awaitable<void> send_stream();
  Awaitable<Work::Progress> next_progress();
  Awaitable<void> write(std::string bytes);
  Awaitable<void> linger();

  Clock::time_point deadline() const;
  std::optional<GiveUp> time_is_up() const;
  void watch_for_close();
  void stop_watching();
  HttpReply with_common_headers(HttpReply reply) const;
  KeepAlive keep_alive() const;
  void log(std::string_view outcome) noexcept;

  SessionContext& context_;
  boost::beast::tcp_stream stream_;
  boost::asio::steady_timer wake_;  // fires, or is cancelled, when there may be something to do
  boost::beast::flat_buffer buffer_;
  std::optional<Clock::time_point> idle_since_{};  // between two requests
  bool answering_ = false;                         // one has been read
  bool gone_ = false;                              // the client has closed its side
  bool watching_ = false;                          // for that

  // The request being answered.
  HttpRequest request_;
  BodyBudget::Share body_share_;
  bool handled_ = false;  // response_ is there
  std::string origin_;
  std::string host_;
  int version_ = 11;
  bool wants_keep_alive_ = false;
  Response response_;
  HttpExchange exchange_;
  Clock::time_point start_;
};

}  // namespace kvasir
