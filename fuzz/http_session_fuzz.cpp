// Any bytes on a connection, the first saying where they are torn in two: the session answers or closes, and what
// reaches the handler is what handlers may rely on. A socket pair stands for the network.
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

#include "base/check.h"
#include "server/http/http_session.h"

namespace kvasir {
namespace {

constexpr size_t kBodyLimit = 1 << 16;

// A whole reply, or a stream of some pieces.
struct Pieces : Work {
  void on_event(std::function<void()>) override {}
  Progress take() override { return {"piece\n", --left == 0, 200}; }
  Progress give_up(GiveUp) override { return {"", true, 504}; }
  int left = 3;
};

Response handle(const HttpRequest& request) {
  CHECK(is_request_id(request.id));
  CHECK(!request.method.empty());
  CHECK(request.path.find('?') == std::string::npos && request.path.find('\n') == std::string::npos);
  CHECK(request.body.size() <= kBodyLimit);
  Response response;
  if (request.path == "/stream") response.body = Response::Body::kStreamed;
  if (request.path == "/whole") response.body = Response::Body::kWhole;
  if (response.body != Response::Body::kReady) response.work = std::make_unique<Pieces>();
  response.reply.body = "{}";
  return response;
}

class Network {
 public:
  Network() { CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends_) == 0); }
  ~Network() { ::close(ends_[1]); }

  int servers_end() const { return ends_[0]; }  // closed by who takes it

  void send(std::string_view bytes) const {
    // Gone already: it refused the first half.
    if (!bytes.empty()) [[maybe_unused]]
      const ssize_t sent = ::send(ends_[1], bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  void end() const { ::shutdown(ends_[1], SHUT_WR); }

  std::string received() const {
    std::string all;
    char chunk[4096];
    for (ssize_t got = 0; (got = ::recv(ends_[1], chunk, sizeof chunk, MSG_DONTWAIT)) > 0;)
      all.append(chunk, static_cast<size_t>(got));
    return all;
  }

 private:
  int ends_[2]{};
};

void run(std::string_view first, std::string_view second) {
  static HandlerPool handlers({.threads = 1});
  HttpOptions options;
  options.header_bytes = 4096;
  options.body_bytes = kBodyLimit;
  HttpServer::Callbacks callbacks;
  callbacks.handle = handle;
  callbacks.refuse = [](const std::string&, int status, const std::string&) { return HttpReply{status, "x", "{}"}; };
  SessionContext context{options, callbacks, handlers, handlers, BodyBudget(options.bodies_bytes)};
  boost::asio::io_context io(1);
  const Network network;
  boost::asio::ip::tcp::socket socket(io);
  socket.assign(boost::asio::ip::tcp::v4(), network.servers_end());
  {
    const auto session = std::make_shared<Session>(std::move(socket), context);
    boost::asio::co_spawn(io, session->run(), [session](const std::exception_ptr&) {});  // lives until then
  }
  network.send(first);
  io.poll();
  network.send(second);
  network.end();
  io.run();
  const std::string received = network.received();
  CHECK(received.empty() || received.starts_with("HTTP/1.1 "));
}

}  // namespace
}  // namespace kvasir

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > 100'000) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t tear = bytes.size() * data[0] / 255;
  kvasir::run(bytes.substr(0, tear), bytes.substr(tear));
  return 0;
}
