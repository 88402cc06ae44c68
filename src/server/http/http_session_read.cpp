// How a connection's requests are read.
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <utility>

#include "server/http/http_session.h"
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

Refusal fault_in(const error_code& error) {
  return {status_of(error), "this is not a request the server reads: " + error.message()};
}

}  // namespace

asio::awaitable<bool> Session::wait_for_first_byte() {
  if (buffer_.size() > 0) co_return true;
  idle_since_ = Clock::now();
  stream_.expires_after(context_.options.idle_timeout);
  error_code error;
  const size_t bytes =
      co_await stream_.async_read_some(buffer_.prepare(4096), asio::redirect_error(asio::use_awaitable, error));
  idle_since_ = std::nullopt;
  buffer_.commit(bytes);
  co_return !error;
}

// Until a whole head is in the buffer. A fault with status 0: the connection is beyond answering.
asio::awaitable<std::optional<Refusal>> Session::read_head() {
  constexpr std::string_view kEnd = "\r\n\r\n";
  const size_t limit = context_.options.header_bytes;
  size_t seen = 0;
  while (true) {
    std::string_view bytes(static_cast<const char*>(buffer_.data().data()), buffer_.size());
    if (seen == 0 && bytes.starts_with("\r\n")) {  // left over behind the request before
      buffer_.consume(2);
      continue;
    }
    const size_t end = bytes.find(kEnd, seen < kEnd.size() ? 0 : seen - kEnd.size());
    if (end < limit) co_return fault_of(bytes.substr(0, end + kEnd.size()));
    if (end != std::string_view::npos) co_return Refusal{431, "the headers are too large"};
    if (is_hopeless(bytes, seen == 0 ? 0 : seen - 1)) co_return Refusal{400, "this is not HTTP/1.1"};
    if (bytes.size() >= limit) co_return Refusal{431, "the headers are too large"};
    seen = bytes.size();
    error_code error;
    const size_t room = std::min<size_t>(limit - seen, 4096);
    const size_t more =
        co_await stream_.async_read_some(buffer_.prepare(room), asio::redirect_error(asio::use_awaitable, error));
    buffer_.commit(more);
    if (error) co_return Refusal{0, {}};
  }
}

asio::awaitable<Session::Read> Session::read_request() {
  exchange_ = {};
  request_ = {};
  body_share_.reset();
  origin_.clear();
  host_.clear();
  wants_keep_alive_ = false;
  const bool begun = co_await wait_for_first_byte();
  if (!begun) co_return Read::kClose;
  start_ = Clock::now();
  stream_.expires_after(context_.options.header_timeout);
  std::optional<Refusal> fault = co_await read_head();
  if (fault) co_return co_await refuse_unread(std::move(*fault));
  Parser parser;
  parser.header_limit(context_.options.header_bytes);
  parser.body_limit(context_.options.body_bytes);
  error_code error;
  co_await http::async_read_header(stream_, buffer_, parser, asio::redirect_error(asio::use_awaitable, error));
  if (error) {
    fault = fault_in(error);
    co_return co_await refuse_unread(std::move(*fault));
  }
  take_request(parser);
  if (std::optional<HttpReply> reply = answer_without_handler()) {
    if (!parser.is_done()) wants_keep_alive_ = false;  // the body stays unread
    co_await send_whole(std::move(*reply));
    log("refused");
    co_return Read::kAnswered;
  }
  co_return co_await read_body(parser);
}

asio::awaitable<Session::Read> Session::read_body(Parser& parser) {
  Refusal no_room{503, "the server reads as many large requests as it has room for; try again"};
  body_share_ = BodyBudget::Share(context_.bodies, request_.tenant);
  if (!body_share_.grow_to(parser.content_length().value_or(0))) co_return co_await refuse_unread(std::move(no_room));
  stream_.expires_after(context_.options.body_timeout);
  const std::string_view expect = parser.get()[http::field::expect];
  if (!parser.is_done() && beast::iequals(expect, "100-continue")) co_await write("HTTP/1.1 100 Continue\r\n\r\n");
  stream_.expires_after(context_.options.body_timeout);
  while (!parser.is_done()) {
    error_code error;
    co_await http::async_read_some(stream_, buffer_, parser, asio::redirect_error(asio::use_awaitable, error));
    if (error) {
      Refusal fault = fault_in(error);
      co_return co_await refuse_unread(std::move(fault));
    }
    if (!body_share_.grow_to(parser.get().body().capacity())) co_return co_await refuse_unread(std::move(no_room));
  }
  request_.body = std::move(parser.get().body());
  co_return Read::kRequest;
}

asio::awaitable<Session::Read> Session::refuse_unread(Refusal fault) {
  if (fault.status == 0) co_return Read::kClose;
  body_share_.reset();
  wants_keep_alive_ = false;
  if (request_.id.empty()) request_.id = "req-" + random_hex(96);
  HttpReply reply = context_.callbacks.refuse(request_.path, fault.status, fault.message);
  if (fault.status == 503) reply.headers.emplace_back("retry-after", "1");
  co_await send_whole(std::move(reply));
  log("refused");
  co_return Read::kAnswered;
}

void Session::take_request(const Parser& parser) {
  const auto& message = parser.get();
  request_.method = std::string(message.method_string());
  request_.path = std::string(path_of(message.target()));
  const std::string_view id = message["x-request-id"];
  request_.id = is_request_id(id) ? std::string(id) : "req-" + random_hex(96);
  request_.key = std::string(key_of(message[http::field::authorization], message["x-api-key"]));
  const std::string_view explain = message["x-kvasir-explain"];
  request_.explain = !explain.empty() && explain != "0" && explain != "false";
  request_.accepts_gzip = accepts_gzip(message[http::field::accept_encoding]);
  origin_ = std::string(message[http::field::origin]);
  const std::string_view authority = authority_of(message.target());
  host_ = std::string(authority.empty() ? std::string_view(message[http::field::host]) : authority);
  version_ = static_cast<int>(message.version());
  wants_keep_alive_ = message.keep_alive();
}

std::optional<HttpReply> Session::answer_without_handler() {
  if (context_.options.allowed_hosts && !is_allowed_host(host_, *context_.options.allowed_hosts)) {
    return context_.callbacks.refuse(request_.path, 403, "the server does not go by this name; see --allow-host");
  }
  const bool own_page = context_.options.own_pages && is_origin_of_host(origin_, host_);
  if (!origin_.empty() && !own_page && !is_allowed_origin(origin_, context_.options.allowed_origins)) {
    return context_.callbacks.refuse(request_.path, 403,
                                     "pages of this origin may not use the server; see --allow-origin");
  }
  const HttpServer::Callbacks& callbacks = context_.callbacks;
  if (request_.method != "OPTIONS") {  // a browser asks with OPTIONS before it sends a key
    std::optional<HttpReply> reply = callbacks.identify ? callbacks.identify(request_) : std::nullopt;
    const bool answers_now = callbacks.lane && callbacks.lane(request_) == Lane::kNow;
    if (reply || !context_.draining || answers_now) return reply;
    reply = callbacks.refuse(request_.path, 503, "the server is shutting down");
    reply->headers.emplace_back("retry-after", "1");
    return reply;
  }
  HttpReply reply;
  reply.status = 204;
  reply.headers = {{"allow", "GET, POST, DELETE, OPTIONS"},
                   {"access-control-allow-methods", "GET, POST, DELETE, OPTIONS"},
                   {"access-control-allow-headers", "*, authorization"},
                   {"access-control-max-age", "600"}};
  return reply;
}

}  // namespace kvasir
