#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/machine_limits.cpp"
#include <hwy/foreach_target.h>
// After foreach_target, which re-includes this file once per target.
#include <hwy/highway.h>

#include <cstddef>

#include "backend/cpu/kernels.h"
#include "backend/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir::cpu::HWY_NAMESPACE {

inline constexpr int kStreams = 16;

// Reads `floats` numbers as sixteen streams and returns something that depends on all of them.
float read_streams(const float* from, size_t floats) {
  const size_t length = floats / kStreams / kLanes * kLanes;
  Lanes tops[kStreams];
  for (int s = 0; s < kStreams; ++s) tops[s] = broadcast(0.0F);
  for (size_t i = 0; i < length; i += kLanes) {
    for (int s = 0; s < kStreams; ++s) tops[s] = max(tops[s], load(from + static_cast<size_t>(s) * length + i));
  }
  Lanes top = tops[0];
  for (int s = 1; s < kStreams; ++s) top = max(top, tops[s]);
  return max_lanes(top);
}

// `rounds` times 16 independent fused multiply-adds of 16 lanes.
float multiply_add(std::int64_t rounds, float seed) {
  constexpr int kChains = kParts == 1 ? 16 : kParts == 2 ? 6 : 1;
  Lanes sums[kChains];
  for (int c = 0; c < kChains; ++c) sums[c] = broadcast(seed + static_cast<float>(c));
  const Lanes a = broadcast(0.999F);
  const Lanes b = broadcast(seed);
  for (std::int64_t i = 0; i < rounds * 16 / kChains; ++i) {
    for (int c = 0; c < kChains; ++c) sums[c] = fma(sums[c], a, b);
  }
  float all = 0;
  for (int c = 0; c < kChains; ++c) all += sum_lanes(sums[c]);
  return all;
}

LimitKernels limit_table() { return {&read_streams, &multiply_add}; }

}  // namespace kvasir::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "backend/buffer.h"
#include "backend/cpu/machine_limits.h"
#include "backend/cpu/targets.h"
#include "base/thread_pool.h"

namespace kvasir {
namespace cpu {
namespace {

LimitKernels limit_kernels(Isa isa) { KVASIR_CHOOSE(isa, limit_table); }

// The shortest time of several runs of body(thread) on all threads at once.
template <class Body>
double best_seconds(ThreadPool& pool, const Body& body) {
  constexpr int kRuns = 5;
  double best = 1e9;
  for (int run = 0; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    pool.parallel_for(pool.threads(), [&](std::int64_t item, int) { body(static_cast<int>(item)); });
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

}  // namespace
}  // namespace cpu

MachineLimits measure_machine(Isa isa, int threads) {
  const auto kernels = cpu::limit_kernels(isa);
  ThreadPool pool(threads);
  std::vector<float> sink(static_cast<size_t>(threads) * 16);  // a line a thread

  constexpr size_t kFloats = size_t{96} << 20;  // 384 MiB a thread
  const Buffer memory = allocate_host(kFloats * sizeof(float) * static_cast<size_t>(threads));
  pool.parallel_for(threads, [&](std::int64_t t, int) {
    std::memset(memory.as<float>() + static_cast<size_t>(t) * kFloats, 1, kFloats * sizeof(float));
  });
  const double read = cpu::best_seconds(pool, [&](int t) {
    sink[static_cast<size_t>(t) * 16] = kernels.read(memory.as<float>() + static_cast<size_t>(t) * kFloats, kFloats);
  });

  const std::int64_t rounds = isa == Isa::kScalar ? 100'000 : 8'000'000;
  const double multiply = cpu::best_seconds(pool, [&](int t) {
    sink[static_cast<size_t>(t) * 16] = kernels.multiply(rounds, static_cast<float>(t) + 0.5F);
  });

  MachineLimits limits;
  limits.read_bytes_per_second = static_cast<double>(kFloats * sizeof(float)) * threads / read;
  limits.flops_per_second = static_cast<double>(rounds) * 16 * cpu::kLanes * 2 * threads / multiply;
  return limits;
}

}  // namespace kvasir
#endif
