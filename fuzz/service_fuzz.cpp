// A method, a path and a body, parted by the first blank and the first line break: every route answers.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "small_service.h"

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
  kvasir::ask_small_service(std::move(request));
  return 0;
}
