// A method, a path and a body, parted by the first blank and the first line break: every route answers, with JSON
// where it says so and never with a fault of the server's. The small shipped model stands behind it; the client
// leaves before it has said much.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "server/json_fields.h"
#include "server/service.h"

namespace kvasir {
namespace {

LoadedModel& draft() {
  static LoadedModel model([] {
    LlmOptions options;
    options.model = KVASIR_SOURCE_DIR "/models/tales-draft";
    options.threads = 1;
    options.context = 128;  // a long prompt would be time spent in the model, which is not what is tried here
    return options;
  }());
  return model;
}

void run(HttpRequest request) {
  static Service service(draft(), {});
  request.id = "fuzz";
  const Response response = service.handle(request);
  const HttpReply& reply = response.reply;
  CHECK(reply.status >= 200 && reply.status < 500);
  if (response.body == Response::Body::kReady && reply.content_type == "application/json")
    CHECK(Json::accept(reply.body));
  if (response.work) response.work->take();
}

}  // namespace
}  // namespace kvasir

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t line = all.find('\n');
  if (line == std::string_view::npos) return 0;
  const size_t blank = all.substr(0, line).find(' ');
  if (blank == std::string_view::npos) return 0;
  kvasir::HttpRequest request;
  request.method = all.substr(0, blank);
  request.path = all.substr(blank + 1, line - blank - 1);
  request.body = all.substr(line + 1);
  kvasir::run(std::move(request));
  return 0;
}
