#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace kvasir {

void check_failed(const char* file, int line, const char* condition, const std::string& detail) {
  std::fprintf(stderr, "%s:%d: internal check failed: %s%s%s\nThis is a bug in Kvasir; please report it.\n", file,
               line, condition, detail.empty() ? "" : ": ", detail.c_str());
  std::abort();
}

}  // namespace kvasir
