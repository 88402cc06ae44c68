#include "server/http/sse.h"

#include <fmt/format.h>

#include "base/check.h"

namespace kvasir {

std::string sse_data(std::string_view json) {
  CHECK(json.find_first_of("\r\n") == std::string_view::npos);
  return fmt::format("data: {}\n\n", json);
}

std::string sse_event(std::string_view name, std::string_view json) {
  return fmt::format("event: {}\n{}", name, sse_data(json));
}

}  // namespace kvasir
