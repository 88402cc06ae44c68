#include "cli/bench/bench_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/hash.h"

namespace kvasir {
namespace {

using Clock = std::chrono::steady_clock;

// What no op accounts for: scheduling, the cache's books, sampling.
OpProfile rest_of(const StepProfile& profile) {
  OpProfile rest{"everything else", profile.steps, profile.seconds, 0};
  for (const OpProfile& op : profile.ops) rest.seconds -= op.seconds;
  return rest;
}

std::vector<OpProfile> rows_of(const StepProfile& profile) {
  std::vector<OpProfile> rows = profile.ops;
  rows.push_back(rest_of(profile));
  std::ranges::stable_sort(rows, std::greater<>(), &OpProfile::seconds);
  return rows;
}

}  // namespace

StepProfile profile_decode(ProfileBackend& backend, Model& model, const EngineConfig& config, std::int64_t depth,
                           std::int64_t tokens) {
  EngineConfig fitting = config;
  constexpr std::int64_t kWarmUp = 2;  // steps in which a GPU looks for its fastest kernels
  fitting.context = depth + tokens + kWarmUp + 3;
  Engine engine(backend, model, fitting);
  Request request;
  request.sampling.temperature = 0;
  request.max_tokens = tokens + kWarmUp + 1;
  const auto vocab = static_cast<std::uint64_t>(model.config().vocab);
  for (std::int64_t i = 0; i < std::max<std::int64_t>(depth, 1); ++i) {
    request.prompt.push_back(static_cast<TokenId>(mix(11, static_cast<std::uint64_t>(i), 7) % vocab));
  }
  StepProfile profile;
  Clock::time_point first{};
  std::int64_t before = 0;
  engine.submit(std::move(request), [&](const Update& update) {
    if (update.token < 0) return;
    if (before <= kWarmUp) {  // the prompt is behind us: what follows is decode
      ++before;
      backend.forget();
      first = Clock::now();
      return;
    }
    ++profile.steps;
    profile.seconds = std::chrono::duration<double>(Clock::now() - first).count();
    profile.ops = backend.ops();
  });
  engine.run();
  return profile;
}

void print_profile(const StepProfile& profile, double read_bytes_per_second) {
  const auto steps = static_cast<double>(profile.steps);
  fmt::print("one decode step: {:.3f} ms, mean of {}", 1e3 * profile.seconds / steps, profile.steps);
  if (read_bytes_per_second > 0) fmt::print("; the machine reads {:.1f} GB/s", read_bytes_per_second / 1e9);
  fmt::print("\n\n");
  fmt::print("{:<24} {:>7} {:>10} {:>8} {:>10} {:>8} {:>9}\n", "op", "calls", "ms", "of step", "MB", "GB/s",
             "of best");
  for (const OpProfile& op : rows_of(profile)) {
    const double rate = op.seconds > 0 ? op.bytes / op.seconds : 0;
    const bool counts = op.bytes / steps > 1e6;  // less than that never leaves the caches
    fmt::print("{:<24} {:>7.0f} {:>10.3f} {:>7.1f}% {:>10.2f} {:>8} {:>9}\n", op.name,
               static_cast<double>(op.calls) / steps, 1e3 * op.seconds / steps, 100 * op.seconds / profile.seconds,
               op.bytes / steps / 1e6, counts ? fmt::format("{:.1f}", rate / 1e9) : "",
               counts && read_bytes_per_second > 0 ? fmt::format("{:.0f}%", 100 * rate / read_bytes_per_second) : "");
  }
}

std::string profile_json(const StepProfile& profile, double read_bytes_per_second) {
  const auto steps = static_cast<double>(profile.steps);
  nlohmann::ordered_json out{{"steps", profile.steps},
                             {"seconds_per_step", profile.seconds / steps},
                             {"read_bytes_per_second", read_bytes_per_second},
                             {"ops", nlohmann::ordered_json::array()}};
  for (const OpProfile& op : rows_of(profile)) {
    out["ops"].push_back({{"op", op.name},
                          {"calls_per_step", static_cast<double>(op.calls) / steps},
                          {"seconds_per_step", op.seconds / steps},
                          {"bytes_per_step", op.bytes / steps}});
  }
  return out.dump(2);
}

}  // namespace kvasir
