// The service with the small shipped model behind it, for what reaches it as HTTP.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/check.h"
#include "server/api/json_fields.h"
#include "server/service.h"

namespace kvasir {

// Every answer is one that a client deserves: JSON where it says so, and never a fault of the server's. The client
// leaves before much has been said.
inline void ask_small_service(HttpRequest request) {
  static LoadedModel model([] {
    LlmOptions options;
    options.model = KVASIR_SOURCE_DIR "/models/tales-draft";
    options.threads = 1;
    options.context = 512;  // a long prompt would be time spent in the model, which is not what is tried here
    return options;
  }());
  static Service service(model, {});
  request.id = "fuzz";
  const Response response = service.handle(request);
  const HttpReply& reply = response.reply;
  CHECK_THAT(reply.status >= 200 && reply.status < 500, reply.body);
  if (response.body == Response::Body::kReady && reply.content_type == "application/json")
    CHECK(Json::accept(reply.body));
  if (response.work) response.work->take();
}

// \x01 and a character is that character five thousand times: what is deep or long is not found byte by byte.
inline std::string amplified(std::string_view text) {
  constexpr size_t kTimes = 5000;
  constexpr size_t kMost = 1 << 18;
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool many = text[i] == '\x01' && i + 1 < text.size() && out.size() < kMost;
    if (many)
      out.append(kTimes, text[++i]);
    else
      out += text[i];
  }
  return out;
}

// A body for one of two routes: the one that answers, and the one that only counts, which reads and renders alike.
inline void ask_route(std::string_view input, const char* answers, const char* counts) {
  if (input.empty()) return;
  HttpRequest request;
  request.method = "POST";
  request.path = input[0] % 2 == 0 ? answers : counts;
  request.body = amplified(input.substr(1));
  ask_small_service(std::move(request));
}

}  // namespace kvasir
