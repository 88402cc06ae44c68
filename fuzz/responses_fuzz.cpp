// Bodies for /v1/responses: read, turned into a conversation, rendered, and answered or counted.
#include <cstddef>
#include <cstdint>

#include "small_service.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kvasir::ask_route({reinterpret_cast<const char*>(data), size}, "/v1/responses", "/v1/responses/input_tokens");
  return 0;
}
