#include "plan/gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "base/error.h"

namespace kvasir {
namespace {

constexpr std::uint64_t kGB = 1'000'000'000;

constexpr std::array<GpuSpec, 19> kGpus{{
    {"RTX 4060", 8 * kGB},  {"RTX 3060", 12 * kGB},  {"T4", 16 * kGB},        {"V100-16GB", 16 * kGB},
    {"RTX 3090", 24 * kGB}, {"RTX 4090", 24 * kGB},  {"A10", 24 * kGB},       {"L4", 24 * kGB},
    {"RTX 5090", 32 * kGB}, {"V100-32GB", 32 * kGB}, {"A100-40GB", 40 * kGB}, {"A40", 48 * kGB},
    {"L40S", 48 * kGB},     {"A100-80GB", 80 * kGB}, {"H100", 80 * kGB},      {"GH200", 96 * kGB},
    {"H200", 141 * kGB},    {"B200", 180 * kGB},     {"MI300X", 192 * kGB},
}};

// Lower case, letters and digits only, less the words that name no card.
std::string canonical(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') out += static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) out += c;
  }
  for (const std::string_view word : {"nvidia", "geforce", "amd", "instinct", "rtx", "gb"}) {
    if (const size_t at = out.find(word); at != std::string::npos) out.erase(at, word.size());
  }
  return out;
}

}  // namespace

std::span<const GpuSpec> known_gpus() { return kGpus; }

GpuGroup gpus_named(std::string_view name) {
  constexpr std::int64_t kMost = 1024;
  GpuGroup out;
  const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  const size_t times = name.find_first_not_of(' ', digits);
  const bool several = digits > 0 && times != std::string_view::npos && (name[times] == 'x' || name[times] == 'X');
  if (!several) return {1, &gpu_named(name)};
  const auto [end, error] = std::from_chars(name.data(), name.data() + digits, out.count);
  if (error != std::errc() || out.count < 1 || out.count > kMost) {
    fail_usage(fmt::format("'{}' is not so many GPUs", name), "--gpu", fmt::format("use 1x to {}x", kMost));
  }
  out.gpu = &gpu_named(name.substr(times + 1));
  return out;
}

const GpuSpec& gpu_named(std::string_view name) {
  const std::string wanted = canonical(name);
  std::string known;
  for (const GpuSpec& gpu : kGpus) {
    if (canonical(gpu.name) == wanted) return gpu;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", gpu.name);
  }
  fail_usage(fmt::format("'{}' is not a known GPU", name), "--gpu", "give --memory, or one of " + known);
}

}  // namespace kvasir
