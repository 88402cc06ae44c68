#include "backend/make_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>
#include <thread>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/ref/ref_backend.h"
#include "base/error.h"

namespace kvasir {

namespace {

constexpr std::string_view kCuda = "cuda:";

int cuda_number(std::string_view device) {
  const std::string_view digits = device.substr(kCuda.size());
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number < 0) {
    fail_usage(fmt::format("'{}' is not a device: behind 'cuda:' stands the number of a GPU", device), "--device",
               "use cuda:0 for the first GPU");
  }
  const std::vector<std::string> devices = cuda_devices();
  if (!devices.empty() && number >= std::ssize(devices)) {  // where there is none at all, the backend knows why
    std::string known;
    for (size_t i = 0; i < devices.size(); ++i) {
      known += fmt::format("{}cuda:{} ({})", i == 0 ? "" : ", ", i, devices[i]);
    }
    fail_usage(fmt::format("there is no GPU '{}' here", device), "--device", "use " + known);
  }
  return number;
}

}  // namespace

std::string device_named(const std::string& name) {
  if (name == "cuda") return "cuda:0";
  if (name != "auto") return name;
  return cuda_devices().empty() ? "cpu" : "cuda:0";
}

int batch_tokens(int asked, const std::string& device) {
  if (asked != 0) return asked;
  return device_named(device).starts_with(kCuda) ? 2048 : 512;
}

std::unique_ptr<Backend> make_backend(const BackendOptions& options) {
  const std::string device = device_named(options.device);
  if (device == "ref") return make_ref_backend(options.activations);
  if (device.starts_with(kCuda)) {
    return make_cuda_backend(cuda_number(device), options.activations, options.sm_count);
  }
  if (device != "cpu") {
    fail_usage(fmt::format("'{}' is not a device", device), "--device", "use auto, cpu, cuda:0 or ref");
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
