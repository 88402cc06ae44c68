#include "backend/make_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "backend/ref/ref_backend.h"
#include "base/error.h"

namespace kvasir {

std::unique_ptr<Backend> make_backend(const BackendOptions& options) {
  if (options.device == "ref") return make_ref_backend(options.activations);
  if (options.device != "cpu") {
    fail_usage(fmt::format("'{}' is not a device", options.device), "--device", "use cpu or ref");
  }
  if (options.threads < 0 || options.threads > 1024) {
    fail_usage(fmt::format("{} threads make no sense", options.threads), "--threads",
               "use 1 to 1024, or 0 for all cores");
  }
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return make_cpu_backend(options.threads == 0 ? cores : options.threads, parse_isa(options.isa),
                          options.activations);
}

}  // namespace kvasir
