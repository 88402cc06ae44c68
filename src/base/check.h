// CHECK: for our own bugs, never for bad input. A failed CHECK prints where and what, and aborts.
#pragma once

#include <string>

namespace kvasir {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& detail);

}  // namespace kvasir

#define CHECK(condition) \
  (static_cast<bool>(condition) ? void(0) : ::kvasir::check_failed(__FILE__, __LINE__, #condition, ""))

// CHECK_THAT(n > 0, fmt::format("n is {}", n)): the detail is only built when the condition fails.
#define CHECK_THAT(condition, detail) \
  (static_cast<bool>(condition) ? void(0) : ::kvasir::check_failed(__FILE__, __LINE__, #condition, (detail)))
