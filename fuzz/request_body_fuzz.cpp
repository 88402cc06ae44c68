// A request body, the first byte choosing the API: any body becomes a request or an ApiError that is the client's
// fault, and the error's reply is JSON.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "server/api/anthropic_parse.h"
#include "server/api/api_error.h"
#include "server/api/ollama_parse.h"
#include "server/api/openai_parse.h"
#include "server/api/responses_parse.h"

namespace kvasir {
namespace {

void parse(std::uint8_t api, const Json& body) {
  switch (api % 8) {
    case 0:
      parse_openai_chat(body);
      break;
    case 1:
      parse_openai_completion(body);
      break;
    case 2:
      parse_anthropic_messages(body);
      break;
    case 3:
      parse_anthropic_count(body);
      break;
    case 4:
      parse_ollama_chat(body);
      break;
    case 5:
      parse_ollama_generate(body);
      break;
    case 6: {
      const ResponsesRequest request = parse_responses(body);
      messages_of(request.instructions, request.items);
      break;
    }
    default:
      parse_responses_count(body);
      break;
  }
}

}  // namespace
}  // namespace kvasir

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  try {
    kvasir::parse(data[0], kvasir::parse_json({reinterpret_cast<const char*>(data) + 1, size - 1}));
  } catch (const kvasir::ApiError& error) {
    CHECK(error.reply().status == 400);
    for (const auto dialect : {kvasir::Dialect::kOpenAi, kvasir::Dialect::kAnthropic, kvasir::Dialect::kOllama}) {
      CHECK(kvasir::Json::accept(kvasir::error_body(dialect, error)));
    }
  }
  return 0;
}
