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

// Reads `floats` numbers as S streams and returns something that depends on all of them. Streams lie an odd number of
// cache lines apart: at a power of two they would fight for the same lines of the cache.
template <int S>
HWY_INLINE float read_as(const float* from, size_t floats) {
  const size_t lines = (floats / S / kLanes - 1) | 1;
  const size_t length = (lines - 2) * kLanes;
  Lanes tops[S];
  for (int s = 0; s < S; ++s) tops[s] = broadcast(0.0F);
  for (size_t i = 0; i < length; i += kLanes) {
    for (int s = 0; s < S; ++s) tops[s] = max(tops[s], load(from + static_cast<size_t>(s) * lines * kLanes + i));
  }
  Lanes top = tops[0];
  for (int s = 1; s < S; ++s) top = max(top, tops[s]);
  return max_lanes(top);
}

float read_streams(const float* from, size_t floats, int streams) {
  switch (streams) {
    case 2:
      return read_as<2>(from, floats);
    case 4:
      return read_as<4>(from, floats);
    case 8:
      return read_as<8>(from, floats);
    default:
      return read_as<16>(from, floats);
  }
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
#include <vector>

#include "backend/cpu/dot_kernels.h"
#include "backend/cpu/machine_limits.h"
#include "backend/cpu/targets.h"

namespace kvasir {
namespace cpu {
namespace {

LimitKernels limit_kernels(Isa isa) { KVASIR_CHOOSE(isa, limit_table); }

}  // namespace
}  // namespace cpu

namespace {

// The memory in pieces that threads can share.
std::vector<std::span<const float>> pieces_of(const std::vector<std::span<const std::byte>>& memory) {
  constexpr size_t kPiece = size_t{1} << 20;  // 4 MiB
  std::vector<std::span<const float>> pieces;
  for (const std::span<const std::byte> region : memory) {
    const std::span all(reinterpret_cast<const float*>(region.data()), region.size() / sizeof(float));
    for (size_t at = 0; at + 4096 <= all.size(); at += kPiece)
      pieces.push_back(all.subspan(at, std::min(kPiece, all.size() - at)));
  }
  return pieces;
}

// The shortest time of several runs.
template <class Run>
double best_seconds(int runs, const Run& run) {
  double best = 1e9;
  for (int i = 0; i < runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

}  // namespace

MachineLimits::MachineLimits(Isa isa, int threads, const std::vector<std::span<const std::byte>>& memory)
    : isa_(isa), pool_(threads), pieces_(pieces_of(memory)), sink_(static_cast<size_t>(threads) * kSinkStep) {}

double MachineLimits::read_bytes_per_second() {
  constexpr int kRuns = 2;
  const cpu::LimitKernels kernels = cpu::limit_kernels(isa_);
  size_t bytes = 0;
  for (const std::span<const float> piece : pieces_) bytes += piece.size_bytes();
  double seconds = 1e9;
  for (const int streams : {2, 4, 8, 16}) {
    seconds =
        std::min(seconds, best_seconds(kRuns, [&] {
                   pool_.parallel_for(static_cast<std::int64_t>(pieces_.size()), [&](std::int64_t i, int thread) {
                     const std::span<const float> piece = pieces_[static_cast<size_t>(i)];
                     sink(thread) = kernels.read(piece.data(), piece.size(), streams);
                   });
                 }));
  }
  return static_cast<double>(bytes) / seconds;
}

double MachineLimits::flops_per_second(DType weights) {
  constexpr int kRuns = 3;
  const bool pairs = isa_ == Isa::kAvx512Dot && has_bf16_dots() && weights == DType::kBF16;
  const auto multiply = pairs                   ? &cpu::bf16_multiply_add
                        : has_integers(weights) ? cpu::quant_limit_kernels(isa_).multiply
                                                : cpu::limit_kernels(isa_).multiply;
  const int products = pairs ? 2 : has_integers(weights) ? 4 : 1;  // of a lane in one instruction
  const std::int64_t rounds = isa_ == Isa::kScalar ? 100'000 : 8'000'000;
  const int threads = pool_.threads();
  const double seconds = best_seconds(kRuns, [&] {
    pool_.parallel_for(
        threads, [&](std::int64_t i, int thread) { sink(thread) = multiply(rounds, static_cast<float>(i) + 0.5F); });
  });
  return static_cast<double>(rounds) * 16 * cpu::kLanes * 2 * products * threads / seconds;
}

}  // namespace kvasir
#endif
