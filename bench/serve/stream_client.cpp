#include "serve/stream_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <string_view>

namespace kvasir::bench {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::minutes kPatience{30};  // a stream that hangs is lost, not waited for without end

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The events of one stream, read as they come. Few are parsed: the client shares its cores with the server.
class Events {
 public:
  Events(Clock::time_point start, Outcome& outcome) : start_(start), outcome_(outcome) {}

  void read(std::string_view body) {
    for (size_t end = 0; (end = body.find("\n\n", at_)) != std::string_view::npos; at_ = end + 2)
      event(body.substr(at_, end - at_));
  }

  bool done() const { return done_; }
  int finished() const { return finished_; }

 private:
  void event(std::string_view line) {
    if (!line.starts_with("data: ")) return;  // a heartbeat
    line.remove_prefix(6);
    if (line == "[DONE]") {
      done_ = true;
      outcome_.end = since(start_);
      return;
    }
    if (line.find("\"finish_reason\":\"") != std::string_view::npos) ++finished_;
    if (line.find("\"usage\":{") != std::string_view::npos) read_usage(line);
    if (line.find("\"error\":{") != std::string_view::npos) outcome_.error = std::string(line.substr(0, 300));
    if (line.find("\"text\":\"") == std::string_view::npos || line.find("\"text\":\"\"") != std::string_view::npos)
      return;
    const double now = since(start_);
    if (outcome_.first_token == 0) {
      outcome_.first_token = now;
    } else {
      outcome_.gaps.push_back(now - last_);
    }
    last_ = now;
  }

  void read_usage(std::string_view line) {
    const Json usage = Json::parse(line)["usage"];
    outcome_.prompt_tokens = usage["prompt_tokens"];
    outcome_.answer_tokens = usage["completion_tokens"];
    if (usage.contains("prompt_tokens_details"))
      outcome_.cached_tokens = usage["prompt_tokens_details"].value("cached_tokens", 0);
  }

  Clock::time_point start_;
  Outcome& outcome_;
  size_t at_ = 0;
  double last_ = 0;
  int finished_ = 0;
  bool done_ = false;
};

struct Load {
  std::uint16_t port;
  LoadResult result;
  size_t left = 0;
  int open = 0;
  Clock::time_point start = Clock::now();
};

asio::awaitable<void> read_stream(beast::tcp_stream& stream, Load& load, Clock::time_point start, Outcome& outcome) {
  http::response_parser<http::string_body> parser;
  parser.body_limit(boost::none);
  beast::flat_buffer buffer;
  co_await http::async_read_header(stream, buffer, parser, asio::use_awaitable);
  load.result.most_open = std::max(load.result.most_open, ++load.open);
  Events events(start, outcome);
  beast::error_code error;
  while (!parser.is_done() && !error) {
    co_await http::async_read_some(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
    events.read(parser.get().body());
  }
  --load.open;
  if (parser.get().result_int() != 200) {
    outcome.error = fmt::format("{} {}", parser.get().result_int(), parser.get().body().substr(0, 300));
  } else if (error) {
    outcome.error = error.message();
  } else if (outcome.error.empty() && (!events.done() || events.finished() != 1)) {
    outcome.error = "the stream ended early";
  }
}

asio::awaitable<void> request_one(Load& load, std::string body, Outcome& outcome) {
  try {
    beast::tcp_stream stream(co_await asio::this_coro::executor);
    stream.expires_after(kPatience);
    const Clock::time_point start = Clock::now();
    co_await stream.async_connect(asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), load.port),
                                  asio::use_awaitable);
    const std::string request = fmt::format(
        "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\n"
        "content-length: {}\r\n\r\n{}",
        body.size(), body);
    co_await asio::async_write(stream, asio::buffer(request), asio::use_awaitable);
    co_await read_stream(stream, load, start, outcome);
  } catch (const std::exception& error) {
    outcome.error = error.what();
  }
  if (--load.left == 0) load.result.seconds = since(load.start);
}

asio::awaitable<void> tick(const Load& load, const StreamClient::OnTick& on_tick) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  while (load.left > 0) {
    on_tick();
    timer.expires_after(std::chrono::milliseconds(250));
    co_await timer.async_wait(asio::use_awaitable);
  }
}

std::string streamed(Json body) {
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  return body.dump();
}

}  // namespace

LoadResult StreamClient::run(const std::vector<Json>& bodies, Order order, const OnTick& on_tick) const {
  asio::io_context io(1);
  Load load{port_, {}, bodies.size()};
  load.result.outcomes.resize(bodies.size());
  std::vector<std::string> texts;
  for (const Json& body : bodies) texts.push_back(streamed(body));
  load.start = Clock::now();
  if (order == Order::kAtOnce) {
    for (size_t i = 0; i < texts.size(); ++i)
      asio::co_spawn(io, request_one(load, std::move(texts[i]), load.result.outcomes[i]), asio::detached);
  } else {
    const auto one_by_one = [&]() -> asio::awaitable<void> {
      for (size_t i = 0; i < texts.size(); ++i)
        co_await request_one(load, std::move(texts[i]), load.result.outcomes[i]);
    };
    asio::co_spawn(io, one_by_one, asio::detached);
  }
  if (on_tick) asio::co_spawn(io, tick(load, on_tick), asio::detached);
  io.run();
  return std::move(load.result);
}

}  // namespace kvasir::bench
