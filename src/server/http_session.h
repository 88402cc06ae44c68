// One connection: reads requests one after the other and answers each. Lives on the server's one I/O thread.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <optional>
#include <string>

#include "server/http_server.h"
#include "server/http_text.h"

namespace kvasir {

// What the connections of a server share. Outlives them.
struct SessionContext {
  const HttpOptions& options;
  const HttpServer::Callbacks& callbacks;
  boost::asio::thread_pool& handlers;
  bool draining = false;
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(boost::asio::ip::tcp::socket socket, SessionContext& context);

  boost::asio::awaitable<void> run();  // until the connection is closed; never throws
  void close_if_idle();
  void close_now();

 private:
  using Clock = std::chrono::steady_clock;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  template <class T>
  using Awaitable = boost::asio::awaitable<T>;
  enum class Read { kRequest, kAnswered, kClose };  // kAnswered: from its headers

  Awaitable<void> serve();
  Awaitable<Read> read_request();
  Awaitable<bool> wait_for_first_byte();
  Awaitable<void> refuse_unread(const boost::system::error_code& error);
  void take_request(Parser& parser);

  Awaitable<void> answer();
  std::optional<HttpReply> answer_without_handler();
  Awaitable<void> call_handler();
  Awaitable<void> send_whole(HttpReply reply);
  Awaitable<void> send_when_done();
  Awaitable<void> send_stream();
  Awaitable<Work::Progress> next_progress();
  Awaitable<void> write(std::string bytes);
  Awaitable<void> linger();

  void watch_for_close();
  void stop_watching();
  HttpReply with_common_headers(HttpReply reply) const;
  KeepAlive keep_alive() const;
  void log(std::string_view outcome);

  SessionContext& context_;
  boost::beast::tcp_stream stream_;
  boost::asio::steady_timer news_;  // fires, or is cancelled, when there may be something to do
  boost::beast::flat_buffer buffer_;
  bool idle_ = false;      // between two requests
  bool gone_ = false;      // the client has closed its side
  bool watching_ = false;  // for that

  // The request being answered.
  HttpRequest request_;
  std::string origin_;
  std::string host_;
  int version_ = 11;
  bool wants_keep_alive_ = false;
  Response response_;
  HttpExchange exchange_;
  Clock::time_point start_;
};

}  // namespace kvasir
